"""The absolute deadline of a request that changes something: after it, no byte of the request may be sent.

The executor sets one deadline when the intent of a step is confirmed, and the clients check it right before they send.
It is passed in a context variable, because between the two are the steps and the ports of every resource, and one of
them that forgot to hand it on would send without a limit.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from seamark.errors import DeadlineError

# CLOCK_BOOTTIME counts while a process is stopped and while the machine sleeps, and nothing can set it. On systems
# without it, CLOCK_MONOTONIC does not count while the machine sleeps.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

# librdkafka takes whole milliseconds, and a message.timeout.ms of 0 for no limit at all.
_LEAST_SECONDS = 0.01


def read_clock() -> float:
    """Return seconds of a clock that only moves forward, including the time for which the machine slept."""
    return time.clock_gettime(_CLOCK)


@dataclass(frozen=True, slots=True)
class Deadline:
    """The last time at which a request may be sent, on the clock that `read` reads."""

    ends_at: float
    read: Callable[[], float] = read_clock

    @property
    def remaining(self) -> float:
        """Seconds that are left; negative after the deadline."""
        return self.ends_at - self.read()


_current: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


@contextmanager
def limit_requests(deadline: Deadline) -> Iterator[None]:
    """Let no request of this block be sent after the deadline. Threads that the block starts need its context."""
    token = _current.set(deadline)
    try:
        yield
    finally:
        _current.reset(token)


def find_deadline() -> Deadline | None:
    """Return the deadline of the block that this code runs in; None outside of a change."""
    return _current.get()


def check_deadline(action: str) -> None:
    """Refuse to send a request after its deadline. `action` completes "can't …".

    Raises:
        DeadlineError: the deadline has passed. Nothing was sent.
    """
    deadline = find_deadline()
    if deadline is not None and deadline.remaining <= 0:
        raise build_late(action, deadline)


def limit_timeout(seconds: float, *, action: str) -> float:
    """Return how long a client may take for a request: `seconds`, or less where the deadline is nearer.

    A Kafka client sends a request at any time until its timeout, for example when it has found the coordinator.

    Raises:
        DeadlineError: the deadline has passed. Nothing was sent.
    """
    deadline = find_deadline()
    if deadline is None:
        return seconds
    remaining = deadline.remaining
    if remaining < _LEAST_SECONDS:
        raise build_late(action, deadline)
    return min(seconds, remaining)


def build_late(action: str, deadline: Deadline) -> DeadlineError:
    """Return the error for a request that was not sent because its deadline has passed."""
    return DeadlineError(
        f"can't {action}: the deadline of the request has passed; nothing was sent",
        cause=f"{max(0.0, -deadline.remaining):.1f} s late: this process was stopped, or a read before it was slow",
        hint="run the command again",
    )


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|min|s|m|h|d)?"
# Days and weeks of 24 hours, as in Java, whose tools read these texts too. A month or a year has no fixed length.
_ISO = re.compile(
    r"P(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?(?:T(?=\d)(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)


def parse_duration(text: str) -> float:
    """Seconds of `500ms`, `2s`, `90`, `5m`, `1h`, `2d` or ISO 8601 (`PT1H30M`, `P7D`); a ValueError for other text."""
    found = re.fullmatch(_PART, text.strip())
    if found:
        return float(found["number"]) * _UNITS[found["unit"] or "s"]
    iso = _ISO.fullmatch(text.strip())
    if iso and any(iso.groups()):
        return sum(float(iso[unit] or 0) * _UNITS[unit] for unit in "wdhms")
    raise ValueError(f"{text!r} is not a duration")
