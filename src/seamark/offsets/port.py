"""Interfaces to the running systems that actions read while a plan is built."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from seamark.changes.effect import Preview
from seamark.changes.environment import Environment
from seamark.connect.model import Connector
from seamark.core.offsets import Offset, OffsetMap, Order
from seamark.core.refs import Port
from seamark.kafka.groups import GroupStatus
from seamark.kafka.model import HeldRecord
from seamark.offsets.model import CompletedOffsets, CurrentOffset, OffsetWrite, StoreReading, TopicHolding

if TYPE_CHECKING:
    from seamark.changes.journal import JournalPort
    from seamark.changes.plan import PlannedChange
    from seamark.changes.planner import Planner
    from seamark.connect.clusters import Clusters
    from seamark.connectors.service import Connectors
    from seamark.context import Context
    from seamark.groups.service import Groups
    from seamark.kafka.api import BrokersPort
    from seamark.offsets.model import SafetyOptions
    from seamark.offsets.semantics import OffsetSemantics
    from seamark.offsets.stores.stores import OffsetStores


class PlanningEnvironment(Environment, Protocol):
    """The running systems as a plan for offsets reads them."""

    def kafka(self) -> BrokersPort:
        """Return the client of the context's brokers, with all read operations."""
        ...

    @property
    def stores(self) -> OffsetStores:
        """Return the stores that hold offsets; each offsets topic is scanned once."""
        ...


@dataclass(frozen=True, slots=True)
class Planning:
    """The context and the clients of a fleet, for `Action.inspect`."""

    context: Context
    clusters: Clusters


PLANNING: Port[Planning] = Port("planning")


class OffsetPort(Protocol):
    """Access for steps to one connector's offsets: the stores that hold them, and both routes for writes."""

    def read(self, partitions: Sequence[OffsetMap]) -> Sequence[CurrentOffset]:
        """Read these partitions from the stores, in the given order. REST is the only source if there is no other.

        Raises:
            NotFoundError: The connector does not exist.
        """
        ...

    def read_all(self) -> Sequence[CurrentOffset]:
        """Read every stored offset that is not deleted."""
        ...

    def alter(self, offsets: Sequence[Offset]) -> object:
        """Write offsets through Connect's REST API. The connector must be stopped."""
        ...

    def write(self, records: Sequence[HeldRecord], *, into: str = "") -> None:
        """Write these records directly, each to its own topic partition, in this order.

        They must be offsets of the connector in one of its topics; `into` is a topic that it will use from now on.
        """
        ...

    def commit(self, offsets: Sequence[Offset]) -> None:
        """Commit offsets for the group of a sink, which must be empty."""
        ...

    def complete(self, held: Sequence[CurrentOffset]) -> CompletedOffsets:
        """Return the same offsets; each without a record gets one where its tasks would look it up."""
        ...

    def find_holders(self) -> Sequence[str]:
        """Return the workers that the worker group assigns the connector or its tasks to, even during its deletion.

        Raises:
            SeamarkError: A rebalance is in progress, so the assignment can't be determined.
        """
        ...

    def read_members(self) -> GroupStatus | None:
        """Read the consumer group of a sink; None for a source, and for a group that does not exist."""
        ...

    def preview(self, offsets: Sequence[Offset]) -> Sequence[Preview]:
        """Return what changes if these offsets replace the stored ones."""
        ...

    def read_topic(self, topic: str) -> TopicHolding:
        """Read its records in one offsets topic of the context's own Kafka cluster, even if its tasks do not use it.

        Raises:
            NotFoundError: The topic does not exist.
        """
        ...

    def read_writes(self, partitions: Sequence[OffsetMap]) -> Sequence[Sequence[OffsetWrite]]:
        """Read each partition's remaining writes where its tasks look them up, oldest first; a group has one."""
        ...

    def compare(self, left: OffsetMap | None, right: OffsetMap | None) -> Order:
        """Compare two offsets of the same partition by the semantics of the connector family."""
        ...

    def describe(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[str, str]:
        """Return a partition and an offset as short texts."""
        ...

    def find_silent(self, workers: Sequence[str]) -> tuple[str, ...]:
        """Return those of these workers, by worker_id, that can't be shown to be alive and to know about the stop."""
        ...


class OffsetSnapshot(OffsetPort, Protocol):
    """What one plan has read about a connector and its offsets: each response is read once. It writes nothing."""

    @property
    def connector(self) -> Connector:
        """Return the connector with its config and status."""
        ...

    @property
    def meaning(self) -> OffsetSemantics:
        """Return the semantics of its offsets."""
        ...


class OffsetSnapshots(Protocol):
    """The connectors of one plan. Only a planning environment has it, so that a step can't read from it."""

    def expect(self, names: Iterable[str]) -> None:
        """Announce the connectors of a plan, so that one scan of their topic reads all of them."""
        ...

    def open(self, cluster: str, name: str, connector: Connector | None = None) -> OffsetSnapshot:
        """Return the snapshot of a connector, the same for each call; `connector` is what was already read of it."""
        ...


class RelocationPlans(Protocol):
    """Plans a change of a source's offsets topic."""

    def plan(self, connector: Connector, topic: str | None, *, safety: SafetyOptions) -> PlannedChange:
        """Plan to store the offsets of a source in that topic; None stands for the topic of its workers."""
        ...


@dataclass(frozen=True, slots=True)
class OffsetDependencies:
    """The dependencies of planning offset changes. `Fleet` builds them for each plan: `world` caches what it has read.

    Groups, the journal and relocations are opened only by the few methods that need them.
    """

    context: Context
    clusters: Clusters
    connectors: Connectors
    world: PlanningEnvironment
    planner: Planner
    open_groups: Callable[[], Groups]
    open_journal: Callable[[], JournalPort]
    open_relocations: Callable[[OffsetDependencies], RelocationPlans]

    def open_snapshot(self, connector: Connector) -> OffsetSnapshot:
        """Return the snapshot of a connector that is already read."""
        return self.world.use(SNAPSHOTS).open(connector.cluster, connector.name, connector)


class OrphanedOffsetsPort(Protocol):
    """Access for steps to orphaned offsets in the workers' topic of a Connect cluster."""

    def read(self, owners: Collection[str]) -> Sequence[HeldRecord]:
        """Read every record of these connectors."""
        ...

    def read_stored(self, owners: Collection[str]) -> StoreReading:
        """Return what the topic stores for these connectors, each partition once, with its records."""
        ...

    def write(self, owners: Collection[str], records: Sequence[HeldRecord]) -> None:
        """Write these records of the owners, each to its own topic partition, in this order."""
        ...


class OpenOffsets(Protocol):
    """Opens the offsets of one connector. `kept` is its last known state, if Connect no longer or not yet has it."""

    def __call__(self, cluster: str, name: str, *, kept: Connector | None = None) -> OffsetPort: ...


OFFSETS: Port[OpenOffsets] = Port("offsets")

SNAPSHOTS: Port[OffsetSnapshots] = Port("snapshots")

LEFT_OFFSETS: Port[Callable[[str], OrphanedOffsetsPort]] = Port("left_offsets")
"""Opens the orphaned offsets in the offsets topic of a Connect cluster."""
