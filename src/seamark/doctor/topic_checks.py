"""Check the internal topics, in which Connect stores offsets, configs and states."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seamark.core.readings import Finding, Severity
from seamark.doctor.evidence import Check, ClusterEvidence, Evidence, TransactionsEvidence, build_unexamined, or_ok
from seamark.errors import NotFoundError, SeamarkError
from seamark.kafka.model import KafkaCluster, OffsetSpec, OpenTransaction, TopicStatus
from seamark.report.words import render_count, render_duration

if TYPE_CHECKING:
    from seamark.kafka.api import BrokersPort


_GROUPS = "connect.consumer-group"


def examine_groups(evidence: Evidence) -> Iterator[Finding]:
    """Check connect.consumer-group: no two sinks share a group."""
    for cluster in evidence.clusters:
        group = cluster.settings.consumer_group_id
        if group:
            words = (
                f"the workers set consumer.group.id={group}: all sinks share one group, and resetting the offsets "
                "of one resets all"
            )
            fix = (
                "copy the offsets of each sink to its group connect-NAME, then remove consumer.group.id from the "
                "worker config"
            )
            yield Finding(_GROUPS, Severity.ERROR, cluster.name, words, fix)
        elif cluster.settings.worker_config is None:
            words = "unknown whether the workers set consumer.group.id: Connect's REST API does not return it"
            fix = f"set connect.{cluster.name}.worker_config"
            yield Finding(_GROUPS, Severity.INFO, cluster.name, words, fix)
        if isinstance(cluster.connectors, SeamarkError):
            yield build_unexamined(_GROUPS, subject=cluster.name, error=cluster.connectors)
    shared = tuple(_find_shared_groups(evidence))
    yield from shared
    sinks = sum(len(cluster.sinks) for cluster in evidence.clusters)
    if not shared and sinks and not any(cluster.settings.consumer_group_id for cluster in evidence.clusters):
        yield Finding(_GROUPS, Severity.OK, evidence.context.name, f"{sinks} sinks, each with its own group")


def _find_shared_groups(evidence: Evidence) -> Iterator[Finding]:
    """Find groups of several sinks, including equal names in two Connect clusters on one Kafka cluster."""
    users: dict[tuple[str, str], list[str]] = defaultdict(list)
    for cluster in evidence.clusters:
        kafka = _find_kafka(cluster)
        for sink in cluster.sinks:
            group = cluster.find_group(sink)
            is_told_already = group == cluster.settings.consumer_group_id
            # The worker resolves a reference; equal text may be another group on another worker.
            if not is_told_already and "${" not in group:
                users[kafka, group].append(sink.owner)
    for (_, group), sinks in users.items():
        if len(sinks) > 1:
            words = f"{', '.join(sinks)} share one group: each gets only a part of the records"
            fix = "set another consumer.override.group.id or another name for all but one"
            yield Finding(_GROUPS, Severity.ERROR, group, words, fix)


def _find_kafka(cluster: ClusterEvidence) -> str:
    return next((found.kafka_cluster_id for found in cluster.workers_up if found.kafka_cluster_id), cluster.name)


GROUP_CHECKS = (Check(_GROUPS, examine_groups),)


_TOPICS = "connect.topics"
_WORKER_KEYS = {
    "offsets": "offset.storage.topic",
    "config": "config.storage.topic",
    "status": "status.storage.topic",
}
# Kafka's own recommendation: with three replicas one broker may be down for maintenance while another fails.
_WANTED_COPIES = 3


def examine_topics(evidence: Evidence) -> Iterator[Finding]:
    """Check connect.topics: the internal topics exist, are compacted, and have enough replicas."""
    for cluster in evidence.clusters:
        yield from _find_unknown(cluster)
        for kind, topic in cluster.internal_topics.items():
            if topic:
                yield from _examine_topic(evidence, subject=f"{cluster.name} {topic}", kind=kind, topic=topic)
    yield from _find_shared_topics(evidence)


def _find_unknown(cluster: ClusterEvidence) -> Iterator[Finding]:
    unknown = [kind for kind, topic in cluster.internal_topics.items() if not topic]
    if unknown:
        keys = ", ".join(f"{kind}_topic" for kind in unknown)
        yield Finding(
            _TOPICS,
            Severity.INFO,
            cluster.name,
            f"the {' and '.join(unknown)} topic is unknown: Connect's REST API does not return it",
            f"set worker_config in connect.{cluster.name}, or {keys}",
        )


def _examine_topic(evidence: Evidence, *, subject: str, kind: str, topic: str) -> Iterator[Finding]:
    if evidence.kafka is None:
        yield Finding(
            _TOPICS, Severity.INFO, subject, "not examined: the context has no brokers", "see kafka.reachable"
        )
        return
    if isinstance(evidence.kafka, SeamarkError):
        yield build_unexamined(_TOPICS, subject=subject, error=evidence.kafka)
        return
    found = evidence.topics.get(topic)
    if found is None or isinstance(found, NotFoundError):
        words = f"the topic does not exist, so Connect can't store its {kind}"
        fix = f"correct {kind}_topic in the context; it must be the {_WORKER_KEYS[kind]} of the workers"
        yield Finding(_TOPICS, Severity.ERROR, subject, words, fix)
        return
    if isinstance(found, SeamarkError):
        yield build_unexamined(_TOPICS, subject=subject, error=found)
        return
    faults = (
        *_examine_policy(found, subject=subject),
        *_examine_partitions(found, subject=subject, kind=kind),
        *_examine_copies(found, subject=subject, kafka=evidence.kafka),
    )
    words = f"compacted, {len(found.partitions)} partitions, replication factor {found.replication_factor}"
    yield from or_ok(faults, _TOPICS, subject, words)


def _examine_policy(topic: TopicStatus, *, subject: str) -> Iterator[Finding]:
    if topic.configs_error:
        fix = f"grant DESCRIBE_CONFIGS on topic {topic.name}"
        yield Finding(_TOPICS, Severity.WARNING, subject, f"cleanup.policy not examined: {topic.configs_error}", fix)
        return
    policy = topic.config("cleanup.policy")
    if policy != "compact":
        words = f"cleanup.policy is {policy or 'unknown'} instead of compact: Connect loses data, and no worker starts"
        fix = f"kafka-configs.sh --alter --topic {topic.name} --add-config cleanup.policy=compact"
        yield Finding(_TOPICS, Severity.ERROR, subject, words, fix)


def _examine_partitions(topic: TopicStatus, *, subject: str, kind: str) -> Iterator[Finding]:
    count = len(topic.partitions)
    if kind == "config" and count != 1:
        words = f"the config topic has {count} partitions: configs have no order, and workers refuse to start"
        fix = "create a new config topic with exactly 1 partition, and create the connectors again"
        yield Finding(_TOPICS, Severity.ERROR, subject, words, fix)
    leaderless = [str(partition.id) for partition in topic.partitions if partition.leader is None]
    if leaderless:
        words = f"no broker leads partition {', '.join(leaderless)}: it can be neither read nor written"
        yield Finding(_TOPICS, Severity.ERROR, subject, words, "restart the brokers of its replicas")
    elif topic.under_replicated:
        partitions = ", ".join(map(str, topic.under_replicated))
        words = f"partition {partitions} is under-replicated"
        yield Finding(
            _TOPICS, Severity.WARNING, subject, words, "restart the missing broker, or wait until it has caught up"
        )


def _examine_copies(topic: TopicStatus, *, subject: str, kafka: KafkaCluster) -> Iterator[Finding]:
    copies, wanted = topic.replication_factor, min(_WANTED_COPIES, len(kafka.brokers))
    if copies < wanted:
        words = f"{copies} of {wanted} replicas: the loss of one broker may lose all offsets"
        fix = f"kafka-reassign-partitions.sh: give every partition of {topic.name} {wanted} replicas"
        yield Finding(_TOPICS, Severity.WARNING, subject, words, fix)
    told = topic.config("min.insync.replicas")
    least = int(told) if told.isdecimal() else 0
    if least > copies:
        # 4.3.1 counts at most as many as there are replicas (seen); older brokers do not.
        words = f"min.insync.replicas is {least} with {copies} replicas: older brokers reject every write"
        fix = f"set min.insync.replicas of {topic.name} to {max(1, copies - 1)}"
        yield Finding(_TOPICS, Severity.WARNING, subject, words, fix)
    elif least == copies > 1:
        words = f"min.insync.replicas is {least} with {copies} replicas: Connect stops if one broker is down"
        yield Finding(
            _TOPICS, Severity.WARNING, subject, words, f"set min.insync.replicas of {topic.name} to {copies - 1}"
        )
    elif least == 1 and copies >= _WANTED_COPIES:
        words = "min.insync.replicas is 1: an acknowledged write may be on a single broker only"
        yield Finding(_TOPICS, Severity.INFO, subject, words, f"set min.insync.replicas of {topic.name} to 2")


def _find_shared_topics(evidence: Evidence) -> Iterator[Finding]:
    """Find internal topics shared by two Connect clusters, which then read each other's connectors or states."""
    users: dict[tuple[str, str], list[str]] = defaultdict(list)
    for cluster in evidence.clusters:
        for kind, topic in cluster.internal_topics.items():
            if topic:
                users[kind, topic].append(cluster.name)
    for (kind, topic), clusters in users.items():
        if len(clusters) > 1:
            # Offsets are stored by connector name, so sharing works until two names are equal.
            severity = Severity.WARNING if kind == "offsets" else Severity.ERROR
            words = f"the Connect clusters {', '.join(clusters)} share this {kind} topic"
            fix = f"set another {_WORKER_KEYS[kind]} for each Connect cluster"
            yield Finding(_TOPICS, severity, topic, words, fix)


