"""Outages of what a pipeline needs: which errors pass by themselves, and how long to wait. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from seamark.errors import SeamarkError

_FIRST_SECONDS, _LONGEST_SECONDS = 1.0, 60.0
PATIENCE_SECONDS = 3600.0
"""How long an outage may last. Longer than a failover or a rolling upgrade takes, shorter than a night."""
# Of an error of a task, and of its own Kafka client, Spark passes on the text alone.
_PASSING = re.compile(
    r"seamark\.errors\.(Unreachable|Deadline|Unsettled)Error"
    r"|org\.apache\.kafka\.common\.errors\."
    r"(Timeout|Disconnect|Network|BrokerNotAvailable|LeaderNotAvailable|NotLeaderOrFollower|CoordinatorNotAvailable"
    r"|CoordinatorLoadInProgress|KafkaStorage)Exception"
    r"|java\.net\.(Connect|Socket|NoRouteToHost)Exception"
)


@dataclass(frozen=True, slots=True)
class RetryWait:
    """A pause before the next try: how long, which one it is, and what passed by itself so far."""

    seconds: float
    number: int
    reason: str


OnWait = Callable[[RetryWait], None]


def is_passing(error: BaseException) -> bool:
    """Whether an error is likely to pass by itself: something can't be reached, and nothing is wrong with the work."""
    if isinstance(error, SeamarkError):
        return error.retryable
    return _PASSING.search(str(error)) is not None


class Outage:
    """The back-off of one run: pauses double from 1 s to 60 s, and begin anew after each batch that was landed."""

    def __init__(self, *, patience_seconds: float = PATIENCE_SECONDS, clock: Callable[[], float]) -> None:
        self._patience_seconds = patience_seconds
        self._clock = clock
        self._began_at: float | None = None
        self._number = 0

    def end(self) -> None:
        """Note that work was done: whatever comes next is another outage."""
        self._began_at, self._number = None, 0

    def plan(self, error: BaseException) -> RetryWait | None:
        """Plan the pause after an error.

        Args:
            error: What ended the last try.

        Returns:
            The pause; None where the error doesn't pass, or has lasted for too long.
        """
        if not is_passing(error):
            return None
        now = self._clock()
        if self._began_at is None:
            self._began_at = now
        if now - self._began_at >= self._patience_seconds:
            return None
        seconds = min(_LONGEST_SECONDS, _FIRST_SECONDS * 2**self._number)
        self._number += 1
        return RetryWait(seconds, self._number, _describe(error))


def _describe(error: BaseException) -> str:
    if isinstance(error, SeamarkError):
        return error.message
    found = _PASSING.search(str(error))
    line = str(error)[found.start() :].partition("\n")[0] if found else str(error).partition("\n")[0]
    return line[:200]
