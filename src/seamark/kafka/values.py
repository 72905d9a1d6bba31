"""confluent_kafka's answers as our own frozen values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from seamark.kafka.groups import Committed, Group, GroupListing, GroupMember, GroupStatus, GroupType
from seamark.kafka.model import Broker, KafkaCluster, PartitionStatus, TopicConfig, TopicPartition, TopicStatus

CONFIGS_THAT_MATTER = (
    "cleanup.policy",
    "min.insync.replicas",
    "retention.ms",
    "min.compaction.lag.ms",
    "max.message.bytes",
    "unclean.leader.election.enable",
)
"""The topic configs that decide whether Connect can trust an internal topic."""

_DEFAULT_CONFIG = 5


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
    own = {key: entry for key, entry in configs.items() if key not in matter and _is_changed(entry)}
    return TopicStatus(
        name=description.name,
        topic_id=_build_topic_id(description.topic_id),
        partitions=partitions,
        operations=build_operations(description.authorized_operations),
        configs={key: _build_config(entry) for key, entry in (matter | own).items()},
        configs_error=configs_error,
        is_internal=description.is_internal,
    )


def build_group(description: Any) -> GroupStatus:
    """The group of a ConsumerGroupDescription."""
    return GroupStatus(
        name=description.group_id,
        state=description.state.name,
        members=len(description.members),
        operations=build_operations(description.authorized_operations),
    )


def build_listing(listing: Any) -> GroupListing:
    """The group of a ConsumerGroupListing."""
    # `_name_` is `name` without the way over a property, which is half of the work here; there may be thousands.
    return GroupListing(
        listing.group_id,
        listing.state._name_,
        _find_type(listing.type._name_),
        # A client that only stores offsets in Kafka joins no group, and so has no protocol.
        "" if listing.is_simple_consumer_group else "consumer",
    )


def build_members(description: Any) -> Group:
    """The group of a ConsumerGroupDescription, with its members."""
    coordinator = description.coordinator
    return Group(
        name=description.group_id,
        state=description.state.name,
        type=GroupType.of(description.type.name),
        protocol="" if description.is_simple_consumer_group else "consumer",
        assignor=description.partition_assignor or "",
        coordinator=coordinator.id if coordinator is not None else None,
        members=tuple(_build_member(member) for member in description.members),
        operations=build_operations(description.authorized_operations),
    )


def build_committed(partitions: Iterable[Any]) -> dict[TopicPartition, Committed]:
    """What the TopicPartitions of a group's answer hold. A negative offset means that nothing is committed.

    That there is metadata can be believed, its words can't: see `Brokers.read_committed`.
    """
    return {
        (found.topic, found.partition): Committed(
            offset=found.offset, metadata=_build_metadata(found), leader_epoch=_build_epoch(found.leader_epoch)
        )
        for found in partitions
        if found.offset >= 0
    }


def build_operations(operations: Iterable[Any] | None) -> frozenset[str]:
    """Kafka's words for what this principal may do. The client gives None where nothing is allowed."""
    return frozenset(operation.name for operation in operations or ())


def _build_topic_id(topic_id: Any) -> str:
    # Kafka's own tools write the URL-safe alphabet; people compare the two by eye.
    return str(topic_id).replace("+", "-").replace("/", "_")


def _build_member(member: Any) -> GroupMember:
    assignment = member.assignment
    spots = assignment.topic_partitions if assignment is not None else ()
    return GroupMember(
        id=member.member_id,
        client_id=member.client_id or "",
        host=(member.host or "").removeprefix("/"),
        assignment=tuple(sorted((spot.topic, spot.partition) for spot in spots)),
        instance_id=member.group_instance_id or "",
    )


@cache
def _find_type(word: str) -> GroupType:
    return GroupType.of(word)


def _build_metadata(found: Any) -> str:
    try:
        metadata = found.metadata
    except UnicodeDecodeError:
        # The client reads on behind the end of what the brokers sent.
        return "\ufffd"
    return "" if metadata is None else str(metadata) or "\0"


def _build_epoch(epoch: int | None) -> int | None:
    return epoch if epoch is not None and epoch >= 0 else None


def _build_config(entry: Any) -> TopicConfig:
    return TopicConfig(
        value=entry.value or "", source=_source(entry), is_sensitive=bool(getattr(entry, "is_sensitive", False))
    )


def _is_changed(entry: Any) -> bool:
    # 5 is DEFAULT_CONFIG. Looked at for every entry of every topic, so without the way over the enum.
    return bool(getattr(entry.source, "value", entry.source) != _DEFAULT_CONFIG)


def _source(entry: Any) -> str:
    return _name_source(entry.source)


@cache
def _name_source(source: Any) -> str:
    # The entry holds the bare number in some releases and the enum in others.
    from confluent_kafka.admin import ConfigSource  # type: ignore[attr-defined]  # noqa: PLC0415

    try:
        return str(ConfigSource(source).name)
    except ValueError:
        return str(ConfigSource.UNKNOWN_CONFIG.name)