TOPIC_CHECKS = (Check(_TOPICS, examine_topics),)


_TRANSACTIONS = "kafka.transactions"
# Tasks end their transactions with every batch, or every `offset.flush.interval.ms`, a minute by default: newer ones
# are theirs.
_OLD_SECONDS = 90.0
# The brokers allow no transaction longer than `transaction.max.timeout.ms`, 15 minutes by default. An older one that no
# coordinator reports has none.
_HANGING_SECONDS = 1200.0
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class TransactionsReader:
    """Finds topics with records after the last stable offset, and the transactions that cause it."""

    brokers: Callable[[], BrokersPort]
    now: Callable[[], float]

    def read(self, topics: Sequence[TopicStatus]) -> TransactionsEvidence:
        """Return the open transactions of these topics."""
        kafka = self.brokers()
        spots = [spot for topic in topics for spot in topic.led_spots]
        stable = kafka.read_log_offsets(spots, at=OffsetSpec.STABLE).require_complete(what="the last stable offsets")
        ends = kafka.read_log_offsets(spots, at=OffsetSpec.LATEST).require_complete(what="the ends")
        held = [
            spot
            for spot in spots
            if (end := ends[spot]) is not None and (last := stable[spot]) is not None and last.offset < end.offset
        ]
        # A transaction that ended between the two requests is no longer open.
        return TransactionsEvidence(self.now(), len(spots), kafka.read_open_transactions(held) if held else ())


