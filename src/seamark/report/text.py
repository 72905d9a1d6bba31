"""Lines of styled spans: what a person sees, before it is known where.

Views build lines from any text. `render_lines` is the one place that escapes and colours them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from seamark.report.safety import escape


class Style(StrEnum):
    """What a span means to the reader; the value is its SGR code. Colour never stands alone."""

    PLAIN = ""
    STRONG = "1"
    MUTED = "2"
    GOOD = "32"
    WARN = "33"
    BAD = "31"


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of one line. Its text may come from anywhere: it is escaped when rendered."""

    text: str
    style: Style = Style.PLAIN


Line = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Screen:
    """Where lines will be shown.

    `width` is None where nothing may be cut: a pipe or a file. `headers` says whether tables have
    a title row, `wide` whether they show every column.
    """

    width: int | None = None
    color: bool = False
    headers: bool = True
    wide: bool = False


def line(*parts: str | Span) -> Line:
    """A line from plain text and spans."""
    return tuple(part if isinstance(part, Span) else Span(part) for part in parts)


def render_lines(lines: Iterable[Line], *, color: bool = False) -> str:
    """The lines as text, each ended by a newline, every span escaped."""
    return "".join(f"{_render_line(spans, color=color)}\n" for spans in lines)


def _render_line(spans: Line, *, color: bool) -> str:
    last = len(spans) - 1
    # Padding of the last cell would be invisible, but copied along.
    texts = [escape(span.text).rstrip() if index == last else escape(span.text) for index, span in enumerate(spans)]
    if not color:
        return "".join(texts)
    return "".join(
        f"\x1b[{span.style.value}m{text}\x1b[0m" if span.style and text else text
        for span, text in zip(spans, texts, strict=True)
    )
