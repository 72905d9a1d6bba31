"""Select the stores that hold the offsets of a connector, as Connect itself does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from seamark.connect.clusters import Clusters
from seamark.connect.config import OWN_OFFSETS_TOPIC, find_group
from seamark.connect.model import Connector
from seamark.core.offsets import OffsetKey
from seamark.core.refs import ConnectorType, build_group_owner, is_pipeline
from seamark.errors import NotFoundError, UnsupportedError
from seamark.kafka.model import HeldRecord, RawRecord, ScanResult
from seamark.kafka.partitioner import choose_partition
from seamark.kafka.topic_scan import Accept
from seamark.offsets.codec.codec import decode_key
from seamark.offsets.model import StoredOffset, StoredRecord, StoreReading, TopicHolding
from seamark.offsets.stores.file import FileStore
from seamark.offsets.stores.topic import KeyFilter, Scan, TopicStore

if TYPE_CHECKING:
    from seamark.context import ConnectSettings, Context
    from seamark.kafka.api import BrokerPort, BrokersPort


TOPIC, PARTITION, OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"


class GroupStore:
    """The committed offsets of one group, in the format of Connect's sinks. `owner` is the owner of the offsets."""

    def __init__(self, brokers: BrokerPort, group: str, *, owner: str) -> None:
        self._brokers = brokers
        self._group = group
        self._owner = owner

    @property
    def name(self) -> str:
        """Return `group NAME`, or `ledger pipeline/NAME`."""
        return f"ledger {self._group}" if is_pipeline(self._group) else f"group {self._group}"

    def read(self, owners: Collection[str] | None = None) -> StoreReading:
        """Read its commits; a group that never committed has none."""
        if owners is not None and self._owner not in owners:
            return StoreReading(self.name)
        # Commits of an open transaction are not visible to a sink either.
        reading = self._brokers.read_committed({self._group: None}, only_stable=True)
        for error in reading.failures.values():
            if isinstance(error, NotFoundError):
                return StoreReading(self.name)
            raise error
        committed = reading.items[0].offsets if reading.items else {}
        stored = []
        for (topic, number), found in sorted(committed.items()):
            offset = {OFFSET: found.offset}
            key = OffsetKey(self._owner, {TOPIC: topic, PARTITION: number})
            stored.append(StoredOffset(key, offset, StoredRecord(self.name, offset=offset)))
        return StoreReading(self.name, tuple(stored), scanned=len(stored))


CONSUMER = "consumer.override."
_BOOTSTRAP = "bootstrap.servers"
_CONNECTION = (_BOOTSTRAP, "security.protocol", "sasl.", "ssl.")


def build_override_config(
    config: Mapping[str, str], context: Context, *, prefix: str, name: str
) -> dict[str, str] | None:
    """Build the client config for the brokers in a connector's overrides; None if it names none.

    The credentials of the context are never used for it: a user with write access to a connector's config could have
    them sent to another server. Settings that the overrides do not contain are not added.

    Raises:
        UnsupportedError: A value is a reference that only the workers can resolve, or the connector's clients use
            credentials from the workers' file.
    """
    overrides = {
        key.removeprefix(prefix): value
        for key, value in config.items()
        if key.startswith(prefix) and key.removeprefix(prefix).startswith(_CONNECTION)
    }
    if not overrides.get(_BOOTSTRAP):
        return None
    for key, value in overrides.items():
        if "${" in value:
            raise UnsupportedError(
                f"the offsets of {name} are in another Kafka cluster, which seamark can't reach",
                cause=f"{prefix}{key} is a reference that only the workers can resolve",
                hint="create a context for that Kafka cluster, with this topic as offsets_topic",
            )
    ours = context.kafka.client_config()
    protocol = overrides.get("security.protocol", ours.get("security.protocol", "PLAINTEXT")).upper()
    if protocol.startswith("SASL_") and not any(key.startswith("sasl.") for key in overrides):
        raise UnsupportedError(
            f"the offsets of {name} are in another Kafka cluster, which seamark can't reach",
            cause=f"its config has {overrides[_BOOTSTRAP]} and no credentials; those of the context are not sent to "
            "servers "
            "from a connector's config",
            hint="create a context for that Kafka cluster, with this topic as offsets_topic",
        )
    from seamark.context.java_client import build_client_config, check_kafka_transport  # noqa: PLC0415

    origins = {key: f"{prefix}{key} of {name}" for key in overrides}
    wanted = {"security.protocol": protocol, **overrides}
    check_kafka_transport(wanted, origins=origins, is_allowed=context.insecure)
    return build_client_config(wanted, origins=origins)


def reads_elsewhere(connector: Connector) -> bool:
    """Return whether a sink consumes from brokers in its own config, whose topics are not those of the context."""
    return bool(connector.config.get(f"{CONSUMER}{_BOOTSTRAP}"))


# Planning reads the same offsets several times: to find the new ones, to count the records in between, to predict what
# a step will find. Steps never read through this cache: what they read after a stop must be current.

