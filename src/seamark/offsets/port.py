"""What actions of the fleet read while a plan is in the making."""

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
    from seamark.connect.api import ConnectPort
    from seamark.connect.clusters import Clusters
    from seamark.connectors.service import Connectors
    from seamark.context import ConnectSettings, Context
    from seamark.groups.service import Groups
    from seamark.kafka.api import BrokersPort
    from seamark.offsets.semantics import OffsetSemantics
    from seamark.offsets.stores.stores import OffsetStores
    from seamark.offsets.write.preview import SafetyOptions


class PlanningEnvironment(Environment, Protocol):
    """The running systems as a plan of offsets reads them."""

    def kafka(self) -> BrokersPort:
        """Return the brokers of the context, with all that can be read of them."""
        ...

    @property
    def stores(self) -> OffsetStores:
        """The stores that hold offsets; each offsets topic is scanned once."""
        ...


@dataclass(frozen=True, slots=True)
class Planning:
    """The context and the clients of a fleet, for `Action.inspect`."""

    context: Context
    clusters: Clusters

    def settings(self, cluster: str) -> ConnectSettings:
        """Return what the context says of a Connect cluster."""
        return self.clusters.settings(cluster)

    def client(self, cluster: str) -> ConnectPort:
        """Return the client that reads a Connect cluster."""
        return self.clusters.client(cluster)


PLANNING: Port[Planning] = Port("planning")


class OffsetPort(Protocol):
    """What steps need of one connector's offsets: the stores that hold them, and both routes to write them."""

    def read(self, partitions: Sequence[OffsetMap]) -> Sequence[CurrentOffset]:
        """What the stores hold of these partitions, in their order. Never REST's word alone, unless there is no other.

        Raises:
            NotFoundError: there is no such connector.
        """
        ...

    def read_all(self) -> Sequence[CurrentOffset]:
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

    def complete(self, held: Sequence[CurrentOffset]) -> CompletedOffsets:
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


class OffsetSnapshot(OffsetPort, Protocol):
    """What one plan knows of a connector and its offsets: each answer is read once. It writes nothing."""

    @property
    def connector(self) -> Connector:
        """The connector, with its config and its status."""
        ...

    @property
    def meaning(self) -> OffsetSemantics:
        """What its offsets mean."""
        ...


class OffsetSnapshots(Protocol):
    """The connectors of one plan. Only a world for planning has it, so that a step can't read from it."""

    def expect(self, names: Iterable[str]) -> None:
        """Announce the connectors that a plan is about: one scan of their topic then reads all of them."""
        ...

    def open(self, cluster: str, name: str, connector: Connector | None = None) -> OffsetSnapshot:
        """Return what is known of a connector, the same for each call; `connector` is what was read of it already."""
        ...


class RelocationPlans(Protocol):
    """Plans another offsets topic for a source."""

    def plan(self, connector: Connector, topic: str | None, *, safety: SafetyOptions) -> PlannedChange:
        """Plan that a source stores its offsets in that topic; None is the topic of its workers."""
        ...


@dataclass(frozen=True, slots=True)
class OffsetDependencies:
    """What planning a change of offsets needs. `Fleet` builds it for each plan: `world` keeps what it has read.

    Groups, the journal and relocations are opened by the few verbs that need them.
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
        """Return what the plan knows of a connector that is read already."""
        return self.world.use(SNAPSHOTS).open(connector.cluster, connector.name, connector)


class OrphanedOffsetsPort(Protocol):
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


class OpenOffsets(Protocol):
    """Opens the offsets of one connector. `kept` is what it was, where Connect doesn't know it any more or yet."""

    def __call__(self, cluster: str, name: str, *, kept: Connector | None = None) -> OffsetPort: ...


OFFSETS: Port[OpenOffsets] = Port("offsets")

SNAPSHOTS: Port[OffsetSnapshots] = Port("snapshots")

LEFT_OFFSETS: Port[Callable[[str], OrphanedOffsetsPort]] = Port("left_offsets")
"""Opens what deleted connectors have left in the offsets topic of a Connect cluster."""
