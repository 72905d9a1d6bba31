"""Virtual time. What is to happen later happens when the time is moved past it."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

START = 1_800_000_000.0
# No run of a few changes takes a day; one that does waits for something that never comes.
_END = START + 86_400.0


class Timeline:
    """The one time of a simulated world, and what is going to happen in it."""

    def __init__(self) -> None:
        self.now = START
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def at(self, when: float, event: Callable[[], None]) -> None:
        """Let something happen at a time."""
        heapq.heappush(self._events, (max(when, self.now), next(self._numbers), event))

    def advance(self, seconds: float) -> None:
        """Let time pass, and what is due happen in its order."""
        end = self.now + seconds
        if end > _END:
            raise AssertionError("a day of virtual time has passed: something waits for ever")
        while self._events and self._events[0][0] <= end:
            self.now, _, event = heapq.heappop(self._events)
            event()
        self.now = end

    def drain(self) -> None:
        """Let everything happen that is going to."""
        while self._events:
            self.advance(self._events[0][0] - self.now)