OpenScan = Callable[[Mapping[str, str], str, bool], Scan]
"""Opens the scan of a topic: the client's settings, the topic, and whether only committed records count."""


class ScanCache:
    """Opens scans that read each topic once for all announced connectors."""

    def __init__(self, open_scan: OpenScan) -> None:
        self._open_scan = open_scan
        self._lock = threading.Lock()
        self._scans: dict[tuple[frozenset[tuple[str, str]], str, bool], _CachedScan] = {}
        self._owners: set[str] = set()

    def expect(self, owners: Collection[str]) -> None:
        """Announce the connectors of the plan: the first scan reads the records of all of them."""
        with self._lock:
            self._owners |= set(owners)

    def open(self, config: Mapping[str, str], topic: str, committed: bool) -> Scan:
        """Return the scan of a topic; equal arguments return the same one."""
        key = frozenset(config.items()), topic, committed
        with self._lock:
            if key not in self._scans:
                self._scans[key] = _CachedScan(self._open_scan(config, topic, committed), self._owners)
            return self._scans[key]


class _CachedScan:
    """One topic. It caches the newest records of the connectors requested so far, and no others."""

    def __init__(self, scan: Scan, expected: set[str]) -> None:
        self._scan = scan
        self._expected = expected
        self._lock = threading.Lock()
        self._result: ScanResult | None = None
        self._owners: frozenset[str] | None = frozenset()

    @property
    def topic(self) -> str:
        """Return the topic's name."""
        return self._scan.topic

    def read_newest(self, accept: Accept | None = None) -> ScanResult:
        """Return the newest record of every accepted key."""
        if accept is not None and not isinstance(accept, KeyFilter):
            return self._scan.read_newest(accept)
        with self._lock:
            result = self._read(accept)
        if accept is None:
            return result
        return replace(result, records=tuple(one for one in result.records if one.key is None or accept(one.key)))

    def read_all(self, accept: Accept | None = None) -> Iterator[RawRecord]:
        """Return every record; a history is read only once per plan."""
        return self._scan.read_all(accept)

    def _read(self, accept: KeyFilter | None) -> ScanResult:
        if self._result is not None and (
            self._owners is None or (accept is not None and accept.owners <= self._owners)
        ):
            return self._result
        if accept is None:
            self._owners = None
            self._result = self._scan.read_newest(None)
        else:
            self._owners = accept.owners | frozenset(self._expected) | (self._owners or frozenset())
            self._result = self._scan.read_newest(KeyFilter(self._owners))
        return self._result


class Store(Protocol):
    """One store: an offsets topic, a standalone worker's file, a consumer group."""

    @property
    def name(self) -> str:
        """Return its name: `topic connect-offsets`, `file /var/lib/connect.offsets`, `group connect-lake`."""
        ...

    def read(self, owners: Collection[str] | None = None) -> StoreReading:
        """Read the offsets of these connectors, or of all."""
        ...


_PRODUCER, _CONSUMER = "producer.override.", "consumer.override."
_ISOLATION = "consumer.override.isolation.level"
_PARTITIONER = "partitioner.class"


@dataclass(frozen=True, slots=True)
class OwnerStores:
    """The stores of one connector.

    Its tasks read only `first`. `second` is the workers' topic if the connector has its own topic: it gets a copy of
    every write. Connect documents a fallback to it, but does not do it.
    """

    first: Store
    second: Store | None = None

    def read_first(self, *names: str) -> tuple[StoreReading, tuple[str, ...]]:
        """Read what the tasks of these connectors read, and return a note if the store does not exist yet.

        The worker creates a connector's own topic and a standalone worker's file when it first needs them. The workers'
        topic always exists: if it does not, the context is wrong.
        """
        try:
            return self.first.read(names), ()
        except NotFoundError as missing:
            if self.second is None and not isinstance(self.first, FileStore):
                raise
            return StoreReading(self.first.name), (f"{self.first.name} does not exist yet: {missing.message}",)


