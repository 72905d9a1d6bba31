"""Leaders and bytes that lie more on one broker, or in one partition, than on the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from seamark.core.finding import Severity
from seamark.report.words import render_bytes, render_count
from seamark.topics.evidence import HealthEvidence
from seamark.topics.topic_health import HealthCheck, TopicFinding

# Kafka's own leader.imbalance.per.broker.percentage is 10; below a handful of partitions a percentage says nothing.
_MOVED_SHARE = 0.1
_MOVED_LEAST = 5
# Half as much again as its share, and enough of it that somebody could notice: this is about load, not about order.
_FACTOR = 1.5
_LEADERS_LEAST = 20
_BYTES_LEAST = 1 << 30
# A partition with three times the bytes of its topic's average holds a hot key or a bad partitioner.
_PARTITION_FACTOR = 3


def examine_balance(evidence: HealthEvidence) -> Iterator[TopicFinding]:
    """leader-skew, size-skew: between brokers, and between the partitions of a topic."""
    yield from _find_moved(evidence)
    yield from _find_leader_skew(evidence)
    yield from _find_size_skew(evidence)
    yield from _find_partition_skew(evidence)


def _find_moved(evidence: HealthEvidence) -> Iterator[TopicFinding]:
    """Brokers that lead fewer partitions than they are first in line for, as after a restart."""
    first: Counter[int] = Counter()
    led: Counter[int] = Counter()
    up = evidence.brokers
    for topic in evidence.topics.values():
        for partition in topic.partitions:
            if partition.leader is not None and partition.replicas[0] in up:
                first[partition.replicas[0]] += 1
                led[partition.replicas[0]] += partition.leader == partition.replicas[0]
    for broker, count in sorted(first.items()):
        moved = count - led[broker]
        if moved >= _MOVED_LEAST and moved > count * _MOVED_SHARE:
            yield TopicFinding(
                HealthCheck.LEADER_SKEW,
                Severity.WARNING,
                "",
                (),
                what=f"broker {broker} leads {led[broker]} of the {count} partitions that it is first in line for",
                why="the other brokers do its work",
                next_step="wait five minutes (auto.leader.rebalance.enable), or: kafka-leader-election.sh "
                "--election-type preferred --all-topic-partitions",
            )


def _find_leader_skew(evidence: HealthEvidence) -> Iterator[TopicFinding]:
    leaders = Counter(
        partition.leader
        for topic in evidence.topics.values()
        for partition in topic.partitions
        if partition.leader is not None
    )
    share = sum(leaders.values()) / max(1, len(evidence.brokers))
    for broker, count in sorted(leaders.items()):
        if count > share * _FACTOR and count - share >= _LEADERS_LEAST:
            yield TopicFinding(
                HealthCheck.LEADER_SKEW,
                Severity.WARNING,
                "",
                (),
                what=f"broker {broker} leads {render_count(count, 'partition')}; an even share is {share:.0f}",
                why="every write and most reads of them go to this broker",
                next_step="spread the copies: kafka-reassign-partitions.sh",
            )


def _find_size_skew(evidence: HealthEvidence) -> Iterator[TopicFinding]:
    sizes: Counter[int] = Counter()
    for found in evidence.sizes.values():
        sizes.update(found.by_broker)
    share = sum(sizes.values()) / max(1, len(evidence.brokers))
    for broker, size in sorted(sizes.items()):
        if size > share * _FACTOR and size - share >= _BYTES_LEAST:
            yield TopicFinding(
                HealthCheck.SIZE_SKEW,
                Severity.WARNING,
                "",
                (),
                what=f"broker {broker} holds {render_bytes(size)}; an even share is {render_bytes(int(share))}",
                why="its disk is full first, and then its partitions go offline",
                next_step="spread the copies: kafka-reassign-partitions.sh",
            )


def _find_partition_skew(evidence: HealthEvidence) -> Iterator[TopicFinding]:
    for name, found in sorted(evidence.sizes.items()):
        sizes = found.by_partition
        average = sum(sizes.values()) / max(1, len(sizes))
        large = tuple(
            number
            for number, size in sorted(sizes.items())
            if size > average * _PARTITION_FACTOR and size >= _BYTES_LEAST
        )
        if large:
            biggest = max(sizes[number] for number in large)
            yield TopicFinding(
                HealthCheck.SIZE_SKEW,
                Severity.INFO,
                name,
                large,
                what=f"{render_bytes(biggest)} in one partition; the average is {render_bytes(int(average))}",
                why="one reader has most of the work, and no further reader can help it",
                next_step="look for a key that most records have",
            )
