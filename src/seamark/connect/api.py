"""What readers of a Connect cluster need of its client, and the snapshot that plans read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from seamark.connect.loggers import LoggerLevel
from seamark.connect.model import ConfigKey, Connector, ConnectorStatus, Plugin, Wait, Worker
from seamark.core.offsets import Offset
from seamark.core.refs import Port, Ports
from seamark.errors import NotFoundError

if TYPE_CHECKING:
    from seamark.connect.capability import Capabilities
    from seamark.connect.model import Validation


class ConnectStepPort(Protocol):
    """What steps need of a Connect cluster. `ConnectClient` is one; the simulation has another."""

    def read_names(self) -> tuple[str, ...]: ...
    def read_connectors(self) -> tuple[Connector, ...]: ...
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
    def restart_task(self, name: str, task: int) -> object: ...
    def read_loggers(self, url: str | None = None) -> tuple[LoggerLevel, ...]: ...
    def read_logger(self, name: str, url: str | None = None) -> str | None: ...
    def set_logger(self, name: str, level: str, *, scope: str = "worker", url: str | None = None) -> object: ...


class ConnectPort(ConnectStepPort, Protocol):
    """One Connect cluster, to read and to change. `seamark.connect.client.ConnectClient` is the real one."""

    def read_statuses(self) -> dict[str, ConnectorStatus]:
        """The status of every connector that has one, in one call."""

    def read_workers(self) -> tuple[Worker, ...]:
        """Every worker by its url; one that did not answer says so in `error`."""

    def read_any_worker(self) -> Worker:
        """Any one worker, without its URL: for what all of them report alike."""

    def validate_config(self, plugin: str, config: Mapping[str, str]) -> Validation:
        """What the plugin says of a config. Changes nothing."""

    def read_plugins(self, url: str | None = None, *, connectors_only: bool = True) -> tuple[Plugin, ...]:
        """The plugins of the worker at that url, or of any; with transformations and converters on request."""

    def read_password_keys(self, plugin: str) -> frozenset[str]:
        """Return the keys that a plugin types as PASSWORD, from 3.2 on."""

    def read_config_keys(self, plugin: str) -> tuple[ConfigKey, ...]:
        """Return the config keys that a plugin defines, from 3.2 on."""

    def read_offsets(self, name: str, url: str | None = None) -> tuple[Offset, ...]:
        """The offsets of one connector, as any worker tells them, or the one at that url."""

    def patch_offsets(self, name: str, offsets: Sequence[Offset]) -> object:
        """Change the offsets of a stopped connector."""

    def find_silent(self, workers: Sequence[str], *, members: Collection[str] | None = None) -> tuple[str, ...]:
        """Return those of these workers, by worker_id, that are not known to be alive."""

    def read_topics(self, name: str) -> tuple[str, ...]:
        """The topics that one connector has used since the list was last reset."""

    def read_capabilities(self) -> Capabilities:
        """What every worker that answers can do."""

    def waits(self) -> tuple[Wait, ...]:
        """The calls that have not ended yet."""

    def close(self) -> None:
        """Let go of the connections."""


class ConnectSnapshots:
    """The Connect clusters of a context as they were read, each once. `connectors` has those that are read already."""

    def __init__(self, live: Ports, connectors: Mapping[str, Iterable[Connector]] | None = None) -> None:
        self._live = live
        self._clusters = {name: _SnapshotConnect(found) for name, found in (connectors or {}).items()}
        self._lock = threading.Lock()

    def open(self, cluster: str) -> ConnectStepPort:
        """Return a Connect cluster as it was when it was first asked for."""
        with self._lock:
            if cluster not in self._clusters:
                self._clusters[cluster] = _read_cluster(self._live.use(CONNECT)(cluster))
            return self._clusters[cluster]


class _SnapshotConnect:
    """The reads that steps do before they act, answered from one reading."""

    def __init__(
        self, connectors: Iterable[Connector], *, read_hidden: Callable[[str], Connector] | None = None
    ) -> None:
        self._connectors = {connector.name: connector for connector in connectors}
        self._read_hidden = read_hidden

    def read_connector(self, name: str) -> Connector:
        if name in self._connectors:
            return self._connectors[name]
        if self._read_hidden is not None:
            return self._read_hidden(name)
        raise _build_missing(name)

    def read_config(self, name: str) -> dict[str, str]:
        return dict(self.read_connector(name).config)

    def read_status(self, name: str) -> ConnectorStatus:
        status = self.read_connector(name).status
        if status is None:
            raise NotFoundError(f"Connect has no status of {name}", hint="try again in a moment")
        return status

    def __getattr__(self, name: str) -> Any:
        # A snapshot that is acted on would be a fault of ours, not of the operator's.
        raise AttributeError(f"a snapshot is read-only and has no {name}")


def _read_cluster(port: ConnectStepPort) -> _SnapshotConnect:
    found = port.read_connectors()
    # Connect leaves a connector without a status out of the reading; its name tells that it is there.
    hidden = frozenset(port.read_names()) - {connector.name for connector in found}

    def read_hidden(name: str) -> Connector:
        if name in hidden:
            return port.read_connector(name)
        raise _build_missing(name)

    return _SnapshotConnect(found, read_hidden=read_hidden)


def _build_missing(name: str) -> NotFoundError:
    return NotFoundError(f"connector {name} does not exist", hint="list the connectors: seamark connectors list")


def _open_statuses(_live: Ports, snapshots: Ports) -> Callable[[str, str], ConnectorStatus]:
    return lambda cluster, name: snapshots.use(CONNECT)(cluster).read_status(name)


CONNECT: Port[Callable[[str], ConnectStepPort]] = Port(
    "connect", open_snapshot=lambda live, _: ConnectSnapshots(live).open
)
"""Opens the Connect cluster of a name."""

STATUSES: Port[Callable[[str, str], ConnectorStatus]] = Port("read_status", open_snapshot=_open_statuses)
"""Reads the status of a connector, never older than the question; many who wait may share one reading.

Raises NotFoundError where Connect has none.
"""

WORKER_URLS: Port[Callable[[str], tuple[str, ...]]] = Port("worker_urls")
"""Reads which workers of a Connect cluster are up, as the brokers know them; none where all are down."""
