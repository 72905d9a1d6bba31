"""The internal topics: where Connect keeps offsets, configs and states."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from seamark.core.finding import Finding, Severity
from seamark.doctor.check import Check, build_unexamined
from seamark.doctor.evidence import ClusterEvidence, Evidence
from seamark.errors import NotFoundError, SeamarkError
from seamark.kafka.broker import KafkaCluster
from seamark.kafka.topic import TopicStatus

_TOPICS = "connect.topics"
_WORKER_KEYS = {
    "offsets": "offset.storage.topic",
    "config": "config.storage.topic",
    "status": "status.storage.topic",
}
# Kafka's own advice: with three copies one broker may be down for work while another fails.
_WANTED_COPIES = 3


def examine_topics(evidence: Evidence) -> Iterator[Finding]:
    """connect.topics: the internal topics exist, are compacted, and have enough copies."""
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
            f"the {' and '.join(unknown)} topic is not known: Connect's REST API does not tell it",
            f"name worker_config in connect.{cluster.name}, or set {keys}",
        )


def _examine_topic(evidence: Evidence, *, subject: str, kind: str, topic: str) -> Iterator[Finding]:
    if evidence.kafka is None:
        yield Finding(
            _TOPICS, Severity.INFO, subject, "not examined: the context names no brokers", "see kafka.reachable"
        )
        return
    if isinstance(evidence.kafka, SeamarkError):
        yield build_unexamined(_TOPICS, subject=subject, error=evidence.kafka)
        return
    found = evidence.topics.get(topic)
    if found is None or isinstance(found, NotFoundError):
        words = f"the topic does not exist, so Connect has nowhere to keep its {kind}"
        fix = f"correct {kind}_topic in the context; it must be what the workers have as {_WORKER_KEYS[kind]}"
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
    yield from faults
    if not faults:
        words = f"compacted, {len(found.partitions)} partitions, {found.replication_factor} copies"
        yield Finding(_TOPICS, Severity.OK, subject, words)


def _examine_policy(topic: TopicStatus, *, subject: str) -> Iterator[Finding]:
    if topic.configs_error:
        fix = f"grant DESCRIBE_CONFIGS on topic {topic.name}"
        yield Finding(_TOPICS, Severity.WARNING, subject, f"cleanup.policy not examined: {topic.configs_error}", fix)
        return
    policy = topic.config("cleanup.policy")
    if policy != "compact":
        words = f"cleanup.policy is {policy or 'not told'}: what Connect keeps here gets lost; no worker starts on it"
        fix = f"kafka-configs.sh --alter --topic {topic.name} --add-config cleanup.policy=compact"
        yield Finding(_TOPICS, Severity.ERROR, subject, words, fix)


def _examine_partitions(topic: TopicStatus, *, subject: str, kind: str) -> Iterator[Finding]:
    count = len(topic.partitions)
    if kind == "config" and count != 1:
        words = f"the config topic has {count} partitions: configs lose their order, and workers refuse to start"
        fix = "make a new config topic with exactly 1 partition, and create the connectors again on it"
        yield Finding(_TOPICS, Severity.ERROR, subject, words, fix)
    leaderless = [str(partition.id) for partition in topic.partitions if partition.leader is None]
    if leaderless:
        words = f"no broker leads partition {', '.join(leaderless)}: it can be neither read nor written"
        yield Finding(_TOPICS, Severity.ERROR, subject, words, "bring the brokers that hold it back")
    elif topic.under_replicated:
        partitions = ", ".join(map(str, topic.under_replicated))
        words = f"partition {partitions} misses a copy right now"
        yield Finding(
            _TOPICS, Severity.WARNING, subject, words, "bring the missing broker back, or wait until it caught up"
        )


def _examine_copies(topic: TopicStatus, *, subject: str, kafka: KafkaCluster) -> Iterator[Finding]:
    copies, wanted = topic.replication_factor, min(_WANTED_COPIES, len(kafka.brokers))
    if copies < wanted:
        words = f"{copies} of {wanted} copies: one broker lost may be all positions lost"
        fix = f"kafka-reassign-partitions.sh: give every partition of {topic.name} {wanted} replicas"
        yield Finding(_TOPICS, Severity.WARNING, subject, words, fix)
    told = topic.config("min.insync.replicas")
    least = int(told) if told.isdecimal() else 0
    if least > copies:
        # 4.3.1 counts at most as many as there are copies (seen); older brokers do not.
        words = f"min.insync.replicas is {least} with {copies} copies: older brokers then refuse every write"
        fix = f"set min.insync.replicas of {topic.name} to {max(1, copies - 1)}"
        yield Finding(_TOPICS, Severity.WARNING, subject, words, fix)
    elif least == copies > 1:
        words = f"min.insync.replicas is {least} with {copies} copies: one broker down stops Connect"
        yield Finding(
            _TOPICS, Severity.WARNING, subject, words, f"set min.insync.replicas of {topic.name} to {copies - 1}"
        )
    elif least == 1 and copies >= _WANTED_COPIES:
        words = "min.insync.replicas is 1: a write may stand on a single broker when it is acknowledged"
        yield Finding(_TOPICS, Severity.INFO, subject, words, f"set min.insync.replicas of {topic.name} to 2")


def _find_shared_topics(evidence: Evidence) -> Iterator[Finding]:
    """Two Connect clusters on one topic read each other's connectors or states."""
    users: dict[tuple[str, str], list[str]] = defaultdict(list)
    for cluster in evidence.clusters:
        for kind, topic in cluster.internal_topics.items():
            if topic:
                users[kind, topic].append(cluster.name)
    for (kind, topic), clusters in users.items():
        if len(clusters) > 1:
            # Offsets are kept by connector name, so sharing works until two names are equal.
            severity = Severity.WARNING if kind == "offsets" else Severity.ERROR
            words = f"the Connect clusters {', '.join(clusters)} share this {kind} topic"
            fix = f"give each cluster its own {_WORKER_KEYS[kind]}"
            yield Finding(_TOPICS, severity, topic, words, fix)


TOPIC_CHECKS = (Check(_TOPICS, examine_topics),)
