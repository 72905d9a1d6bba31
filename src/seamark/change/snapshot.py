"""Many looks in one: the connectors of a cluster are read together and then asked about one by one."""

from __future__ import annotations

import threading
from typing import Any, Protocol

from seamark.change.world import Clock, ConnectPort, World
from seamark.errors import NotFoundError
from seamark.model.connector import Connector, ConnectorStatus


class _Connectors(Protocol):
    """What a snapshot needs to read of a cluster."""

    def read_names(self) -> tuple[str, ...]: ...
    def read_connectors(self) -> tuple[Connector, ...]: ...
    def read_connector(self, name: str) -> Connector: ...


class SnapshotWorld:
    """A `World` that is read once, at the first question to each cluster. It is for looking only."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._clusters: dict[str, _SnapshotConnect] = {}
        self._lock = threading.Lock()

    @property
    def clock(self) -> Clock:
        """The clock of the world."""
        return self._world.clock

    def connect(self, cluster: str) -> ConnectPort:
        """The Connect cluster as it was a moment ago."""
        with self._lock:
            if cluster not in self._clusters:
                self._clusters[cluster] = _SnapshotConnect(self._world.connect(cluster))
            return self._clusters[cluster]

    def read_status(self, cluster: str, name: str) -> ConnectorStatus:
        """The status that the snapshot holds."""
        return self.connect(cluster).read_status(name)

    def reveal(self, reference: str) -> str:
        """The value behind a reference."""
        return self._world.reveal(reference)

    def seal(self, value: str) -> str:
        """A keyed hash of a secret."""
        return self._world.seal(value)


class _SnapshotConnect:
    """The reads that steps do before they act, from one reading. Anything else is the real cluster's."""

    def __init__(self, port: _Connectors) -> None:
        self._port = port
        self._found = {connector.name: connector for connector in port.read_connectors()}
        # Connect leaves a connector without a status out of the reading; its name tells that it is there.
        self._hidden = frozenset(port.read_names()) - self._found.keys()

    def read_connector(self, name: str) -> Connector:
        if name in self._found:
            return self._found[name]
        if name in self._hidden:
            return self._port.read_connector(name)
        raise NotFoundError(f"there is no connector {name}", hint="seamark connectors list shows all of them")

    def read_config(self, name: str) -> dict[str, str]:
        return dict(self.read_connector(name).config)

    def read_status(self, name: str) -> ConnectorStatus:
        status = self.read_connector(name).status
        if status is None:
            raise NotFoundError(f"Connect has no status of {name}", hint="look again in a moment")
        return status

    def __getattr__(self, name: str) -> Any:
        # A snapshot that is acted on would be a fault of ours, not of the operator's.
        raise AttributeError(f"a snapshot is for looking, and has no {name}")
