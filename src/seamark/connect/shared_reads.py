"""What many want to know of one cluster at once, read for all of them together.

Connect asks its herder for one connector's config, and refuses it while a rebalance is due: on two workers every change
costs such a reader 1.5 s. The list of all connectors comes at once from the worker's copy of the config topic, 200 of
them in 8 ms.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

from seamark.connect.api import ConnectPort
from seamark.connect.model import ConnectorStatus
from seamark.errors import NotFoundError

T = TypeVar("T")
# A rebalance that a change began is mostly over within this time.
_BUSY_SECONDS = 3.0
# A choice, not a measurement: a reading of all is worth it where a twentieth of the connectors are asked about at once.
_SINGLES = 0.05
# Between two readings of everything is three times the time of the last one: the rest of the CPU, theirs and ours, is
# for the work. With no pause at all, 200 creates on two cores took 1.5 times as long.
_REST = 3.0
# A slow reading has mostly waited for a rebalance, which costs no CPU. Everything waits for the next one.
_LONGEST_REST_SECONDS = 0.5

Configs = Mapping[str, dict[str, str]]


class SharedReading(Generic[T]):
    """A reading of everything. It serves all who asked before it began: no answer is older than its question."""

    def __init__(self, read_all: Callable[[], Mapping[str, T]]) -> None:
        self._read_all = read_all
        self._count = threading.Lock()
        self._turn = threading.Lock()
        self._begun = 0
        self._ended = 0
        self._next_at = 0.0
        self._found: Mapping[str, T] = {}

    def __len__(self) -> int:
        """How much the last reading found."""
        return len(self._found)

    def read(self) -> Mapping[str, T]:
        """What a reading finds that begins now or later."""
        with self._count:
            wanted = self._begun + 1
        with self._turn:
            if self._ended < wanted:
                # Those who come during this rest are served too: the reading begins after it.
                time.sleep(max(0.0, self._next_at - time.monotonic()))
                with self._count:
                    self._begun += 1
                    number = self._begun
                began_at = time.monotonic()
                self._found = self._read_all()
                ended_at = time.monotonic()
                self._next_at = ended_at + min(_LONGEST_REST_SECONDS, _REST * (ended_at - began_at))
                self._ended = number
            return self._found


class _ReadAll(Protocol):
    """Reads every config. `elsewhere` asks another worker than the one that answered last."""

    def __call__(self, *, elsewhere: bool) -> Configs: ...


class SharedConfigReads:
    """Cached connector configs: a single caller reads one config, concurrent callers share one bulk read."""

    def __init__(self, read_one: Callable[[str], dict[str, str]], read_all: _ReadAll) -> None:
        self._read_one = read_one
        self._count = threading.Lock()
        self._asking = 0
        self._busy_until = 0.0
        self._near = SharedReading(lambda: read_all(elsewhere=False))
        self._far = SharedReading(lambda: read_all(elsewhere=True))

    def read(self, name: str) -> dict[str, str]:
        """The config of one connector. NotFoundError where two readings do not have it."""
        now = time.monotonic()
        with self._count:
            self._asking += 1
            is_alone = self._asking == 1 and now > self._busy_until
            if not is_alone:
                self._busy_until = now + _BUSY_SECONDS
        try:
            return self._read_one(name) if is_alone else self._read_shared(name)
        finally:
            with self._count:
                self._asking -= 1

    def _read_shared(self, name: str) -> dict[str, str]:
        # A worker that lags behind the config topic does not know a new connector: another one is asked, then believed.
        for reading in (self._near, self._far):
            found = reading.read().get(name)
            if found is not None:
                return dict(found)
        raise NotFoundError(f"Connect has no connector {name}", hint="list the connectors: seamark connectors list")


class SharedStatusReads:
    """The statuses of one cluster. A few who ask get single answers."""

    def __init__(self, port: ConnectPort) -> None:
        self._port = port
        self._count = threading.Lock()
        self._asking = 0
        self._all = SharedReading(port.read_statuses)

    def read(self, name: str) -> ConnectorStatus:
        """The status of one connector. NotFoundError where there is none."""
        with self._count:
            self._asking += 1
            is_alone = self._asking <= max(1.0, len(self._all) * _SINGLES)
        try:
            return self._port.read_status(name) if is_alone else self._read_shared(name)
        finally:
            with self._count:
                self._asking -= 1

    def _read_shared(self, name: str) -> ConnectorStatus:
        found = self._all.read().get(name)
        if found is None:
            raise NotFoundError(f"Connect has no status of {name}", hint="try again in a moment")
        return found
