"""A world that stands still: what one reading of each Connect cluster showed.

Steps look at it as they look at the running one, so that what they find is the same, without one request for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from seamark.change.world import Clock, ConnectPort, World
from seamark.errors import NotFoundError
from seamark.model.connector import Connector, ConnectorStatus


class Snapshot:
    """A `World` of what was read, over one that knows the secrets. It is for looking only."""

    def __init__(self, world: World, readings: Mapping[str, Iterable[Connector]]) -> None:
        self._world = world
        self._clusters = {name: _SnapshotConnect(connectors) for name, connectors in readings.items()}
        # Ten thousand connectors have a handful of passwords; each is looked up once, and only for one plan.
        self._revealed: dict[str, str] = {}

    @property
    def clock(self) -> Clock:
        """The clock of the world."""
        return self._world.clock

    def connect(self, cluster: str) -> ConnectPort:
        """The Connect cluster as it was read."""
        return self._clusters[cluster]

    def read_status(self, cluster: str, name: str) -> ConnectorStatus:
        """The status that was read."""
        return self.connect(cluster).read_status(name)

    def reveal(self, reference: str) -> str:
        """The value behind a reference."""
        if reference not in self._revealed:
            self._revealed[reference] = self._world.reveal(reference)
        return self._revealed[reference]

    def seal(self, value: str) -> str:
        """A keyed hash of a secret."""
        return self._world.seal(value)


class _SnapshotConnect:
    """The reads that steps do before they act, answered from one reading."""

    def __init__(self, connectors: Iterable[Connector]) -> None:
        self._connectors = {connector.name: connector for connector in connectors}

    def read_connector(self, name: str) -> Connector:
        if name not in self._connectors:
            raise NotFoundError(f"there is no connector {name}")
        return self._connectors[name]

    def read_config(self, name: str) -> dict[str, str]:
        return dict(self.read_connector(name).config)

    def read_status(self, name: str) -> ConnectorStatus:
        status = self.read_connector(name).status
        if status is None:
            raise NotFoundError(f"Connect has no status of {name}")
        return status

    def __getattr__(self, name: str) -> Any:
        # A snapshot that is acted on would be a fault of ours, not of the operator's.
        raise AttributeError(f"a snapshot is for looking, and has no {name}")
