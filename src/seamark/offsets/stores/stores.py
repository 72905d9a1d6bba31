"""Which stores hold the offsets of a connector, as Connect itself chooses them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from seamark.connect.clusters import Clusters
from seamark.connect.config import OWN_OFFSETS_TOPIC, find_group
from seamark.connect.connector import Connector
from seamark.core.refs import ConnectorType, build_group_owner
from seamark.errors import NotFoundError
from seamark.kafka.key_hash import choose_partition
from seamark.kafka.records_held import HeldRecord
from seamark.offsets.codec.codec import decode_key
from seamark.offsets.held_offset import TopicHolding
from seamark.offsets.stored_offset import StoreReading
from seamark.offsets.stores.file_store import FileStore
from seamark.offsets.stores.group_store import GroupStore
from seamark.offsets.stores.key_filter import build_key_filter
from seamark.offsets.stores.override_config import build_override_config
from seamark.offsets.stores.store import Store
from seamark.offsets.stores.topic_store import Scan, TopicStore

if TYPE_CHECKING:
    from seamark.context import ConnectSettings, Context
    from seamark.kafka.api import BrokersPort

OpenScan = Callable[[Mapping[str, str], str, bool], Scan]
"""Opens the scan of a topic: the client's settings, the topic, and whether only committed records count."""

_PRODUCER, _CONSUMER = "producer.override.", "consumer.override."
_ISOLATION = "consumer.override.isolation.level"
_PARTITIONER = "partitioner.class"


@dataclass(frozen=True, slots=True)
class OwnerStores:
    """Where the offsets of one connector are.

    Its tasks read `first` alone. `second` is the workers' topic where the connector has one of its own: it gets a copy
    of every write, and Connect says that it falls back to it, which it does not.
    """

    first: Store
    second: Store | None = None

    def read_first(self, *names: str) -> tuple[StoreReading, tuple[str, ...]]:
        """What the tasks of these connectors read, and a note where its store is not there yet.

        A connector's own topic and a standalone worker's file are made by the worker, when it first needs them. The
        workers' topic is always there: where it is not, the context is wrong.
        """
        try:
            return self.first.read(names), ()
        except NotFoundError as missing:
            if self.second is None and not isinstance(self.first, FileStore):
                raise
            return StoreReading(self.first.name), (f"{self.first.name} is not there yet: {missing.message}",)


