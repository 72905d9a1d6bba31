"""The statuses of one cluster for many who wait for them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Protocol

from seamark.errors import NotFoundError
from seamark.model.connector import ConnectorStatus

# A choice, not a measurement: a reading of all is worth it where a twentieth of the connectors are asked about at once.
_SINGLES = 0.05


class _Statuses(Protocol):
    """What the board reads."""

    def read_status(self, name: str) -> ConnectorStatus: ...
    def read_statuses(self) -> dict[str, ConnectorStatus]: ...


class StatusBoard:
    """One reading serves everybody who asked before it began. So an answer is never older than its question."""

    def __init__(self, port: _Statuses) -> None:
        self._port = port
        self._count = threading.Lock()
        self._turn = threading.Lock()
        self._asking = 0
        self._begun = 0
        self._ended = 0
        self._statuses: Mapping[str, ConnectorStatus] = {}

    def read(self, name: str) -> ConnectorStatus:
        """The status of one connector. NotFoundError where there is none."""
        with self._count:
            self._asking += 1
            wanted = self._begun + 1
            is_alone = self._asking <= max(1.0, len(self._statuses) * _SINGLES)
        try:
            return self._port.read_status(name) if is_alone else self._read_shared(name, wanted)
        finally:
            with self._count:
                self._asking -= 1

    def _read_shared(self, name: str, wanted: int) -> ConnectorStatus:
        with self._turn:
            if self._ended < wanted:
                with self._count:
                    self._begun += 1
                    number = self._begun
                self._statuses = self._port.read_statuses()
                self._ended = number
            found = self._statuses.get(name)
        if found is None:
            raise NotFoundError(f"Connect has no status of {name}", hint="look again in a moment")
        return found
