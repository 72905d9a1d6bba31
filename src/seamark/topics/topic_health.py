"""What is wrong, or about to go wrong, with topics and those who read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase

from seamark.core.finding import Severity
from seamark.errors import SeamarkError
from seamark.kafka.spot import Spot


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
    def spots(self) -> tuple[Spot, ...]:
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

    def find(self, check: HealthCheck) -> tuple[Spot, ...]:
        """Every partition that one check names."""
        return tuple(sorted(spot for found in self.findings if found.check is check for spot in found.spots))

    @property
    def has_errors(self) -> bool:
        """Whether something needs mending now."""
        return any(found.severity is Severity.ERROR for found in self.findings)
