"""What the services need of the clients: enough for what they do, and no more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from seamark.core.readings import Reading
from seamark.core.refs import Port
from seamark.kafka.clusters import KafkaCluster, OpenTransaction
from seamark.kafka.groups import Committed, Group, GroupListing, GroupOffsets, GroupStatus
from seamark.kafka.model import (
    LogOffsets,
    OffsetAndTimestamp,
    OffsetSpec,
    PartitionReading,
    TopicPartition,
    TopicSize,
    TopicStatus,
)


class KafkaPort(Protocol):
    """The brokers. `seamark.kafka.KafkaAdmin` is the real one."""

    def read_cluster(self) -> KafkaCluster:
        """The cluster, its brokers, and what we may do to it."""

    def read_topics(self, names: Sequence[str]) -> Reading[TopicStatus]:
        """Topics by name; failures by topic."""

    def read_groups(self, names: Sequence[str]) -> Reading[GroupStatus]:
        """Consumer groups by name; failures by group."""

    def read_end_offsets(self, partitions: Iterable[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        """The offset that the next record of each partition will get."""

    def close(self) -> None:
        """Let go of the connections."""


class BrokerPort(Protocol):
    """What steps need of the brokers. `seamark.kafka.Brokers` is one; the tests have another."""

    def read_topics(self, names: Sequence[str]) -> Reading[TopicStatus]: ...
    def read_all_topics(self) -> Reading[TopicStatus]: ...
    def read_bounds(self, spots: Iterable[TopicPartition]) -> PartitionReading[LogOffsets]: ...
    def read_groups(self, names: Sequence[str]) -> Reading[GroupStatus]: ...
    def read_consumer_groups(self) -> Reading[GroupListing]: ...
    def read_committed(
        self, groups: Mapping[str, Collection[TopicPartition] | None], *, only_stable: bool = False
    ) -> Reading[GroupOffsets]: ...
    def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None: ...
    def delete_topic(self, name: str) -> None: ...
    def grow_topic(self, name: str, *, partitions: int) -> None: ...
    def alter_topic_config(
        self, name: str, *, values: Mapping[str, str] | None = None, remove: Collection[str] = ()
    ) -> None: ...
    def alter_group_offsets(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> None: ...
    def delete_group_offsets(self, group: str, spots: Collection[TopicPartition]) -> None: ...
    def delete_group(self, group: str) -> None: ...


BROKERS: Port[Callable[[], BrokerPort]] = Port("kafka")
"""Opens the brokers of the context."""


class BrokersPort(BrokerPort, Protocol):
    """The brokers, to read and to change. `seamark.kafka.Brokers` is the real one."""

    def read_cluster(self) -> KafkaCluster:
        """The cluster, its brokers, and what we may do to it."""

    def read_all_groups(self) -> Reading[GroupListing]:
        """Every group, share groups too."""

    def read_committed(
        self,
        groups: Mapping[str, Collection[TopicPartition] | None],
        *,
        only_stable: bool = False,
        with_metadata: bool = True,
    ) -> Reading[GroupOffsets]:
        """What groups have committed; metadata costs a second call where there is some."""

    def read_members(self, groups: Sequence[str]) -> Reading[Group]:
        """Groups with their members."""

    def read_sizes(self, topics: Mapping[str, Sequence[int]]) -> Reading[TopicSize]:
        """The bytes of topics, given with the numbers of their partitions; failures by broker."""

    def read_log_offsets(
        self, spots: Iterable[TopicPartition], *, at: OffsetSpec | int
    ) -> PartitionReading[OffsetAndTimestamp | None]:
        """One offset of many partitions: at an edge, or the first record of a time or later."""

    def read_offsets_at(self, times: Mapping[TopicPartition, int]) -> PartitionReading[OffsetAndTimestamp | None]:
        """The first record of a time or later, each partition with a time of its own."""

    def read_moving(self) -> Mapping[TopicPartition, tuple[int, ...]]:
        """Partitions that are being reassigned, each with the brokers whose copies are on their way."""

    def read_open_transactions(self, spots: Sequence[TopicPartition]) -> tuple[OpenTransaction, ...]:
        """The transactions that are open on these partitions."""

    def read_broker_setting(self, key: str) -> str:
        """A config of the brokers; "" where none tells it."""

    def close(self) -> None:
        """Let go of the connections."""
