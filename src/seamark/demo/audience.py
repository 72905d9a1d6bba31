"""What the audience sees and answers."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TextIO

from seamark.report.text import Span, Style, line, render_lines

# Longer lines are hard to read; a terminal may be narrower, and a pipe has no width of its own.
_WIDTH = 100


@dataclass(slots=True)
class Audience:
    """Writes to one stream; where `waits` is set, a person says when it goes on."""

    out: TextIO
    stdin: TextIO
    width: int | None = None
    color: bool = False
    waits: bool = False

    def title(self, text: str) -> None:
        """The begin of a chapter."""
        self._write("")
        self._write(text, Style.STRONG)

    def say(self, text: str) -> None:
        """A sentence of the story."""
        self._write("")
        for part in self._wrap(text):
            self._write(part)

    def show(self, prompt: str, text: str) -> None:
        """What is done, as a person would do it."""
        self._line(Span(f"{prompt} ", Style.MUTED), Span(text, Style.STRONG))

    def look(self, text: str) -> None:
        """What to look at in what was just written."""
        for number, part in enumerate(self._wrap(text, less=2)):
            self._line(Span("  " if number else "→ ", Style.GOOD), part)

    def tell(self, text: str) -> None:
        """Progress, and remarks beside the story."""
        self._write(f"  {text}", Style.MUTED)

    def goes_on(self) -> bool:
        """Wait for Enter; False where the person has had enough."""
        if not self.waits:
            return True
        asked = render_lines([line(Span("  Enter goes on, q quits", Style.MUTED))], color=self.color)
        self.out.write(f"{asked.rstrip()} ")
        self.out.flush()
        answer = self.stdin.readline()
        # No line at all is the end of the input: nobody is there any more.
        return bool(answer) and answer.strip().lower() not in ("q", "quit")

    def _wrap(self, text: str, *, less: int = 0) -> list[str]:
        return textwrap.wrap(text, min(self.width or _WIDTH, _WIDTH) - less, break_on_hyphens=False)

    def _write(self, text: str, style: Style = Style.PLAIN) -> None:
        self._line(Span(text, style))

    def _line(self, *parts: str | Span) -> None:
        self.out.write(render_lines([line(*parts)], color=self.color))
        # Commands write to the same terminal by themselves: what was said must be there before.
        self.out.flush()
