"""What steps need of the running systems, and a snapshot of it: one read of each Connect cluster.

Steps read the snapshot like the running systems, so that they find the same without a request each.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from seamark.connect.api import CONNECT, STATUSES, ConnectStepPort
from seamark.connect.model import Connector, ConnectorStatus
from seamark.core.readings import Reading
from seamark.core.refs import P, Port
from seamark.errors import NotFoundError, SeamarkError
from seamark.kafka.api import BROKERS, BrokerPort
from seamark.kafka.groups import GroupListing, GroupOffsets, GroupStatus
from seamark.kafka.model import LogOffsets, PartitionReading, TopicPartition, TopicStatus


class SnapshotBrokers:
    """A `BrokerPort` whose topics are read once, at the first question. It is for looking only."""

    def __init__(self, port: BrokerPort) -> None:
        self._port = port
        self._lock = threading.Lock()
        self._topics: dict[str, TopicStatus] | None = None
        self._failures: Mapping[str, SeamarkError] = {}

    def read_all_topics(self) -> Reading[TopicStatus]:
        """Every topic as it was."""
        return Reading(tuple(self._find_topics().values()), failures=self._failures)

    def read_topics(self, names: Sequence[str]) -> Reading[TopicStatus]:
        """Topics by name, as they were."""
        topics = self._find_topics()
        failures = {name: self._failures.get(name) or _build_missing(name) for name in names if name not in topics}
        return Reading(tuple(topics[name] for name in names if name in topics), failures=failures)

    def read_bounds(self, spots: Iterable[TopicPartition]) -> PartitionReading[LogOffsets]:
        """The bounds as they are."""
        return self._port.read_bounds(spots)

    def read_groups(self, names: Sequence[str]) -> Reading[GroupStatus]:
        """The states of groups as they are."""
        return self._port.read_groups(names)

    def read_consumer_groups(self) -> Reading[GroupListing]:
        """The list of groups as it is."""
        return self._port.read_consumer_groups()

    def read_committed(
        self, groups: Mapping[str, Collection[TopicPartition] | None], *, only_stable: bool = False
    ) -> Reading[GroupOffsets]:
        """Commits as they are."""
        return self._port.read_committed(groups, only_stable=only_stable)

    def _find_topics(self) -> dict[str, TopicStatus]:
        with self._lock:
            if self._topics is None:
                reading = self._port.read_all_topics()
                self._topics = {topic.name: topic for topic in reading}
                self._failures = reading.failures
            return self._topics

    def __getattr__(self, name: str) -> Any:
        # A snapshot that is acted on would be a fault of ours, not of the operator's.
        raise AttributeError(f"a snapshot is for looking, and has no {name}")


def _build_missing(name: str) -> SeamarkError:
    return NotFoundError(f"there is no topic {name}", hint="seamark topics list shows all of them")


class Clock(Protocol):
    """Time, so that a simulation can have its own."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class Environment(Protocol):
    """The running systems of one context. It knows no capability: each has a port of its own."""

    @property
    def clock(self) -> Clock: ...

    def use(self, port: Port[P]) -> P:
        """Return the capability that is registered under a key.

        Raises:
            KeyError: none is.
        """
        ...

    def reveal(self, reference: str) -> str:
        """Return the value behind a `secret://` reference."""
        ...

    def seal(self, value: str) -> str:
        """Return a keyed hash of a secret, for the journal: equal secrets have equal hashes."""
        ...


class SnapshotEnvironment:
    """An `Environment` over what was read before. It is read-only.

    `readings` are the connectors of each cluster. Without them a cluster is read when it is first asked about.
    """

    def __init__(self, world: Environment, readings: Mapping[str, Iterable[Connector]] | None = None) -> None:
        self._world = world
        self._clusters = {name: _SnapshotConnect(connectors) for name, connectors in (readings or {}).items()}
        self._brokers: SnapshotBrokers | None = None
        self._lock = threading.Lock()
        # Ten thousand connectors have a handful of passwords; each is looked up once, and only for one plan.
        self._revealed: dict[str, str] = {}

    @property
    def clock(self) -> Clock:
        """The clock of the world."""
        return self._world.clock

    def connect(self, cluster: str) -> ConnectStepPort:
        """The Connect cluster as it was read."""
        with self._lock:
            if cluster not in self._clusters:
                self._clusters[cluster] = _read_cluster(self._world.use(CONNECT)(cluster))
            return self._clusters[cluster]

    def kafka(self) -> BrokerPort:
        """The brokers, with their topics as they were at the first question."""
        with self._lock:
            if self._brokers is None:
                self._brokers = SnapshotBrokers(self._world.use(BROKERS)())
            return self._brokers

    def read_status(self, cluster: str, name: str) -> ConnectorStatus:
        """Return the status that was read."""
        return self.connect(cluster).read_status(name)

    def use(self, port: Port[P]) -> P:
        """Return what was read, for Connect and for topics; every other capability is the live one."""
        own: dict[Port[Any], Any] = {CONNECT: self.connect, BROKERS: self.kafka, STATUSES: self.read_status}
        found: P = own[port] if port in own else self._world.use(port)
        return found

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


def _read_cluster(port: ConnectStepPort) -> _SnapshotConnect:
    found = port.read_connectors()
    # Connect leaves a connector without a status out of the reading; its name tells that it is there.
    hidden = frozenset(port.read_names()) - {connector.name for connector in found}

    def read_hidden(name: str) -> Connector:
        if name in hidden:
            return port.read_connector(name)
        raise NotFoundError(f"there is no connector {name}", hint="seamark connectors list shows all of them")

    return _SnapshotConnect(found, read_hidden=read_hidden)
