"""The clients that read the control topic, kept for the next task of this process: opening takes longer than asking.

Spark's Python processes are forks, and live for many tasks. No client outlives a fork, so each process has its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from seamark.kafka.log import PartitionLog
from seamark.kafka.topics import TopicAdmin


@dataclass(frozen=True, slots=True)
class _Clients:
    admin: TopicAdmin
    log: PartitionLog

    def close(self) -> None:
        self.log.close()
        self.admin.close()


class ControlClients:
    """Clients by partition of a control topic. Each is lent to one borrower at a time."""

    # A process works for one task after the other; each has one partition of the control topic.
    _LIMIT = 4

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: dict[tuple[object, ...], _Clients] = {}

    @contextmanager
    def lend(
        self, config: Mapping[str, str], topic: str, *, partition: int, patience_seconds: float
    ) -> Iterator[tuple[TopicAdmin, PartitionLog]]:
        """The clients for one partition. After a failure they are not lent again."""
        name = (os.getpid(), frozenset(config.items()), topic, partition, patience_seconds)
        with self._lock:
            clients = self._free.pop(name, None)
        if clients is None:
            clients = _open(config, topic, partition=partition, patience_seconds=patience_seconds)
        try:
            yield clients.admin, clients.log
        except BaseException:
            clients.close()
            raise
        self._keep(name, clients)

    def _keep(self, name: tuple[object, ...], clients: _Clients) -> None:
        with self._lock:
            # Another borrower may have brought back the same meanwhile.
            surplus = [self._free.pop(name)] if name in self._free else []
            self._free[name] = clients
            while len(self._free) > self._LIMIT:
                surplus.append(self._free.pop(next(iter(self._free))))
        for old in surplus:
            old.close()


CLIENTS = ControlClients()
"""Those of this process."""


def _open(config: Mapping[str, str], topic: str, *, partition: int, patience_seconds: float) -> _Clients:
    log = PartitionLog(config, topic, partition=partition, patience_seconds=patience_seconds)
    return _Clients(TopicAdmin(config), log)