class OffsetStores:
    """Builds the stores of a context. No server is contacted before a store is read."""

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
        """Return whether the context has the addresses of the brokers."""
        return self._context.has_brokers

    @property
    def brokers(self) -> BrokersPort:
        """Return the brokers of the context, with the ledgers of pipelines."""
        return self._brokers()

    @property
    def believes_rest(self) -> bool:
        """Return whether the workers' answers are used, without reading a store."""
        return self._context.verify == "rest"

    def find(self, connector: Connector) -> OwnerStores:
        """Return the stores of one connector."""
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
        scan = self._open_scan(
            elsewhere or self._context.kafka.client_config(), own, is_committed or bool(settings.exactly_once)
        )
        return OwnerStores(TopicStore(scan, knows_partitioner=not self.has_own_partitioner(connector)), second=workers)

    def find_workers(self, cluster: str) -> Store:
        """Return the store that the workers of a Connect cluster share: their topic, or a standalone worker's file."""
        settings = self._clusters.settings(cluster)
        if settings.offsets_file is not None:
            return FileStore(settings.offsets_file)
        return self.find_topic(cluster)

    def find_topic(self, cluster: str) -> TopicStore:
        """Return the offsets topic of the workers of a Connect cluster."""
        settings = self._clusters.settings(cluster)
        if settings.offsets_topic is None:
            raise self._context.missing(f"connect.{cluster}.offsets_topic")
        # A worker without exactly-once reads all records, including those of aborted transactions.
        scan = self._open_scan(self._context.kafka.client_config(), settings.offsets_topic, bool(settings.exactly_once))
        return TopicStore(scan, knows_partitioner=not self._names_partitioner(settings, ""))

    def read_holding(self, connector: Connector, topic: str) -> TopicHolding:
        """Read a connector's raw records in one topic of the context's Kafka cluster."""
        settings = self._clusters.settings(connector.cluster)
        is_committed = topic != settings.offsets_topic or bool(settings.exactly_once)
        result = self._open_scan(self._context.kafka.client_config(), topic, is_committed).read_newest(
            KeyFilter([connector.name])
        )
        records = tuple(
            HeldRecord(topic, found.partition, found.key, found.value)
            for found in result.records
            if found.key is not None and decode_key(found.key).connector == connector.name
        )
        return TopicHolding(topic, records, partial(choose_partition, partitions=result.partitions))

    def has_own_partitioner(self, connector: Connector) -> bool:
        """Return whether a connector's tasks may put keys on other partitions than a Java producer's default."""
        settings = self._clusters.settings(connector.cluster)
        return f"{_PRODUCER}{_PARTITIONER}" in connector.config or self._names_partitioner(settings, "producer.")

    def knows_home(self, connector: Connector) -> bool:
        """Return whether the partition of an offsets topic to which workers and tasks write a key is known."""
        settings = self._clusters.settings(connector.cluster)
        return not (self.has_own_partitioner(connector) or self._names_partitioner(settings, ""))

    def find_sink(self, connector: Connector, settings: ConnectSettings) -> GroupStore:
        """Return the consumer group of a sink, in the Kafka cluster from which it consumes."""
        return GroupStore(
            self.find_brokers(connector), find_group(connector.name, connector.config, settings), owner=connector.name
        )

    def find_brokers(self, connector: Connector) -> BrokersPort:
        """Return the brokers from which a sink consumes."""
        elsewhere = build_override_config(connector.config, self._context, prefix=_CONSUMER, name=connector.owner)
        if elsewhere is None:
            return self._brokers()
        # A caller that waits for a group to be empty asks every half second.
        name = frozenset(elsewhere.items())
        if name not in self._others:
            self._others[name] = self._open_brokers(elsewhere)
        return self._others[name]

    def read_topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        """Return the IDs of topics of the context's Kafka cluster; topics that do not exist are omitted."""
        return {found.name: found.topic_id for found in self._brokers().read_topics(topics).items}

    def find_group(self, name: str) -> GroupStore:
        """Return a consumer group of the context's Kafka cluster."""
        return GroupStore(self._brokers(), name, owner=build_group_owner(name))

    def describe(self) -> dict[str, str]:
        """Return where offsets are read from, for an export's envelope."""
        from seamark import __version__  # noqa: PLC0415

        bootstrap = self._context.kafka.bootstrap_servers or ""
        return {"context": self._context.name, "bootstrap.servers": bootstrap, "seamark": __version__}

    def _names_partitioner(self, settings: ConnectSettings, prefix: str) -> bool:
        """Return whether the workers' file sets a custom partitioner, so that a key's partition is unknown."""
        if settings.worker_config is None or not settings.worker_config.is_file():
            return False
        from seamark.context.layer import Origin, OriginKind  # noqa: PLC0415
        from seamark.context.properties import read_properties  # noqa: PLC0415

        place = Origin(OriginKind.WORKER, str(settings.worker_config), path=settings.worker_config)
        return f"{prefix}{_PARTITIONER}" in read_properties(settings.worker_config, origin=place)


def find_own_topic(connector: Connector, settings: ConnectSettings) -> str | None:
    """Return a source's own offsets topic, used beside or instead of the workers' topic; None if it has none.

    With exactly-once a task writes its offsets in the transaction of its records: to the Kafka cluster of the records,
    under the name of the workers' topic if its config names none.
    """
    return connector.config.get(OWN_OFFSETS_TOPIC) or (settings.offsets_topic if settings.exactly_once else None)


def open_topic_scan(config: Mapping[str, str], topic: str, committed: bool) -> Scan:
    """Open the real scan of a topic."""
    from seamark.kafka.topic_scan import TopicScan  # noqa: PLC0415

    return TopicScan(config, topic, committed=committed)


def open_other_brokers(config: Mapping[str, str]) -> BrokersPort:
    """Open the brokers of a Kafka cluster that a connector's config names."""
    from seamark.kafka.brokers import Brokers  # noqa: PLC0415

    return Brokers(config)
