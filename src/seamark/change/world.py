"""What steps act on: the running systems and the clock, behind ports that a simulation can stand in for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from seamark.model.connector import Connector, ConnectorStatus
from seamark.model.group import Committed, GroupListing, GroupOffsets, GroupStatus
from seamark.model.held_offset import CompletedOffsets, HeldOffset, HeldRecord, OffsetWrite, TopicHolding
from seamark.model.logger import LoggerLevel
from seamark.model.meaning import Order
from seamark.model.offset import Offset, OffsetMap
from seamark.model.preview import Preview
from seamark.model.reading import Reading
from seamark.model.spot import Bounds, Spot, SpotReading
from seamark.model.stored_offset import StoreReading
from seamark.model.topic import TopicStatus

P = TypeVar("P")


class Port(Generic[P]):
    """A typed key under which a capability is found: `world.use(CONNECT)`, `reads.use(LOCKS)`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Port({self.name!r})"


class ConnectPort(Protocol):
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
    def read_loggers(self, url: str | None = None) -> tuple[LoggerLevel, ...]: ...
    def read_logger(self, name: str, url: str | None = None) -> str | None: ...
    def set_logger(self, name: str, level: str, *, scope: str = "worker", url: str | None = None) -> object: ...


class BrokerPort(Protocol):
    """What steps need of the brokers. `seamark.kafka.Brokers` is one; the tests have another."""

    def read_topics(self, names: Sequence[str]) -> Reading[TopicStatus]: ...
    def read_all_topics(self) -> Reading[TopicStatus]: ...
    def read_bounds(self, spots: Iterable[Spot]) -> SpotReading[Bounds]: ...
    def read_groups(self, names: Sequence[str]) -> Reading[GroupStatus]: ...
    def read_consumer_groups(self) -> Reading[GroupListing]: ...
    def read_committed(
        self, groups: Mapping[str, Collection[Spot] | None], *, only_stable: bool = False
    ) -> Reading[GroupOffsets]: ...
    def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None: ...
    def delete_topic(self, name: str) -> None: ...
    def grow_topic(self, name: str, *, partitions: int) -> None: ...
    def alter_topic_config(
        self, name: str, *, values: Mapping[str, str] | None = None, remove: Collection[str] = ()
    ) -> None: ...
    def alter_group_offsets(self, group: str, offsets: Mapping[Spot, Committed]) -> None: ...
    def delete_group_offsets(self, group: str, spots: Collection[Spot]) -> None: ...
    def delete_group(self, group: str) -> None: ...


class OffsetPort(Protocol):
    """What steps need of one connector's offsets: the stores that hold them, and both routes to write them."""

    def read(self, partitions: Sequence[OffsetMap]) -> Sequence[HeldOffset]:
        """What the stores hold of these partitions, in their order. Never REST's word alone, unless there is no other.

        Raises:
            NotFoundError: there is no such connector.
        """
        ...

    def read_all(self) -> Sequence[HeldOffset]:
        """Everything that is held and not forgotten."""
        ...

    def alter(self, offsets: Sequence[Offset]) -> object:
        """Have Connect write them. The connector must be stopped."""
        ...

    def write(self, records: Sequence[HeldRecord], *, into: str = "") -> None:
        """Write these records themselves, each where it says, in this order.

        They must be offsets of the connector in one of its topics; `into` is a topic that it will use from now on.
        """
        ...

    def commit(self, offsets: Sequence[Offset]) -> None:
        """Commit them for the group of a sink, which must be empty."""
        ...

    def complete(self, held: Sequence[HeldOffset]) -> CompletedOffsets:
        """The same, with a record for each where its tasks would look for it: for those that have none yet."""
        ...

    def find_holders(self) -> Sequence[str]:
        """The workers that have it or a task of it in hand, as their group says; also while it is deleted.

        Raises:
            SeamarkError: they are about to share the work anew, and nobody can tell.
        """
        ...

    def read_members(self) -> GroupStatus | None:
        """The consumer group of a sink; None for a source, and for a group that is not there."""
        ...

    def preview(self, offsets: Sequence[Offset]) -> Sequence[Preview]:
        """What it comes to if these offsets take the place of those that are held now."""
        ...

    def read_topic(self, topic: str) -> TopicHolding:
        """What one offsets topic of the context's own Kafka cluster holds of it, whether its tasks look there or not.

        Raises:
            NotFoundError: there is no such topic.
        """
        ...

    def read_writes(self, partitions: Sequence[OffsetMap]) -> Sequence[Sequence[OffsetWrite]]:
        """Of each partition every write that is left where its tasks look, the oldest first; a group has one."""
        ...

    def compare(self, left: OffsetMap | None, right: OffsetMap | None) -> Order:
        """Where one position lies, seen from another of the same partition, as its family has it."""
        ...

    def describe(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[str, str]:
        """Partition and offset, each in a few words."""
        ...

    def find_silent(self, workers: Sequence[str]) -> tuple[str, ...]:
        """Those of these workers, by their worker_id, of which nobody can tell that they live and know of the stop."""
        ...


class LeftOffsetsPort(Protocol):
    """What steps need of the offsets that connectors left behind in the workers' topic of a cluster."""

    def read(self, owners: Collection[str]) -> Sequence[HeldRecord]:
        """Every record that speaks of these connectors."""
        ...

    def read_stored(self, owners: Collection[str]) -> StoreReading:
        """Return what the topic holds of these connectors, each partition once, with the records behind it."""
        ...

    def write(self, owners: Collection[str], records: Sequence[HeldRecord]) -> None:
        """Write these records of the owners, each where it says, in this order."""
        ...


class Clock(Protocol):
    """Time, so that a simulation can have its own."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class World(Protocol):
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


class OpenOffsets(Protocol):
    """Opens the offsets of one connector. `kept` is what it was, where Connect doesn't know it any more or yet."""

    def __call__(self, cluster: str, name: str, *, kept: Connector | None = None) -> OffsetPort: ...


CONNECT: Port[Callable[[str], ConnectPort]] = Port("connect")
"""Opens the Connect cluster of a name."""
BROKERS: Port[Callable[[], BrokerPort]] = Port("kafka")
"""Opens the brokers of the context."""
STATUSES: Port[Callable[[str, str], ConnectorStatus]] = Port("read_status")
"""Reads the status of a connector, never older than the question; many who wait may share one reading.

Raises NotFoundError where Connect has none.
"""
OFFSETS: Port[OpenOffsets] = Port("offsets")
LEFT_OFFSETS: Port[Callable[[str], LeftOffsetsPort]] = Port("left_offsets")
"""Opens what deleted connectors have left in the offsets topic of a Connect cluster."""
SECRET_KEYS: Port[Callable[[str, Mapping[str, str]], frozenset[str]]] = Port("find_secret_keys")
"""Finds the keys of a config that are secret by their types, as the plugins of that Connect cluster report them.

If the types of a plugin can't be read, all keys of that plugin are secret.
"""
WORKER_URLS: Port[Callable[[str], tuple[str, ...]]] = Port("worker_urls")
"""Reads which workers of a Connect cluster are up, as the brokers know them; none where all are down."""
