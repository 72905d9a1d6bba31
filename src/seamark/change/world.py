"""What steps act on: the running systems and the clock, behind ports that a simulation can stand in for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from seamark.model.connector import Connector, ConnectorStatus


class ConnectPort(Protocol):
    """What steps need of a Connect cluster. `ConnectClient` is one; the simulation has another."""

    def read_connector(self, name: str) -> Connector: ...
    def read_config(self, name: str) -> dict[str, str]: ...
    def read_status(self, name: str) -> ConnectorStatus: ...
    def create_connector(self, name: str, config: Mapping[str, str], *, initial_state: str | None = None) -> object: ...
    def put_config(self, name: str, config: Mapping[str, str]) -> object: ...
    def delete_connector(self, name: str) -> object: ...
    def pause(self, name: str) -> object: ...
    def resume(self, name: str) -> object: ...
    def stop(self, name: str) -> object: ...
    def restart(self, name: str, *, include_tasks: bool = False, only_failed: bool = False) -> object: ...


class Clock(Protocol):
    """Time, so that a simulation can have its own."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class World(Protocol):
    """The running systems of one context."""

    @property
    def clock(self) -> Clock: ...

    def connect(self, cluster: str) -> ConnectPort:
        """The Connect cluster of that name."""
        ...

    def reveal(self, reference: str) -> str:
        """The value behind a `secret://` reference."""
        ...

    def seal(self, value: str) -> str:
        """A keyed hash of a secret, for the journal: equal secrets give equal seals, and nobody gets back."""
        ...
