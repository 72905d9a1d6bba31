"""Check topics: balance of leaders and bytes, replicas, expiring offsets, and internal topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from seamark.connect.model import State
from seamark.core.readings import Severity
from seamark.kafka.model import PartitionStatus, TopicStatus
from seamark.report.words import render_bytes, render_count, render_duration
from seamark.topics.health_model import WARN_AT, HealthCheck, HealthEvidence, Reader, TopicFinding

# Kafka's own leader.imbalance.per.broker.percentage is 10; for only a few partitions a percentage is meaningless.
_MOVED_SHARE = 0.1
_MOVED_LEAST = 5
# 1.5 times its share, and enough bytes to be noticeable: the check is about load, not about symmetry.
_FACTOR = 1.5
_LEADERS_LEAST = 20
_BYTES_LEAST = 1 << 30
# A partition with three times the average bytes of its topic indicates a hot key or a bad partitioner.
_PARTITION_FACTOR = 3


def examine_balance(evidence: HealthEvidence) -> Iterator[TopicFinding]:
    """Check leader-skew, size-skew: between brokers, and between the partitions of a topic."""
    yield from _find_moved(evidence)
    yield from _find_leader_skew(evidence)
    yield from _find_size_skew(evidence)
    yield from _find_partition_skew(evidence)


def _find_moved(evidence: HealthEvidence) -> Iterator[TopicFinding]:
    """Find brokers that lead fewer partitions than they are the preferred leader of, as after a restart."""
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
                what=f"broker {broker} leads {led[broker]} of the {count} partitions of which it is the preferred "
                "leader",
                why="the other brokers have its load",
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
                next_step="reassign replicas: kafka-reassign-partitions.sh",
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
                why="its disk fills up before the others, and then its partitions go offline",
                next_step="reassign replicas: kafka-reassign-partitions.sh",
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
                why="one consumer gets most of the records, and more consumers don't help",
                next_step="check whether most records have the same key",
            )


def examine_copies(evidence: HealthEvidence) -> Iterator[TopicFinding]:
    """Check leaderless, under-min-isr, under-replicated: the same partitions that kafka-topics reports."""
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
            what="the partition has no leader",
            why="the partition can be neither read nor written",
            next_step=_format_repair(_pick(topic, topic.leaderless), brokers),
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
            why="writes with acks=all fail, which Connect and most producers use",
            next_step=_format_repair(short, brokers),
        )
    if capped:
        yield TopicFinding(
            HealthCheck.UNDER_MIN_ISR,
            Severity.WARNING,
            topic.name,
            tuple(found.id for found in capped),
            what=f"min.insync.replicas is {topic.min_isr}, and the partition has only {_say_range(capped)}",
            why="brokers before 3.7 reject every write with acks=all; newer ones wait for every replica",
            next_step="add replicas (kafka-reassign-partitions.sh), or: "
            f"seamark topics update TOPIC --config min.insync.replicas={max(1, topic.replication_factor - 1)}",
        )


def _find_under_replicated(topic: TopicStatus, evidence: HealthEvidence) -> Iterator[TopicFinding]:
    partitions = [
        found
        for found in _pick(topic, topic.under_replicated)
        # A replica that is being reassigned to another broker is not missing yet.
        if len(found.replicas) - len(evidence.moving.get((topic.name, found.id), ())) > len(found.isr)
    ]
    if partitions:
        missing = sorted({broker for found in partitions for broker in found.missing})
        yield TopicFinding(
            HealthCheck.UNDER_REPLICATED,
            Severity.WARNING,
            topic.name,
            tuple(found.id for found in partitions),
            what=f"the replicas on {_name(missing)} are missing or not in sync",
            why="if another broker fails, the partition may go offline or lose records",
            next_step=_format_repair(partitions, evidence.brokers),
        )


def _pick(topic: TopicStatus, numbers: Sequence[int]) -> list[PartitionStatus]:
    wanted = frozenset(numbers)
    return [found for found in topic.partitions if found.id in wanted]


def _say_range(partitions: Sequence[PartitionStatus]) -> str:
    counts = sorted({len(found.isr) for found in partitions})
    noun = "replica" if counts == [1] else "replicas"
    return f"{counts[0]} {noun}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} replicas"


def _format_repair(partitions: Sequence[PartitionStatus], brokers: frozenset[int]) -> str:
    """Return which brokers to restore: those that are down, and those that are up and lag."""
    missing = {broker for found in partitions for broker in found.missing}
    if not missing:
        # All replicas are in sync and there is no leader: the brokers that have them are down.
        missing = {broker for found in partitions for broker in found.replicas}
    gone, behind = sorted(missing - brokers), sorted(missing & brokers)
    steps = [f"restart {_name(gone)}"] if gone else []
    if behind:
        steps.append(f"{_name(behind)} {'is' if len(behind) == 1 else 'are'} running: wait, or check the broker log")
    return "; ".join(steps)


def _name(brokers: Sequence[int]) -> str:
    return f"broker{'s' if len(brokers) > 1 else ''} {', '.join(map(str, brokers))}"


# The brokers delete the offsets of a group that was empty for `offsets.retention.minutes`. Kafka does not report since
# when a group is empty. The log shows whether the sink has consumed a recently written record: then it was running
# since. If it has not, it may have stopped before, or there was nothing to consume; the finding states which.


def examine_expiry(evidence: HealthEvidence) -> Iterator[TopicFinding]:
    """Check offsets-expire: each sink that has not been running for long, or that is stopped without an offset."""
    yield from _find_forgotten(evidence)
    retention = evidence.offsets_retention_seconds
    for reader in evidence.readers:
        if retention is None or not reader.sinks or not reader.is_quiet:
            continue
        spots = [spot for spot in reader.offsets if spot in evidence.idle]
        # One record that was written within the safe time and consumed by the sink is enough: all offsets of a classic
        # group expire together, counted from when it became empty.
        if not spots or any(_is_recent(reader, spot, evidence) for spot in spots):
            continue
        waiting = sorted(spot for spot in spots if _has_waited(reader, spot, evidence))
        yield from _build_expiry_findings(
            reader, waiting or sorted(spots), is_likely=bool(waiting), retention=retention
        )


def _find_forgotten(evidence: HealthEvidence) -> Iterator[TopicFinding]:
    """Find stopped sinks without an offset. After a failed read, it is unknown which sinks have one."""
    holding = {reader.group for reader in evidence.readers if reader.offsets}
    if evidence.failures:
        return
    for group, sinks in sorted(evidence.sinks.items()):
        for sink in sinks if group not in holding else ():
            if sink.status is None or sink.status.state is not State.STOPPED:
                continue
            for topic in sorted(name.strip() for name in sink.config.get("topics", "").split(",")):
                if topic in evidence.topics:
                    yield _build_forgotten(f"connector/{sink.owner}", topic)


def _build_forgotten(subject: str, topic: str) -> TopicFinding:
    return TopicFinding(
        HealthCheck.OFFSETS_EXPIRE,
        Severity.INFO,
        topic,
        (),
        what=f"{subject} is stopped and has no committed offsets: it has never run, or the offsets have expired",
        why="the next start uses auto.offset.reset (earliest by default for sinks)",
        next_step="if it has run before, set the offsets of its group before you start it: seamark groups move",
        reader=subject,
    )


def _is_recent(reader: Reader, spot: tuple[str, int], evidence: HealthEvidence) -> bool:
    young = evidence.idle[spot]
    return young is not None and reader.offsets[spot].offset > young


def _has_waited(reader: Reader, spot: tuple[str, int], evidence: HealthEvidence) -> bool:
    """Return whether the next record is older than the safe time, and the sink has not consumed it since."""
    young, bounds = evidence.idle[spot], evidence.bounds.get(spot)
    end = young if young is not None else (bounds.latest if bounds else 0)
    return reader.offsets[spot].offset < end


def _build_expiry_findings(
    reader: Reader, spots: list[tuple[str, int]], *, is_likely: bool, retention: float
) -> Iterator[TopicFinding]:
    safe, kept = render_duration(retention * WARN_AT), render_duration(retention)
    seen = (
        f"records older than {safe} wait for it"
        if is_likely
        else f"no record was written for {safe}, so the time since its last commit is unknown"
    )
    for topic in dict.fromkeys(topic for topic, _ in spots):
        yield TopicFinding(
            HealthCheck.OFFSETS_EXPIRE,
            Severity.WARNING if is_likely else Severity.INFO,
            topic,
            tuple(number for name, number in spots if name == topic),
            what=f"{reader.subject} is not running, and {seen}",
            why=f"the brokers delete its offsets after it was empty for {kept} (offsets.retention.minutes); "
            "then the next start uses auto.offset.reset (earliest by default for sinks)",
            next_step=f"start it, or save its offsets: seamark groups show {reader.group} -o csv",
            reader=reader.subject,
        )


# Kafka's own compacted topics. __share_group_state is not among them: it uses snapshots instead.
_KAFKA = {
    "__consumer_offsets": "the committed offsets of every group",
    "__transaction_state": "the state of every transactional producer",
}


def examine_internal(evidence: HealthEvidence) -> Iterator[TopicFinding]:
    """Check internal-topic: compacted if a key must keep its last value, and kept forever if all records must stay."""
    for own, what in _KAFKA.items():
        yield from _require_policy(evidence, own, keeps=what)
    for settings in evidence.context.connect.values():
        whose = f"of Connect cluster {settings.name}"
        for name, keeps in (
            (settings.offsets_topic, "the offsets"),
            (settings.config_topic, "the configs"),
            (settings.status_topic, "the states"),
        ):
            if name and name not in evidence.topics and name not in evidence.failures:
                yield _build_missing(name, f"{keeps} {whose}")
            elif name:
                yield from _require_policy(evidence, name, keeps=f"{keeps} {whose}")
        yield from _require_one_partition(evidence, settings.config_topic or "", whose)
    yield from _examine_journal(evidence)


def _examine_journal(evidence: HealthEvidence) -> Iterator[TopicFinding]:
    journal = evidence.context.journal
    if journal.kind != "kafka":
        return
    yield from _require_policy(evidence, journal.heads_topic, keeps="the newest entry of every change")
    yield from _require_policy(evidence, journal.topic, keeps="every change", policy="delete")
    topic = evidence.topics.get(journal.topic)
    for key in ("retention.ms", "retention.bytes"):
        kept = topic.config(key) if topic else ""
        # If the brokers report no retention.bytes, it has Kafka's default, which is unlimited.
        if topic and kept not in ("", "-1"):
            yield _build_internal_finding(
                topic.name,
                what=f"{key} is {kept}",
                why="journal entries expire, and expired changes can't be undone",
                next_step=f"seamark topics update {topic.name} --config {key}=-1",
            )


def _require_policy(
    evidence: HealthEvidence, name: str, *, keeps: str, policy: str = "compact"
) -> Iterator[TopicFinding]:
    topic = evidence.topics.get(name)
    if topic is None or topic.configs_error:
        return
    found = topic.config("cleanup.policy")
    if found != policy:
        yield _build_internal_finding(
            name,
            what=f"cleanup.policy is {found or 'unknown'} instead of {policy}",
            why=f"the topic stores {keeps}, which are deleted "
            + ("after the retention time" if "delete" in found else "by compaction of equal keys"),
            next_step=_say_alter(topic, policy),
        )


def _say_alter(topic: TopicStatus, policy: str) -> str:
    # seamark does not change Kafka's own topics.
    if topic.is_internal:
        return f"kafka-configs.sh --alter --topic {topic.name} --add-config cleanup.policy={policy}"
    return f"seamark topics update {topic.name} --config cleanup.policy={policy}"


def _require_one_partition(evidence: HealthEvidence, name: str, whose: str) -> Iterator[TopicFinding]:
    topic = evidence.topics.get(name)
    if topic is not None and len(topic.partitions) != 1:
        yield _build_internal_finding(
            name,
            what=f"the config topic has {len(topic.partitions)} partitions",
            why=f"the configs {whose} have no order, and no worker starts",
            next_step="create a new config topic with exactly 1 partition, and create the connectors again",
        )


def _build_missing(name: str, what: str) -> TopicFinding:
    return _build_internal_finding(
        name,
        what="the topic does not exist",
        why=f"it must store {what}",
        next_step="correct its name in the context: it must be the one in the config of the workers",
    )


def _build_internal_finding(name: str, *, what: str, why: str, next_step: str) -> TopicFinding:
    return TopicFinding(HealthCheck.INTERNAL_TOPIC, Severity.ERROR, name, (), what=what, why=why, next_step=next_step)
