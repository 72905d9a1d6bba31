"""How a landing goes, on standard error: a line now and then."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from seamark.cli.session import Session
from seamark.report.words import render_number

if TYPE_CHECKING:
    from seamark.pipelines.landing import BatchLanded
    from seamark.pipelines.metrics import LandMetrics
    from seamark.pipelines.outage import RetryWait

_EVERY_SECONDS = 10.0


class LandLines:
    """Tells the terminal what the metrics say."""

    def __init__(self, session: Session, metrics: LandMetrics) -> None:
        self._session = session
        self._metrics = metrics
        self._said_at: float | None = None

    def landed(self, batch: BatchLanded) -> None:
        """Count a batch, and say how it goes where nothing was said for a while."""
        self._metrics.landed(batch)
        now = time.monotonic()
        if self._said_at is None or now - self._said_at >= _EVERY_SECONDS:
            self._said_at = now
            self._session.reporter.note(f"  {self.say()}")

    def waiting(self, wait: RetryWait) -> None:
        """Say that something can't be reached, and when it is tried again."""
        self._metrics.waiting(wait)
        self._session.reporter.note(f"  {wait.reason}; next try in {wait.seconds:g} s")

    def close(self) -> None:
        """Say what was done in all."""
        self._session.reporter.note(self.say())

    def say(self) -> str:
        """The line."""
        found = self._metrics
        beside = f", {render_number(found.deleted)} deleted" if found.deleted else ""
        beside += f", {render_number(found.dead)} dead letters" if found.dead else ""
        line = f"batch {found.batches} · {render_number(found.rows)} rows{beside}"
        # Spark tells of a batch after it: it is the one before that is known here. The time in which Spark started
        # is no part of it.
        if (last := found.last) is not None:
            line += f" · {render_number(round(last.rate))} records/s · {last.seconds:.1f} s a batch"
            line += "" if last.behind is None else f" · {render_number(last.behind)} behind"
        return line
