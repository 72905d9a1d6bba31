"""Copies of partitions: who leads, who is in sync, who is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seamark.core.finding import Severity
from seamark.kafka.topic import PartitionStatus, TopicStatus
from seamark.topics.evidence import HealthEvidence
from seamark.topics.topic_health import HealthCheck, TopicFinding


def examine_copies(evidence: HealthEvidence) -> Iterator[TopicFinding]:
    """leaderless, under-min-isr, under-replicated: the same partitions that Kafka's own kafka-topics names."""
    up = evidence.brokers
    for topic in evidence.topics.values():
        yield from _find_leaderless(topic, up)
        yield from _find_under_min_isr(topic, up)
        yield from _find_under_replicated(topic, evidence)


def _find_leaderless(topic: TopicStatus, brokers: frozenset[int]) -> Iterator[TopicFinding]:
    if topic.leaderless:
        yield TopicFinding(
            HealthCheck.LEADERLESS,
            Severity.ERROR,
            topic.name,
            topic.leaderless,
            what="nobody leads it",
            why="it can be neither read nor written",
            next_step=_say_mend(_pick(topic, topic.leaderless), brokers),
        )


def _find_under_min_isr(topic: TopicStatus, brokers: frozenset[int]) -> Iterator[TopicFinding]:
    short = _pick(topic, topic.refusing)
    capped = [found for found in _pick(topic, topic.under_min_isr) if found not in short]
    if short:
        yield TopicFinding(
            HealthCheck.UNDER_MIN_ISR,
            Severity.ERROR,
            topic.name,
            tuple(found.id for found in short),
            what=f"{_say_range(short)} in sync, and min.insync.replicas is {topic.min_isr}",
            why="it takes no write with acks=all, which Connect and most producers use",
            next_step=_say_mend(short, brokers),
        )
    if capped:
        yield TopicFinding(
            HealthCheck.UNDER_MIN_ISR,
            Severity.WARNING,
            topic.name,
            tuple(found.id for found in capped),
            what=f"min.insync.replicas is {topic.min_isr}, and it has only {_say_range(capped)}",
            why="brokers before 3.7 refuse every write with acks=all; newer ones ask for every copy",
            next_step="give it more copies (kafka-reassign-partitions.sh), or: "
            f"seamark topics alter TOPIC --set min.insync.replicas={max(1, topic.replication_factor - 1)}",
        )


def _find_under_replicated(topic: TopicStatus, evidence: HealthEvidence) -> Iterator[TopicFinding]:
    partitions = [
        found
        for found in _pick(topic, topic.under_replicated)
        # A copy that is on its way to another broker is not missed yet.
        if len(found.replicas) - len(evidence.moving.get((topic.name, found.id), ())) > len(found.isr)
    ]
    if partitions:
        missing = sorted({broker for found in partitions for broker in found.missing})
        yield TopicFinding(
            HealthCheck.UNDER_REPLICATED,
            Severity.WARNING,
            topic.name,
            tuple(found.id for found in partitions),
            what=f"the copies on {_name(missing)} are missing or behind",
            why="the next broker that fails may stop it, or cost records",
            next_step=_say_mend(partitions, evidence.brokers),
        )


def _pick(topic: TopicStatus, numbers: Sequence[int]) -> list[PartitionStatus]:
    wanted = frozenset(numbers)
    return [found for found in topic.partitions if found.id in wanted]


def _say_range(partitions: Sequence[PartitionStatus]) -> str:
    counts = sorted({len(found.isr) for found in partitions})
    noun = "copy" if counts == [1] else "copies"
    return f"{counts[0]} {noun}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} copies"


def _say_mend(partitions: Sequence[PartitionStatus], brokers: frozenset[int]) -> str:
    """Which brokers to bring back: those that are gone, and those that are there and behind."""
    missing = {broker for found in partitions for broker in found.missing}
    if not missing:
        # All copies in sync and nobody leads: those that hold them are away.
        missing = {broker for found in partitions for broker in found.replicas}
    gone, behind = sorted(missing - brokers), sorted(missing & brokers)
    steps = [f"bring {_name(gone)} back"] if gone else []
    if behind:
        steps.append(f"{_name(behind)} {'is' if len(behind) == 1 else 'are'} up: wait, or look into the log there")
    return "; ".join(steps)


def _name(brokers: Sequence[int]) -> str:
    return f"broker{'s' if len(brokers) > 1 else ''} {', '.join(map(str, brokers))}"
