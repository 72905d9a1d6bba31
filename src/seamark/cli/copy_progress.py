"""How a copy goes, on standard error: one line that is drawn over on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from seamark.cli.session import Session
from seamark.report.terminal import is_terminal
from seamark.report.words import render_duration, render_number

if TYPE_CHECKING:
    from seamark.copies.run.pace import CopyTick

_EVERY_SECONDS = 10.0


class CopyLines:
    """Tells the terminal."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._is_drawn = False
        self._said_at: float | None = None

    def said(self, words: str) -> None:
        """A line of its own."""
        self._end_line()
        self._session.reporter.note(words)

    def ticked(self, tick: CopyTick) -> None:
        """A slice is done."""
        session = self._session
        if session.quiet:
            return
        text = render_tick(tick)
        if is_terminal(session.err):
            self._is_drawn = session.draws = True
            session.err.write(f"\r\x1b[K{text}")
            session.err.flush()
            return
        now = time.monotonic()
        if self._said_at is None or now - self._said_at >= _EVERY_SECONDS or tick.done == tick.slices:
            self._said_at = now
            session.reporter.note(text)

    def close(self) -> None:
        """Nothing more comes."""
        self._end_line()

    def _end_line(self) -> None:
        if self._is_drawn:
            self._session.err.write("\n")
            self._session.err.flush()
        self._is_drawn = self._session.draws = False


def render_tick(tick: CopyTick) -> str:
    """One line: how much of how much, how fast, and for how long still."""
    share = 100 * tick.records // tick.all_records if tick.all_records else 100
    left = ""
    if tick.left_seconds is not None and tick.done < tick.slices:
        left = f", {render_duration(tick.left_seconds)} left"
    return (
        f"  slice {tick.done} of {tick.slices} · {render_number(tick.records)} of {render_number(tick.all_records)} "
        f"({share} %) · {render_number(round(tick.rate))} records/s{left}"
    )
