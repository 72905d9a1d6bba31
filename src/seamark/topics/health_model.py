"""The findings about topics and their consumers, and what the checks read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from seamark.connect.model import Connector
from seamark.core.readings import Severity
from seamark.errors import SeamarkError
from seamark.kafka.groups import Committed
from seamark.kafka.model import KafkaCluster, LogOffsets, TopicPartition, TopicSize, TopicStatus

if TYPE_CHECKING:
    from seamark.context import Context


QUIET = frozenset({"EMPTY", "DEAD"})


@dataclass(frozen=True, slots=True)
class Reader:
    """A group with its committed offsets, and the sinks that use it."""

    group: str
    state: str
    offsets: Mapping[TopicPartition, Committed]
    sinks: tuple[Connector, ...] = ()

    @property
    def subject(self) -> str:
        """Return the names of its sinks as in plans, or else the group."""
        return ", ".join(f"connector/{sink.owner}" for sink in self.sinks) or f"group/{self.group}"

    @property
    def is_quiet(self) -> bool:
        """Return whether the group has no members."""
        return self.state in QUIET

    @property
    def is_needed(self) -> bool:
        """Return whether it is in use: it has members, or belongs to a sink. Any other group may be a leftover."""
        return not self.is_quiet or bool(self.sinks)


@dataclass(frozen=True, slots=True)
class HealthEvidence:
    """What was read. A partition that is missing in one of the maps could not be read.

    `aged` is the first record that retention will not delete soon, and `idle` the first record within the time in which
    a stopped sink must have been running to be safe; None if there is no record that new. Both are by partition.
    `moving` are the brokers to which replicas of a partition are being reassigned.
    """

    context: Context
    cluster: KafkaCluster
    topics: Mapping[str, TopicStatus]
    moving: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    readers: tuple[Reader, ...] = ()
    sinks: Mapping[str, tuple[Connector, ...]] = field(default_factory=dict)
    bounds: Mapping[TopicPartition, LogOffsets] = field(default_factory=dict)
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    aged: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    idle: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    offsets_retention_seconds: float | None = None
    sizes: Mapping[str, TopicSize] = field(default_factory=dict)
    failures: Mapping[str, SeamarkError] = field(default_factory=dict)

    @property
    def brokers(self) -> frozenset[int]:
        """Return the IDs of the brokers that are up."""
        return frozenset(broker.id for broker in self.cluster.brokers)


# A warning is issued for the rest of the retention time: for the usual seven days the last 34 hours, a night and a day.
WARN_AT = 0.8


def find_retention_ms(topic: TopicStatus) -> int | None:
    """Return how long records are kept; None if they are kept forever, or if it is unknown."""
    told = topic.config("retention.ms")
    if "delete" not in topic.config("cleanup.policy") or not told.isdecimal():
        return None
    return int(told)


def find_retention_bytes(topic: TopicStatus) -> int | None:
    """Return how many bytes of a partition are kept; None if there is no limit, or if it is unknown."""
    told = topic.config("retention.bytes")
    return int(told) if "delete" in topic.config("cleanup.policy") and told.isdecimal() else None


def find_safe_ms(length_ms: int) -> int:
    """Return the age below which there is no risk yet."""
    return int(length_ms * WARN_AT)


class HealthCheck(StrEnum):
    """The stable names of the checks."""

    LEADERLESS = "leaderless"
    UNDER_MIN_ISR = "under-min-isr"
    UNDER_REPLICATED = "under-replicated"
    INTERNAL_TOPIC = "internal-topic"
    READER_PASSED = "reader-passed"
    READER_NEARLY_PASSED = "reader-nearly-passed"
    RECREATED = "recreated"
    OFFSETS_EXPIRE = "offsets-expire"
    LEADER_SKEW = "leader-skew"
    SIZE_SKEW = "size-skew"


@dataclass(frozen=True, slots=True)
class TopicFinding:
    """One finding: what, where, why it matters, and the next step.

    Without `partitions` it is about the whole topic, without `topic` about the brokers. `reader` is the affected
    consumer, as plans name it, or "".
    """

    check: HealthCheck
    severity: Severity
    topic: str
    partitions: tuple[int, ...]
    what: str
    why: str
    next_step: str
    reader: str = ""

    @property
    def spots(self) -> tuple[TopicPartition, ...]:
        """Return the affected partitions by topic and number."""
        return tuple((self.topic, number) for number in self.partitions)


@dataclass(frozen=True, slots=True)
class TopicHealth:
    """All findings, worst first, and what was checked: `topics` has the number of partitions of each.

    `failures` lists by name what could not be read.
    """

    findings: tuple[TopicFinding, ...] = ()
    topics: Mapping[str, int] = field(default_factory=dict)
    groups: int = 0
    failures: Mapping[str, SeamarkError] = field(default_factory=dict)

    @property
    def partitions(self) -> int:
        """Return how many partitions were checked."""
        return sum(self.topics.values())

    def narrow(self, names: Sequence[str]) -> TopicHealth:
        """Return the result for the topics of these names and globs only; findings about brokers are omitted."""

        def fits(topic: str) -> bool:
            return any(fnmatchcase(topic, name) for name in names)

        return replace(
            self,
            findings=tuple(found for found in self.findings if fits(found.topic)),
            topics={topic: count for topic, count in self.topics.items() if fits(topic)},
        )

    def find(self, check: HealthCheck) -> tuple[TopicPartition, ...]:
        """Return every partition that one check reports."""
        return tuple(sorted(spot for found in self.findings if found.check is check for spot in found.spots))

    @property
    def has_errors(self) -> bool:
        """Return whether something needs a repair now."""
        return any(found.severity is Severity.ERROR for found in self.findings)
