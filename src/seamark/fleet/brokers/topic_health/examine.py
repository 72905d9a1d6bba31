"""The health of every topic: read once, then looked at by every check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from seamark.fleet.brokers.topic_health.balance import examine_balance
from seamark.fleet.brokers.topic_health.copies import examine_copies
from seamark.fleet.brokers.topic_health.evidence import HealthEvidence
from seamark.fleet.brokers.topic_health.expiry import examine_expiry
from seamark.fleet.brokers.topic_health.gather import Gatherer
from seamark.fleet.brokers.topic_health.internal import examine_internal
from seamark.fleet.brokers.topic_health.readers import examine_readers
from seamark.fleet.clusters import Clusters
from seamark.fleet.ports import BrokersPort
from seamark.model.finding import Severity
from seamark.model.topic_health import HealthCheck, TopicFinding, TopicHealth

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
