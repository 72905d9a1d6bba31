"""The actor of a change, with its clock and source of IDs. A value, so that a simulation can provide its own."""

from __future__ import annotations

import hashlib
import math
import os
import pwd
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from seamark.core.time import read_clock
from seamark.errors import UsageError
from seamark.policy.permissions import ANONYMOUS

# Wall clocks of two machines differ, and a wall clock can be set. The clock since the start of a machine can't be set,
# but its values are meaningful only on that machine, and until it is restarted.

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# Processes in another time namespace have the same boot ID and another CLOCK_BOOTTIME.
_TIME_NAMESPACE = Path("/proc/self/ns/time")


@dataclass(frozen=True, slots=True)
class ClockMark:
    """A point in time. `boot` identifies one start of one machine, `seconds` is the time since that start."""

    boot: str
    seconds: float

    def measure_since(self, earlier: ClockMark | None) -> float:
        """Return the seconds since an earlier mark; 0.0 if that mark is from another start or unknown."""
        if earlier is None or earlier.boot != self.boot:
            return 0.0
        return max(0.0, self.seconds - earlier.seconds)

    def to_dict(self) -> dict[str, Any]:
        """Return the mark as the journal stores it."""
        return {"boot": self.boot, "seconds": round(self.seconds, 3)}

    @classmethod
    def from_dict(cls, data: Any) -> ClockMark | None:
        """Build the mark from what `to_dict` returned; return None for anything else."""
        if not isinstance(data, Mapping):
            return None
        boot, seconds = data.get("boot"), data.get("seconds")
        if not isinstance(boot, str) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
            return None
        return cls(boot, float(seconds))


def read_mark() -> ClockMark | None:
    """Return the current point in time; None on systems that can't distinguish two starts."""
    try:
        boot = _BOOT_ID.read_text().strip() + str(_TIME_NAMESPACE.readlink())
    except OSError:
        return None
    # The journal only needs to compare it, so a hash is enough.
    return ClockMark(hashlib.sha256(boot.encode()).hexdigest()[:16], read_clock())


_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LENGTH = 26


def new_ulid(at: float, randomness: bytes) -> str:
    """Build an ID from a point in time, in seconds since the epoch, and ten random bytes."""
    if len(randomness) != 10:
        raise UsageError("a ULID needs ten random bytes")
    number = int(at * 1000) << 80 | int.from_bytes(randomness, "big")
    return "".join(_LETTERS[number >> shift & 31] for shift in range(125, -1, -5))


def ulid_time(ulid: str) -> float:
    """Return when an ID was created, in seconds since the epoch."""
    number = 0
    for letter in ulid[:10]:
        number = number << 5 | _LETTERS.index(letter)
    return number / 1000


# The variables in which CI systems provide the current job and its commit.
_JOBS = ("CI_JOB_URL", "BUILD_URL", "GITHUB_RUN_ID", "BUILDKITE_BUILD_URL", "CIRCLE_BUILD_URL")
_COMMITS = ("CI_COMMIT_SHA", "GITHUB_SHA", "GIT_COMMIT", "BUILDKITE_COMMIT", "CIRCLE_SHA1")
_LONGEST_CLAIM = 200


@dataclass(frozen=True, slots=True)
class Actor:
    """A principal on a machine, with a clock and a source of randomness.

    `facts` is what the journal records about the actor. Values that any user can set, such as the operating system's
    user or a variable of a CI job, are under `claimed`. `mark` returns the current point in time on the machine's
    clock, or None if the machine has no comparable clock.
    """

    name: str
    now: Callable[[], float] = time.time
    randomness: Callable[[int], bytes] = secrets.token_bytes
    facts: Mapping[str, Any] = field(default_factory=dict)
    mark: Callable[[], ClockMark | None] = lambda: None

    def timestamp(self) -> str:
        """Return the current time, in UTC and ISO 8601."""
        return datetime.fromtimestamp(self.now(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def new_id(self) -> str:
        """Return a new change ID; IDs sort by time."""
        return new_ulid(self.now(), self.randomness(10))

    def new_nonce(self) -> str:
        """Return an unguessable name for one period of holding the locks."""
        return self.randomness(8).hex()


def this_actor(principal: str = ANONYMOUS, environ: Mapping[str, str] | None = None) -> Actor:
    """Return the actor of this process: the principal, the host and the process ID.

    Without a principal, the name is that of the operating system's user, marked as claimed.
    """
    host, pid, user = socket.gethostname(), os.getpid(), _find_user()
    known = principal if principal != ANONYMOUS else ""
    claimed = {"user": user, **_find_claims(os.environ if environ is None else environ)}
    name = known.removeprefix("User:") or f"claimed:{user}"
    facts = {"principal": principal, "host": host, "pid": pid, "claimed": claimed}
    return Actor(f"{name}@{host}:{pid}", mark=read_mark, facts=facts)


def _find_user() -> str:
    """Return the user of the process, regardless of LOGNAME and USER."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _find_claims(environ: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for claim, names in (("job", _JOBS), ("commit", _COMMITS)):
        if text := next((environ[name] for name in names if environ.get(name)), ""):
            found[claim] = text[:_LONGEST_CLAIM]
    return found
