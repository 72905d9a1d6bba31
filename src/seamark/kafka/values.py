"""confluent_kafka's answers as our own frozen values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from seamark.model.broker import Broker, KafkaCluster
from seamark.model.group import GroupStatus
from seamark.model.topic import PartitionStatus, TopicConfig, TopicStatus

CONFIGS_THAT_MATTER = (
    "cleanup.policy",
    "min.insync.replicas",
    "retention.ms",
    "min.compaction.lag.ms",
    "max.message.bytes",
    "unclean.leader.election.enable",
)
"""The topic configs that decide whether Connect can trust an internal topic."""


def build_cluster(description: Any) -> KafkaCluster:
    """The cluster of a DescribeClusterResult."""
    brokers = tuple(
        Broker(id=node.id, host=node.host, port=node.port, rack=node.rack or "")
        for node in sorted(description.nodes, key=lambda node: node.id)
    )
    controller = description.controller
    return KafkaCluster(
        cluster_id=description.cluster_id or "",
        brokers=brokers,
        controller=controller.id if controller is not None else None,
        operations=build_operations(description.authorized_operations),
    )


def build_topic(description: Any, *, configs: Mapping[str, Any], configs_error: str) -> TopicStatus:
    """The topic of a TopicDescription and the entries of its configs."""
    partitions = tuple(
        PartitionStatus(
            id=partition.id,
            leader=partition.leader.id if partition.leader is not None else None,
            replicas=tuple(node.id for node in partition.replicas),
            isr=tuple(node.id for node in partition.isr),
        )
        for partition in sorted(description.partitions, key=lambda partition: partition.id)
    )
    matter = {key: configs[key] for key in CONFIGS_THAT_MATTER if key in configs}
    return TopicStatus(
        name=description.name,
        topic_id=_build_topic_id(description.topic_id),
        partitions=partitions,
        operations=build_operations(description.authorized_operations),
        configs={key: TopicConfig(value=entry.value or "", source=_source(entry)) for key, entry in matter.items()},
        configs_error=configs_error,
    )


def build_group(description: Any) -> GroupStatus:
    """The group of a ConsumerGroupDescription."""
    return GroupStatus(
        name=description.group_id,
        state=description.state.name,
        members=len(description.members),
        operations=build_operations(description.authorized_operations),
    )


def build_operations(operations: Iterable[Any] | None) -> frozenset[str]:
    """Kafka's words for what this principal may do. The client gives None where nothing is allowed."""
    return frozenset(operation.name for operation in operations or ())


def _build_topic_id(topic_id: Any) -> str:
    # Kafka's own tools write the URL-safe alphabet; people compare the two by eye.
    return str(topic_id).replace("+", "-").replace("/", "_")


def _source(entry: Any) -> str:
    # The entry holds the bare number in some releases and the enum in others.
    from confluent_kafka.admin import ConfigSource  # type: ignore[attr-defined]  # noqa: PLC0415

    try:
        return str(ConfigSource(entry.source).name)
    except ValueError:
        return str(ConfigSource.UNKNOWN_CONFIG.name)
