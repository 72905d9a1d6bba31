"""What the checks look at. It is read once, a few calls for all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from seamark.connect.connector import Connector
from seamark.errors import SeamarkError
from seamark.kafka.broker import KafkaCluster
from seamark.kafka.groups import Committed
from seamark.kafka.spot import Bounds, Spot
from seamark.kafka.topic import TopicSize, TopicStatus

if TYPE_CHECKING:
    from seamark.context import Context

QUIET = frozenset({"EMPTY", "DEAD"})


@dataclass(frozen=True, slots=True)
class Reader:
    """A group with what it has committed, and the sinks whose group it is."""

    group: str
    state: str
    offsets: Mapping[Spot, Committed]
    sinks: tuple[Connector, ...] = ()

    @property
    def subject(self) -> str:
        """Its sinks as plans name them, else the group."""
        return ", ".join(f"connector/{sink.owner}" for sink in self.sinks) or f"group/{self.group}"

    @property
    def is_quiet(self) -> bool:
        """Whether nobody is in the group."""
        return self.state in QUIET

    @property
    def is_needed(self) -> bool:
        """Whether somebody counts on it: somebody is in it, or it is a sink's. Any other may be a leftover."""
        return not self.is_quiet or bool(self.sinks)


@dataclass(frozen=True, slots=True)
class HealthEvidence:
    """What was read. A partition that is missing in one of the maps could not be asked for.

    `aged` is the first record that retention leaves alone for a while, and `idle` the first one of the time in which a
    stopped sink must have been at work to be safe; None where there is none so young. Both are by partition. `moving`
    are the brokers to which copies of a partition are on their way.
    """

    context: Context
    cluster: KafkaCluster
    topics: Mapping[str, TopicStatus]
    moving: Mapping[Spot, tuple[int, ...]] = field(default_factory=dict)
    readers: tuple[Reader, ...] = ()
    sinks: Mapping[str, tuple[Connector, ...]] = field(default_factory=dict)
    bounds: Mapping[Spot, Bounds] = field(default_factory=dict)
    epochs: Mapping[Spot, int] = field(default_factory=dict)
    aged: Mapping[Spot, int | None] = field(default_factory=dict)
    idle: Mapping[Spot, int | None] = field(default_factory=dict)
    offsets_retention_seconds: float | None = None
    sizes: Mapping[str, TopicSize] = field(default_factory=dict)
    failures: Mapping[str, SeamarkError] = field(default_factory=dict)

    @property
    def brokers(self) -> frozenset[int]:
        """The brokers that are up, by id."""
        return frozenset(broker.id for broker in self.cluster.brokers)
