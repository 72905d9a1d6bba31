"""The actor of a change, its clock and its source of IDs. A value, so that a simulation can have its own."""

from __future__ import annotations

import os
import pwd
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from seamark.changes.clock_mark import ClockMark, read_mark
from seamark.changes.ulid import new_ulid
from seamark.policy.permission import ANONYMOUS

# The variables by which CI systems name the job at hand and the commit that it runs on.
_JOBS = ("CI_JOB_URL", "BUILD_URL", "GITHUB_RUN_ID", "BUILDKITE_BUILD_URL", "CIRCLE_BUILD_URL")
_COMMITS = ("CI_COMMIT_SHA", "GITHUB_SHA", "GIT_COMMIT", "BUILDKITE_COMMIT", "CIRCLE_SHA1")
_LONGEST_CLAIM = 200


@dataclass(frozen=True, slots=True)
class Actor:
    """A principal on a machine, with a clock and a source of randomness.

    `facts` is what the journal records of it. What anybody can set, such as the operating system's user or a variable
    of a CI job, is under `claimed`.
    `mark` returns the present point in time on the machine's clock; None where it has none that can be compared.
    """

    name: str
    now: Callable[[], float] = time.time
    randomness: Callable[[int], bytes] = secrets.token_bytes
    facts: Mapping[str, Any] = field(default_factory=dict)
    mark: Callable[[], ClockMark | None] = lambda: None

    def timestamp(self) -> str:
        """Return the time now, in UTC and ISO 8601."""
        return datetime.fromtimestamp(self.now(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def new_id(self) -> str:
        """Return a new change ID; IDs sort by time."""
        return new_ulid(self.now(), self.randomness(10))

    def new_nonce(self) -> str:
        """Return an unguessable name for one hold of the locks."""
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
    """Return the user of the process, not what LOGNAME and USER say."""
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
