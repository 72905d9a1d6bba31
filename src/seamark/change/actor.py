"""Who acts, when, and under which ids. A value, so that a simulation can have its own."""

from __future__ import annotations

import getpass
import os
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from seamark.model.clock_mark import ClockMark, read_mark
from seamark.model.ulid import new_ulid


@dataclass(frozen=True, slots=True)
class Actor:
    """A person on a machine, with a clock and a source of randomness.

    `mark` returns the present point in time on the machine's clock; None where it has none that can be compared.
    """

    name: str
    now: Callable[[], float] = time.time
    randomness: Callable[[int], bytes] = secrets.token_bytes
    mark: Callable[[], ClockMark | None] = lambda: None

    def timestamp(self) -> str:
        """Now, in UTC and ISO 8601."""
        return datetime.fromtimestamp(self.now(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def new_id(self) -> str:
        """A new change id; ids sort by time."""
        return new_ulid(self.now(), self.randomness(10))

    def new_nonce(self) -> str:
        """A name for one hold of the locks, which nobody can guess."""
        return self.randomness(8).hex()


def this_actor() -> Actor:
    """Whoever runs this process: user@machine, with its process id."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return Actor(f"{user}@{socket.gethostname()}:{os.getpid()}", mark=read_mark)
