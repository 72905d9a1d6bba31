"""How long a call may take, and how long to pause between attempts."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from seamark.errors import UsageError


@dataclass(frozen=True, slots=True)
class Timing:
    """Every limit of a call. None of them can be switched off.

    `deadline_seconds` is the time in which attempts are begun. A read is cut off there, but gets a second in any case.
    A write that was begun gets its full `herder_seconds`, because cutting it off would only make its outcome unknown:
    it ends at the latest after `deadline_seconds + connect_seconds + herder_seconds`.
    """

    # A worker on the same network accepts within milliseconds; SYN retries come at 1 s and 3 s, so 5 s sees two.
    connect_seconds: float = 5.0
    # Snapshot reads (fleet, status, plugins) do not queue; ten thousand connectors are written in a few seconds.
    read_seconds: float = 30.0
    # What queues on the herder's one thread is given up by Connect itself after 90 s (not configurable). Asking
    # for less would turn its answer into silence; 10 s more cover the hop from a follower to the leader.
    herder_seconds: float = 100.0
    # A rebalance of a large cluster ends within seconds; kcctl gives up after 30 s and users report that as too short.
    deadline_seconds: float = 60.0
    first_pause_seconds: float = 0.1
    # The herder ticks within a second or two; asking more rarely than every 3 s only makes people wait.
    longest_pause_seconds: float = 3.0
    # When no worker accepts a connection: once around, a pause, once more. A worker's restart takes longer than anyone
    # watches a prompt, so waiting for the whole deadline would help nobody.
    rounds: int = 2

    def __post_init__(self) -> None:
        """Refuse what would make a call endless.

        Raises:
            UsageError: a limit is not a positive number.
        """
        for name in self.__slots__:
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"{name} must be a positive number", hint="no call may take for ever")

    def pauses(self) -> Iterator[float]:
        """Pauses that double up to the longest, each shortened by chance so that many callers do not come at once."""
        pause = self.first_pause_seconds
        while True:
            yield pause * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
            pause = min(pause * 2, self.longest_pause_seconds)
