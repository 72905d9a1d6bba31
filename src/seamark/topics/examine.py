"""The health of every topic: read once, then looked at by every check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from seamark.connect.clusters import Clusters
from seamark.core.finding import Severity
from seamark.kafka.api import BrokersPort
from seamark.topics.balance import examine_balance
from seamark.topics.consumer_checks import examine_readers
from seamark.topics.copies import examine_copies
from seamark.topics.evidence import HealthEvidence
from seamark.topics.expiry import examine_expiry
from seamark.topics.gather import Gatherer
from seamark.topics.internal import examine_internal
from seamark.topics.topic_health import HealthCheck, TopicFinding, TopicHealth

if TYPE_CHECKING:
    from seamark.context import Context

CHECKS: tuple[Callable[[HealthEvidence], Iterator[TopicFinding]], ...] = (
    examine_copies,
    examine_internal,
    examine_readers,
    examine_expiry,
    examine_balance,
)
_WORST_FIRST = tuple(Severity)
_ORDER = tuple(HealthCheck)


def read_topic_health(context: Context, *, kafka: BrokersPort, clusters: Clusters, now: float) -> TopicHealth:
    """Read everything once, and look at it."""
    return examine(Gatherer(context, kafka=kafka, clusters=clusters, now_ms=int(now * 1000)).gather())


def examine(evidence: HealthEvidence) -> TopicHealth:
    """What the checks say to what was read. No server is asked."""
    findings = [found for check in CHECKS for found in check(evidence)]
    return TopicHealth(
        tuple(sorted(findings, key=_rank)),
        topics={name: len(topic.partitions) for name, topic in evidence.topics.items()},
        groups=len(evidence.readers),
        failures=evidence.failures,
    )


def _rank(found: TopicFinding) -> tuple[int, int, str, str]:
    return _WORST_FIRST.index(found.severity), _ORDER.index(found.check), found.topic, found.reader