def examine_transactions(evidence: Evidence) -> Iterator[Finding]:
    """Check kafka.transactions: no unfinished transaction hides the end of an internal topic from consumers."""
    found = evidence.transactions
    if isinstance(found, SeamarkError):
        yield build_unexamined(_TRANSACTIONS, subject=evidence.context.name, error=found)
        return
    if found is None:
        return
    told = [_describe(one, found.at_seconds, evidence.address) for one in found.open]
    young = [one for one in told if one.severity is Severity.INFO]
    yield from (one for one in told if one not in young[_SHOWN:])
    if len(young) > _SHOWN:
        words = f"{len(young) - _SHOWN} more transactions are open, all recent: tasks are running"
        yield Finding(_TRANSACTIONS, Severity.INFO, evidence.context.name, words)
    if not found.open:
        words = f"no transaction is open on {render_count(found.partitions, 'partition')} of internal topics"
        yield Finding(_TRANSACTIONS, Severity.OK, evidence.context.name, words)


def _describe(found: OpenTransaction, now: float, address: str) -> Finding:
    place = f"{found.topic}-{found.partition}"
    seconds = None if found.since_ms is None else max(0.0, now - found.since_ms / 1000)
    age = "since an unknown time" if seconds is None else f"for {render_duration(seconds)}"
    name = f"transactional.id {found.transactional_id}, " if found.transactional_id else ""
    words = (
        f"a transaction is open {age}: {name}producer id {found.producer_id}, from offset {found.start_offset} on; "
        "exactly-once tasks, REST and other consumers with read_committed wait for its end"
    )
    abort = (
        f"kafka-transactions.sh --bootstrap-server {address} abort --topic {found.topic} "
        f"--partition {found.partition} --start-offset {found.start_offset}"
    )
    if not found.is_known:
        return _describe_unknown(place, words, abort, is_old=seconds is None or seconds > _HANGING_SECONDS)
    left = _find_left(found, now)
    wait = f"the brokers end it within {render_duration(left)} (transaction.timeout.ms)" if left is not None else ""
    if seconds is not None and seconds <= _OLD_SECONDS:
        return Finding(_TRANSACTIONS, Severity.INFO, place, words, wait or "check again in a minute")
    fix = f"stop or restart its producer; {wait}; or, if the producer is permanently down: {abort}"
    return Finding(_TRANSACTIONS, Severity.WARNING, place, words, fix)


def _describe_unknown(place: str, words: str, abort: str, *, is_old: bool) -> Finding:
    """Describe a transaction that no coordinator reports: it hangs, or access to its transactional.id is denied."""
    if is_old:
        return Finding(
            _TRANSACTIONS,
            Severity.ERROR,
            place,
            f"{words}; no coordinator has it, so it never ends",
            f"abort it: {abort}",
        )
    words = f"{words}; no coordinator reports it: it never ends, or you may not DESCRIBE its transactional.id"
    return Finding(
        _TRANSACTIONS, Severity.WARNING, place, words, f"check again in 20 min; if it is still open: {abort}"
    )


def _find_left(found: OpenTransaction, now: float) -> float | None:
    """Return the time until the brokers abort it; they check every ten seconds."""
    if found.began_ms is None or found.timeout_ms is None:
        return None
    return max(0.0, (found.began_ms + found.timeout_ms) / 1000 - now) + 10.0


TRANSACTION_CHECKS = (Check(_TRANSACTIONS, examine_transactions),)
