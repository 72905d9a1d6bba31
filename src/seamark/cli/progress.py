"""How a change goes, one line a step on standard error."""

from __future__ import annotations

from seamark.changes.result import StepResult
from seamark.changes.result_view import build_step_line
from seamark.cli.session import Session
from seamark.report.terminal import can_color
from seamark.report.text import Line, Span, Style, line, render_lines


class StepLines:
    """Tells the terminal. `change` is the id once the change is open, for whoever must say what to type next."""

    def __init__(self, session: Session, *, change: str = "") -> None:
        self._session = session
        self.change = change

    def opened(self, change: str, *, steps: int) -> None:
        """The change has its id and its locks."""
        self.change = change
        self._write(line(Span(f"Change {change}", Style.STRONG), f", {steps} step{'' if steps == 1 else 's'}"))

    def begun(self, number: int, words: str) -> None:
        """Nothing: a step's one line comes when it has ended."""

    def waiting(self, words: str) -> None:
        """Something takes longer; people should know what."""
        self._write(line("  ", Span("…", Style.MUTED), f" {words}"))

    def ended(self, result: StepResult) -> None:
        """A step ended."""
        self._write(build_step_line(result))

    def _write(self, text: Line) -> None:
        if self._session.quiet:
            return
        reporter = self._session.reporter
        color = can_color(self._session.err, reporter.color, reporter.environ)
        self._session.out.flush()
        self._session.err.write(render_lines([text], color=color))
        self._session.err.flush()