class OffsetStores:
    """Builds the stores of a context. Nothing is asked of a server before a store is read."""

    def __init__(
        self,
        context: Context,
        *,
        clusters: Clusters,
        brokers: Callable[[], BrokersPort],
        open_scan: OpenScan | None = None,
        open_brokers: Callable[[Mapping[str, str]], BrokersPort] | None = None,
    ) -> None:
        self._context = context
        self._clusters = clusters
        self._brokers = brokers
        self._open_scan = open_scan or open_topic_scan
        self._open_brokers = open_brokers or open_other_brokers
        self._others: dict[frozenset[tuple[str, str]], BrokersPort] = {}

    @property
    def has_brokers(self) -> bool:
        """Whether the context tells where the brokers are."""
        return self._context.has_brokers

    @property
    def believes_rest(self) -> bool:
        """Whether the word of the workers counts, and no store is looked into."""
        return self._context.verify == "rest"

    def find(self, connector: Connector) -> OwnerStores:
        """The stores of one connector."""
        settings = self._clusters.settings(connector.cluster)
        if connector.type is ConnectorType.SINK:
            return OwnerStores(self.find_sink(connector, settings))
        workers = self.find_workers(connector.cluster)
        own = find_own_topic(connector, settings)
        if not own or settings.offsets_file is not None:
            return OwnerStores(workers)
        elsewhere = build_override_config(connector.config, self._context, prefix=_PRODUCER, name=connector.owner)
        if own == settings.offsets_topic and elsewhere is None:
            return OwnerStores(workers)
        is_committed = connector.config.get(_ISOLATION, "read_committed") != "read_uncommitted"
        scan = self._open_scan(elsewhere or self._kafka_config(), own, is_committed or bool(settings.exactly_once))
        return OwnerStores(TopicStore(scan, knows_partitioner=not self.has_own_partitioner(connector)), second=workers)

    def find_workers(self, cluster: str) -> Store:
        """The store that the workers of a cluster share: their topic, or the file of a standalone one."""
        settings = self._clusters.settings(cluster)
        if settings.offsets_file is not None:
            return FileStore(settings.offsets_file)
        return self.find_topic(cluster)

    def find_topic(self, cluster: str) -> TopicStore:
        """The offsets topic of the workers of a cluster."""
        settings = self._clusters.settings(cluster)
        if settings.offsets_topic is None:
            raise self._context.missing(f"connect.{cluster}.offsets_topic")
        # A worker without exactly-once reads everything, also what a transaction took back.
        scan = self._open_scan(self._kafka_config(), settings.offsets_topic, bool(settings.exactly_once))
        return TopicStore(scan, knows_partitioner=not self._names_partitioner(settings, ""))

    def read_holding(self, connector: Connector, topic: str) -> TopicHolding:
        """What one topic of the context's Kafka cluster holds of a connector, to the byte."""
        settings = self._clusters.settings(connector.cluster)
        is_committed = topic != settings.offsets_topic or bool(settings.exactly_once)
        result = self._open_scan(self._kafka_config(), topic, is_committed).read_newest(
            build_key_filter([connector.name])
        )
        records = tuple(
            HeldRecord(topic, found.partition, found.key, found.value)
            for found in result.records
            if found.key is not None and decode_key(found.key).connector == connector.name
        )
        return TopicHolding(topic, records, partial(choose_partition, partitions=result.partitions))

    def has_own_partitioner(self, connector: Connector) -> bool:
        """Whether the tasks of a connector may put keys on other partitions than a Java producer does."""
        settings = self._clusters.settings(connector.cluster)
        return f"{_PRODUCER}{_PARTITIONER}" in connector.config or self._names_partitioner(settings, "producer.")

    def knows_home(self, connector: Connector) -> bool:
        """Whether it is known on which partition of an offsets topic workers and tasks put a key."""
        settings = self._clusters.settings(connector.cluster)
        return not (self.has_own_partitioner(connector) or self._names_partitioner(settings, ""))

    def find_sink(self, connector: Connector, settings: ConnectSettings) -> GroupStore:
        """The consumer group of a sink, in the Kafka cluster that it reads from."""
        return GroupStore(
            self.find_brokers(connector), find_group(connector.name, connector.config, settings), owner=connector.name
        )

    def find_brokers(self, connector: Connector) -> BrokersPort:
        """The brokers that a sink reads from."""
        elsewhere = build_override_config(connector.config, self._context, prefix=_CONSUMER, name=connector.owner)
        if elsewhere is None:
            return self._brokers()
        # Whoever waits for a group to be empty asks every half second.
        name = frozenset(elsewhere.items())
        if name not in self._others:
            self._others[name] = self._open_brokers(elsewhere)
        return self._others[name]

    def read_topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        """The ids of topics of the context's Kafka cluster; those that are not there are left out."""
        return {found.name: found.topic_id for found in self._brokers().read_topics(topics).items}

    def find_group(self, name: str) -> GroupStore:
        """A consumer group of the context's Kafka cluster."""
        return GroupStore(self._brokers(), name, owner=build_group_owner(name))

    def describe(self) -> dict[str, str]:
        """Where offsets are read from, for an export's envelope."""
        from seamark import __version__  # noqa: PLC0415

        bootstrap = self._context.kafka.bootstrap_servers or ""
        return {"context": self._context.name, "bootstrap.servers": bootstrap, "seamark": __version__}

    def _kafka_config(self) -> dict[str, str]:
        return self._context.kafka.client_config()

    def _names_partitioner(self, settings: ConnectSettings, prefix: str) -> bool:
        """Whether the workers' file gives producers a partitioner of their own: then nobody knows a key's home."""
        if settings.worker_config is None or not settings.worker_config.is_file():
            return False
        from seamark.context.origin import Origin, OriginKind  # noqa: PLC0415
        from seamark.context.properties import read_properties  # noqa: PLC0415

        place = Origin(OriginKind.WORKER, str(settings.worker_config), path=settings.worker_config)
        return f"{prefix}{_PARTITIONER}" in read_properties(settings.worker_config, origin=place)


def find_own_topic(connector: Connector, settings: ConnectSettings) -> str | None:
    """The topic that a source's tasks use beside, or instead of, that of the workers; None where they use theirs.

    With exactly-once a task writes its offsets in the transaction of its records: to the cluster that these go to,
    under the name of the workers' topic where its config names none.
    """
    return connector.config.get(OWN_OFFSETS_TOPIC) or (settings.offsets_topic if settings.exactly_once else None)


def open_topic_scan(config: Mapping[str, str], topic: str, committed: bool) -> Scan:
    """The real scan of a topic."""
    from seamark.kafka.topic_scan import TopicScan  # noqa: PLC0415

    return TopicScan(config, topic, committed=committed)


def open_other_brokers(config: Mapping[str, str]) -> BrokersPort:
    """The brokers of a cluster that a connector's config names."""
    from seamark.kafka import Brokers  # noqa: PLC0415

    return Brokers(config)
