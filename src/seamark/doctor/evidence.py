"""Everything the checks look at, as one value. What could not be read is there too, as its error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from seamark.connect.connector import Connector
from seamark.connect.worker import Plugin, Worker
from seamark.core.refs import ConnectorType
from seamark.errors import SeamarkError
from seamark.kafka.broker import KafkaCluster
from seamark.kafka.groups import GroupStatus
from seamark.kafka.open_transaction import OpenTransaction
from seamark.kafka.topic import TopicStatus
from seamark.offsets.stored_offset import StoreReading

if TYPE_CHECKING:
    from seamark.context import ConnectSettings, Context


_OWN, _ELSEWHERE = "offsets.storage.topic", "producer.override.bootstrap.servers"


@dataclass(frozen=True, slots=True)
class ClusterEvidence:
    """What one Connect cluster told. `plugins` is by the url of each worker that answered."""

    settings: ConnectSettings
    workers: tuple[Worker, ...] | SeamarkError
    connectors: tuple[Connector, ...] | SeamarkError = ()
    plugins: Mapping[str, tuple[Plugin, ...] | SeamarkError] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The cluster's name in the context."""
        return self.settings.name

    @property
    def workers_up(self) -> tuple[Worker, ...]:
        """The workers that answered."""
        return () if isinstance(self.workers, SeamarkError) else tuple(found for found in self.workers if found.is_up)

    @property
    def sinks(self) -> tuple[Connector, ...]:
        """The sinks, as far as they are known."""
        if isinstance(self.connectors, SeamarkError):
            return ()
        return tuple(found for found in self.connectors if found.type is ConnectorType.SINK)

    @property
    def internal_topics(self) -> dict[str, str | None]:
        """The internal topics by what they hold; None where the context does not know."""
        return {
            "offsets": self.settings.offsets_topic,
            "config": self.settings.config_topic,
            "status": self.settings.status_topic,
        }

    @property
    def own_topics(self) -> tuple[str, ...]:
        """The offsets topics that sources have for themselves, on the workers' own Kafka cluster."""
        known = () if isinstance(self.connectors, SeamarkError) else self.connectors
        found = [one.config.get(_OWN, "") for one in known if not one.config.get(_ELSEWHERE)]
        return tuple(dict.fromkeys(topic for topic in found if topic))

    def find_group(self, sink: Connector) -> str:
        """The consumer group of a sink: its own override, else the workers', else connect-NAME."""
        override = sink.config.get("consumer.override.group.id")
        return override or self.settings.consumer_group_id or f"connect-{sink.name}"


@dataclass(frozen=True, slots=True)
class OffsetsEvidence:
    """What an offsets topic told: how many records it may hold, and how many were written in the last day.

    `reading` is None where there are too many to look at each of them.
    """

    most: int
    written_per_day: int
    reading: StoreReading | None = None


@dataclass(frozen=True, slots=True)
class TransactionsEvidence:
    """The transactions that are open on the internal topics at a moment, and how many partitions were looked at."""

    at_seconds: float
    partitions: int
    open: tuple[OpenTransaction, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the whole context told. `kafka` is None where the context names no brokers.

    `address` is the bootstrap address. `groups` holds a sample: see `gather.GROUP_SAMPLE`.
    """

    context: Context
    address: str = ""
    kafka: KafkaCluster | SeamarkError | None = None
    clusters: tuple[ClusterEvidence, ...] = ()
    topics: Mapping[str, TopicStatus | SeamarkError] = field(default_factory=dict)
    groups: Mapping[str, GroupStatus | SeamarkError] = field(default_factory=dict)
    offsets: Mapping[str, OffsetsEvidence | SeamarkError] = field(default_factory=dict)
    transactions: TransactionsEvidence | SeamarkError | None = None
