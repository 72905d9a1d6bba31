"""Topics that Kafka, Connect and seamark live on: whether they keep what they must keep."""

from __future__ import annotations

from collections.abc import Iterator

from seamark.core.finding import Severity
from seamark.kafka.topic import TopicStatus
from seamark.topics.evidence import HealthEvidence
from seamark.topics.topic_health import HealthCheck, TopicFinding

# Kafka's own compacted topics. __share_group_state is not one of them: it takes snapshots instead.
_KAFKA = {
    "__consumer_offsets": "the positions of every group",
    "__transaction_state": "the state of every transactional producer",
}


def examine_internal(evidence: HealthEvidence) -> Iterator[TopicFinding]:
    """internal-topic: compacted where a key must keep its last value, and kept for good where all must stay."""
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
        # Where the brokers tell no retention.bytes, it has Kafka's default, which is unlimited.
        if topic and kept not in ("", "-1"):
            yield _build_internal_finding(
                topic.name,
                what=f"{key} is {kept}",
                why="the journal of changes goes with time, and with it every way back",
                next_step=f"seamark topics alter {topic.name} --set {key}=-1",
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
            what=f"cleanup.policy is {found or 'not told'} instead of {policy}",
            why=f"it keeps {keeps}, and loses them"
            + (" as they grow old" if "delete" in found else " where keys are equal"),
            next_step=_say_alter(topic, policy),
        )


def _say_alter(topic: TopicStatus, policy: str) -> str:
    # seamark leaves Kafka's own topics alone.
    if topic.is_internal:
        return f"kafka-configs.sh --alter --topic {topic.name} --add-config cleanup.policy={policy}"
    return f"seamark topics alter {topic.name} --set cleanup.policy={policy}"


def _require_one_partition(evidence: HealthEvidence, name: str, whose: str) -> Iterator[TopicFinding]:
    topic = evidence.topics.get(name)
    if topic is not None and len(topic.partitions) != 1:
        yield _build_internal_finding(
            name,
            what=f"it has {len(topic.partitions)} partitions",
            why=f"the configs {whose} lose their order, and no worker starts on it",
            next_step="make a new config topic with exactly 1 partition, and create the connectors again on it",
        )


def _build_missing(name: str, what: str) -> TopicFinding:
    return _build_internal_finding(
        name,
        what="there is no such topic",
        why=f"it should keep {what}",
        next_step="correct its name in the context: it must be that of the workers' own config",
    )


def _build_internal_finding(name: str, *, what: str, why: str, next_step: str) -> TopicFinding:
    return TopicFinding(HealthCheck.INTERNAL_TOPIC, Severity.ERROR, name, (), what=what, why=why, next_step=next_step)
