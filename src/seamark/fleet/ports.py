"""What the services need of the clients: enough for what they do, and no more."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from seamark.change.world import BrokerPort
from seamark.change.world import ConnectPort as ChangingPort
from seamark.model.broker import KafkaCluster
from seamark.model.connector import ConnectorStatus
from seamark.model.group import Group, GroupListing, GroupOffsets, GroupStatus
from seamark.model.offset import Offset
from seamark.model.open_transaction import OpenTransaction
from seamark.model.reading import Reading
from seamark.model.spot import Edge, Spot, SpotReading, Stamp
from seamark.model.topic import TopicSize, TopicStatus
from seamark.model.wait import Wait
from seamark.model.worker import Plugin, Worker

if TYPE_CHECKING:
    from seamark.connect import Capabilities, Validation


class ConnectPort(ChangingPort, Protocol):
    """One Connect cluster, to read and to change. `seamark.connect.ConnectClient` is the real one."""

    def read_statuses(self) -> dict[str, ConnectorStatus]:
        """The status of every connector that has one, in one call."""

    def read_workers(self) -> tuple[Worker, ...]:
        """Every worker by its url; one that did not answer says so in `error`."""

    def validate_config(self, plugin: str, config: Mapping[str, str]) -> Validation:
        """What the plugin says of a config. Changes nothing."""

    def read_plugins(self, url: str | None = None) -> tuple[Plugin, ...]:
        """The plugins of the worker at that url, or of any."""

    def read_password_keys(self, plugin: str) -> frozenset[str]:
        """Return the keys that a plugin types as PASSWORD, from 3.2 on."""

    def read_offsets(self, name: str, url: str | None = None) -> tuple[Offset, ...]:
        """The offsets of one connector, as any worker tells them, or the one at that url."""

    def patch_offsets(self, name: str, offsets: Sequence[Offset]) -> object:
        """Change the offsets of a stopped connector."""

    def find_silent(self, workers: Sequence[str], *, members: Collection[str] | None = None) -> tuple[str, ...]:
        """Return those of these workers, by worker_id, that are not known to be alive."""

    def read_topics(self, name: str) -> tuple[str, ...]:
        """The topics that one connector has used since the list was last reset."""

    def read_capabilities(self) -> Capabilities:
        """What every worker that answers can do."""

    def waits(self) -> tuple[Wait, ...]:
        """The calls that have not ended yet."""

    def close(self) -> None:
        """Let go of the connections."""


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


class BrokersPort(BrokerPort, Protocol):
    """The brokers, to read and to change. `seamark.kafka.Brokers` is the real one."""

    def read_cluster(self) -> KafkaCluster:
        """The cluster, its brokers, and what we may do to it."""

    def read_all_groups(self) -> Reading[GroupListing]:
        """Every group, share groups too."""

    def read_committed(
        self,
        groups: Mapping[str, Collection[Spot] | None],
        *,
        only_stable: bool = False,
        with_metadata: bool = True,
    ) -> Reading[GroupOffsets]:
        """What groups have committed; metadata costs a second call where there is some."""

    def read_members(self, groups: Sequence[str]) -> Reading[Group]:
        """Groups with their members."""

    def read_sizes(self, topics: Mapping[str, Sequence[int]]) -> Reading[TopicSize]:
        """The bytes of topics, given with the numbers of their partitions; failures by broker."""

    def read_log_offsets(self, spots: Iterable[Spot], *, at: Edge | int) -> SpotReading[Stamp | None]:
        """One offset of many partitions: at an edge, or the first record of a time or later."""

    def read_offsets_at(self, times: Mapping[Spot, int]) -> SpotReading[Stamp | None]:
        """The first record of a time or later, each partition with a time of its own."""

    def read_moving(self) -> Mapping[Spot, tuple[int, ...]]:
        """Partitions that are being reassigned, each with the brokers whose copies are on their way."""

    def read_open_transactions(self, spots: Sequence[Spot]) -> tuple[OpenTransaction, ...]:
        """The transactions that are open on these partitions."""

    def read_broker_setting(self, key: str) -> str:
        """A config of the brokers; "" where none tells it."""

    def close(self) -> None:
        """Let go of the connections."""
