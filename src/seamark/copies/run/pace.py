"""How a run goes: its rate, the time that is left, and a limit on the rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from seamark.spark.slices import Slice


@dataclass(frozen=True, slots=True)
class CopyTick:
    """Where a run is after a slice. `records` are offsets, which are records at most."""

    done: int
    slices: int
    records: int
    all_records: int
    rate: float
    left_seconds: float | None


class CopyEvents(Protocol):
    """Whoever is told how a run goes."""

    def said(self, words: str) -> None:
        """Something that a person should know."""

    def ticked(self, tick: CopyTick) -> None:
        """A slice is done."""


class Silent:
    """Tells nobody."""

    def said(self, words: str) -> None:
        """Nothing."""

    def ticked(self, tick: CopyTick) -> None:
        """Nothing."""


@dataclass(slots=True)
class CopyPace:
    """Counts slices, tells of them, and waits after each as long as the limit asks for.

    `limit` is in records a second; None: as fast as it goes.
    """

    slices: tuple[Slice, ...]
    events: CopyEvents
    now: Callable[[], float]
    sleep: Callable[[float], None]
    limit: int | None = None
    began_at: float = 0.0
    written: int = 0
    _last: float = field(default=0.0)

    def begin(self) -> None:
        """The first slice is about to begin."""
        self.began_at = self._last = self.now()

    def on_slice(self, part: Slice, done: int, slices: int) -> None:
        """A slice is done: say it, and wait where it was faster than allowed."""
        self.written += part.size
        if self.limit is not None and done < slices:
            self.sleep(max(0.0, part.size / self.limit - (self.now() - self._last)))
        self._last = self.now()
        whole = sum(one.size for one in self.slices)
        reached = sum(one.size for one in self.slices[:done])
        seconds = max(self._last - self.began_at, 1e-9)
        rate = self.written / seconds
        self.events.ticked(
            CopyTick(done, slices, reached, whole, rate, left_seconds=(whole - reached) / rate if rate else None)
        )
