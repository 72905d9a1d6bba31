"""What is wrong, or about to go wrong, with topics and those who read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from seamark.connect.model import Connector
from seamark.core.readings import Severity
from seamark.errors import SeamarkError
from seamark.kafka.clusters import KafkaCluster
from seamark.kafka.groups import Committed
from seamark.kafka.model import LogOffsets, TopicPartition, TopicSize, TopicStatus

if TYPE_CHECKING:
    from seamark.context import Context


QUIET = frozenset({"EMPTY", "DEAD"})


@dataclass(frozen=True, slots=True)
class Reader:
    """A group with what it has committed, and the sinks whose group it is."""

    group: str
    state: str
    offsets: Mapping[TopicPartition, Committed]
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
        """The brokers that are up, by id."""
        return frozenset(broker.id for broker in self.cluster.brokers)


# The rest of a lifetime in which people are warned: of the usual seven days the last 34 hours, a night and a day.
WARN_AT = 0.8


def find_retention_ms(topic: TopicStatus) -> int | None:
    """How long records are kept; None where they are kept for good, or nobody tells."""
    told = topic.config("retention.ms")
    if "delete" not in topic.config("cleanup.policy") or not told.isdecimal():
        return None
    return int(told)


def find_retention_bytes(topic: TopicStatus) -> int | None:
    """How many bytes of a partition are kept; None where there is no limit, or nobody tells."""
    told = topic.config("retention.bytes")
    return int(told) if "delete" in topic.config("cleanup.policy") and told.isdecimal() else None


def find_safe_ms(length_ms: int) -> int:
    """The age below which nothing has to be feared yet."""
    return int(length_ms * WARN_AT)


class HealthCheck(StrEnum):
    """The stable names of what is looked for."""

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
    """One thing that was found: what, where, why it matters, and the next step.

    Without `partitions` it is about the whole topic, without `topic` about the brokers. `reader` is who is hurt by it,
    as plans name it, or "".
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
        """The partitions it is about, by topic and number."""
        return tuple((self.topic, number) for number in self.partitions)


@dataclass(frozen=True, slots=True)
class TopicHealth:
    """All findings, the worst first, and how much was looked at: `topics` holds the number of partitions of each.

    `failures` is by name what could not be read.
    """

    findings: tuple[TopicFinding, ...] = ()
    topics: Mapping[str, int] = field(default_factory=dict)
    groups: int = 0
    failures: Mapping[str, SeamarkError] = field(default_factory=dict)

    @property
    def partitions(self) -> int:
        """How many partitions were looked at."""
        return sum(self.topics.values())

    def narrow(self, names: Sequence[str]) -> TopicHealth:
        """The same for the topics of these names and globs alone; findings about brokers are not in it."""

        def fits(topic: str) -> bool:
            return any(fnmatchcase(topic, name) for name in names)

        return replace(
            self,
            findings=tuple(found for found in self.findings if fits(found.topic)),
            topics={topic: count for topic, count in self.topics.items() if fits(topic)},
        )

    def find(self, check: HealthCheck) -> tuple[TopicPartition, ...]:
        """Every partition that one check names."""
        return tuple(sorted(spot for found in self.findings if found.check is check for spot in found.spots))

    @property
    def has_errors(self) -> bool:
        """Whether something needs mending now."""
        return any(found.severity is Severity.ERROR for found in self.findings)
