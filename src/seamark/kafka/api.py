"""What the services need of the clients: enough for what they do, and no more. And the snapshot that plans read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from seamark.core.readings import Reading
from seamark.core.refs import Port, Ports
from seamark.errors import NotFoundError, SeamarkError
from seamark.kafka.groups import Committed, Group, GroupListing, GroupOffsets, GroupStatus
from seamark.kafka.model import (
    KafkaCluster,
    LogOffsets,
    OffsetAndTimestamp,
    OffsetSpec,
    OpenTransaction,
    PartitionReading,
    TopicPartition,
    TopicSize,
    TopicStatus,
)


class KafkaPort(Protocol):
    """The brokers. `seamark.kafka.admin.KafkaAdmin` is the real one."""

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
    """What steps need of the brokers. `seamark.kafka.brokers.Brokers` is one; the tests have another."""

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


class SnapshotBrokers:
    """A `BrokerPort` whose topics are read once, at the first question. It is for looking only."""

    def __init__(self, port: BrokerPort) -> None:
        self._port = port
        self._lock = threading.Lock()
        self._topics: dict[str, TopicStatus] | None = None
        self._failures: Mapping[str, SeamarkError] = {}

    def read_all_topics(self) -> Reading[TopicStatus]:
        """Every topic as it was."""
        return Reading(tuple(self._find_topics().values()), failures=self._failures)

    def read_topics(self, names: Sequence[str]) -> Reading[TopicStatus]:
        """Topics by name, as they were."""
        topics = self._find_topics()
        failures = {
            name: self._failures.get(name) or _build_missing_topic(name) for name in names if name not in topics
        }
        return Reading(tuple(topics[name] for name in names if name in topics), failures=failures)

    def read_bounds(self, spots: Iterable[TopicPartition]) -> PartitionReading[LogOffsets]:
        """The bounds as they are."""
        return self._port.read_bounds(spots)

    def read_groups(self, names: Sequence[str]) -> Reading[GroupStatus]:
        """The states of groups as they are."""
        return self._port.read_groups(names)

    def read_consumer_groups(self) -> Reading[GroupListing]:
        """The list of groups as it is."""
        return self._port.read_consumer_groups()

    def read_committed(
        self, groups: Mapping[str, Collection[TopicPartition] | None], *, only_stable: bool = False
    ) -> Reading[GroupOffsets]:
        """Commits as they are."""
        return self._port.read_committed(groups, only_stable=only_stable)

    def _find_topics(self) -> dict[str, TopicStatus]:
        with self._lock:
            if self._topics is None:
                reading = self._port.read_all_topics()
                self._topics = {topic.name: topic for topic in reading}
                self._failures = reading.failures
            return self._topics

    def __getattr__(self, name: str) -> Any:
        # A snapshot that is acted on would be a fault of ours, not of the operator's.
        raise AttributeError(f"a snapshot is read-only and has no {name}")


def _build_missing_topic(name: str) -> SeamarkError:
    return NotFoundError(f"there is no topic {name}", hint="list the topics: seamark topics list")


def _open_brokers(live: Ports, _snapshots: Ports) -> Callable[[], BrokerPort]:
    opened = SnapshotBrokers(live.use(BROKERS)())
    return lambda: opened


BROKERS: Port[Callable[[], BrokerPort]] = Port("kafka", open_snapshot=_open_brokers)
"""Opens the brokers of the context."""


class BrokersPort(BrokerPort, Protocol):
    """The brokers, to read and to change. `seamark.kafka.brokers.Brokers` is the real one."""

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
