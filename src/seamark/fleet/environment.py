"""The running systems of a context, as the steps of the executor access them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from seamark.changes.action import LOCKS, LockNames
from seamark.changes.identity import IDENTITY, Identity
from seamark.changes.images import SECRET_KEYS
from seamark.changes.keys import Keys
from seamark.changes.timing import WORKER_GROUP, GroupReading, build_timing
from seamark.connect.api import CONNECT, STATUSES, WORKER_URLS, ConnectPort
from seamark.connect.clusters import Clusters, build_connect_client, has_trace
from seamark.connect.model import Connector, ConnectorStatus
from seamark.connect.plugins import find_type
from seamark.connect.shared_reads import SharedStatusReads
from seamark.connectors.consequences import CONNECTOR_SETTING, ConnectorSetting
from seamark.connectors.labels import LABELS, LabelReader
from seamark.connectors.steps import LEFTOVERS, PLUGIN_TYPES
from seamark.copies.cutover.checks import COPIES, COPY_PREVIEW
from seamark.core.refs import Port
from seamark.core.time import read_clock
from seamark.dead_letters.steps import RECORDS
from seamark.errors import RefusedError, SeamarkError
from seamark.kafka.api import BROKERS, BrokersPort
from seamark.kip199.steps import OFFSET_FILE
from seamark.offsets.port import LEFT_OFFSETS, OFFSETS, PLANNING, SNAPSHOTS, Planning
from seamark.offsets.service import find_config_reader
from seamark.offsets.stores.ledger import route_ledgers
from seamark.pipelines.actions import REGISTERED
from seamark.pipelines.rebuild import REBUILDABLE
from seamark.pipelines.source_columns import SOURCE_COLUMNS, SourceReader
from seamark.topics.actions import TOPIC_GUARD

if TYPE_CHECKING:
    from seamark.connectors.plans import ConnectorPlans
    from seamark.context import ConnectSettings, Context
    from seamark.copies.cutover.operations import CutoverOperations
    from seamark.copies.service import Copies
    from seamark.dead_letters.records import SinkRecords
    from seamark.kafka.worker_group import WorkerGroup
    from seamark.kip199.steps import StandaloneFile
    from seamark.offsets.port import OffsetPort
    from seamark.offsets.read.connector import OrphanedOffsets
    from seamark.offsets.stores.stores import OffsetStores, OpenScan
    from seamark.tables.registry import RebuildableTable

# The same timeout as for other requests to the brokers. A step may send two requests one after the other, and both must
# be answered within `ChangeTiming.send_seconds`.
_KAFKA_SECONDS = 10.0


P = TypeVar("P")

# What steps find under each key: names of methods.
_METHODS: Mapping[Port[Any], str] = {
    CONNECT: "connect",
    BROKERS: "kafka",
    STATUSES: "read_status",
    OFFSETS: "offsets",
    LEFT_OFFSETS: "left_offsets",
    SECRET_KEYS: "find_secret_keys",
    WORKER_URLS: "worker_urls",
    WORKER_GROUP: "read_worker_group",
    OFFSET_FILE: "offset_file",
    RECORDS: "records",
    COPIES: "copies",
    REBUILDABLE: "rebuildable",
    REGISTERED: "registered",
    LABELS: "labels",
    IDENTITY: "read_identity",
}


class SystemClock:
    """The clock of this machine: the wall clock at its start, then a monotonic clock.

    A wait for late requests must not be shortened by a time server that sets the wall clock forward.
    """

    def __init__(self) -> None:
        self._began_at = time.time() - read_clock()

    def now(self) -> float:
        """Return seconds since the epoch."""
        return self._began_at + read_clock()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class LiveEnvironment:
    """An `Environment` over the clients of one context."""

    def __init__(
        self,
        context: Context,
        *,
        clusters: Clusters,
        build_brokers: Callable[[Context], BrokersPort] | None = None,
        open_scan: OpenScan | None = None,
        open_copies: Callable[[], CutoverOperations] | None = None,
        read_registered: Callable[[], Mapping[str, Any]] | None = None,
        labels: LabelReader | None = None,
        read_identity: Callable[[Collection[str]], Identity] | None = None,
    ) -> None:
        self._read_identity = read_identity
        self._open_scan = open_scan
        self._open_copies = open_copies
        self._read_registered = read_registered
        self._labels = labels
        self._context = context
        self._clusters = clusters
        self._build_brokers = build_brokers or build_changing_brokers
        self._brokers: BrokersPort | None = None
        self._opening = threading.Lock()
        self._clock = SystemClock()
        self.keys = Keys(context.journal)
        self._boards: dict[str, SharedStatusReads] = {}

    @property
    def clock(self) -> SystemClock:
        """Return the clock of this machine."""
        return self._clock

    def connect(self, cluster: str) -> ConnectPort:
        """Return the client of the Connect cluster of that name."""
        client = self._clusters.client(cluster)
        # Read here, where a step only reads, and cached for a minute. While the step sends its request, the client uses
        # the cached value, so that the 20 s for sending are not spent on reading.
        client.read_capabilities()
        return client

    def find_secret_keys(self, cluster: str, config: Mapping[str, str]) -> frozenset[str]:
        """Return the keys of a config that are secret by their types."""
        return self._clusters.types.find_secret_keys(cluster, config)

    def kafka(self) -> BrokersPort:
        """Return the client of the context's brokers. It connects on the first request."""
        with self._opening:
            if self._brokers is None:
                self._brokers = route_ledgers(self._build_brokers(self._context), self._context)
            return self._brokers

    def close(self) -> None:
        """Close the connections to the brokers. The next request opens new ones."""
        with self._opening:
            brokers, self._brokers = self._brokers, None
        if brokers is not None:
            brokers.close()

    def read_status(self, cluster: str, name: str) -> ConnectorStatus:
        """Read a connector's status; concurrent callers share one request."""
        # `setdefault` is atomic, so two threads that are first at once use the same object.
        board = self._boards.get(cluster) or self._boards.setdefault(cluster, SharedStatusReads(self.connect(cluster)))
        status = board.read(name)
        if not has_trace(status):
            return status
        # A step may report or journal a trace, and a plugin's error may quote a value of the config.
        return self._clusters.types.clean_status(cluster, self.connect(cluster).read_config(name), status)

    def offsets(self, cluster: str, name: str, *, kept: Connector | None = None) -> OffsetPort:
        """Open the offsets of one connector: from the stores, or from the workers.

        `kept` is its last known state, if Connect does not have it.
        """
        if self._context.verify == "rest":
            from seamark.offsets.read.rest import RestOffsets  # noqa: PLC0415

            return RestOffsets(
                name,
                context=self._context,
                client=self.connect(cluster),
                settings=self._clusters.settings(cluster),
                clock=self._clock,
            )
        from seamark.offsets.read.connector import ConnectorOffsets  # noqa: PLC0415

        return ConnectorOffsets(
            name,
            context=self._context,
            client=self.connect(cluster),
            settings=self._clusters.settings(cluster),
            stores=self.stores,
            kept=kept,
        )

    def left_offsets(self, cluster: str) -> OrphanedOffsets:
        """Open the orphaned offsets in the workers' topic."""
        from seamark.offsets.read.connector import OrphanedOffsets  # noqa: PLC0415

        return OrphanedOffsets(cluster, context=self._context, stores=self.stores)

    def records(self, cluster: str, name: str) -> SinkRecords:
        """Open the records that one sink consumes."""
        from seamark.dead_letters.records import SinkRecords  # noqa: PLC0415

        return SinkRecords(
            name,
            context=self._context,
            client=self.connect(cluster),
            settings=self._clusters.settings(cluster),
            brokers=self.kafka,
        )

    def copies(self) -> CutoverOperations:
        """Open the topic copies."""
        if self._open_copies is None:
            raise RefusedError("topics can't be copied in this environment")
        return self._open_copies()

    def registered(self) -> Mapping[str, Any]:
        """Return the pipelines that are registered in the journal, by name."""
        return self._read_registered() if self._read_registered is not None else {}

    @property
    def labels(self) -> LabelReader:
        """Return the reader of the connectors' labels in the journal."""
        if self._labels is None:
            raise RefusedError("labels can't be read in this environment")
        return self._labels

    def rebuildable(self, name: str, place: str, store: str, table: str) -> RebuildableTable:
        """Open the table of a pipeline for its rebuild."""
        from seamark.pipelines.declared import open_rebuildable  # noqa: PLC0415

        return open_rebuildable(self._context, name, place=place, store=store, table=table)

    def read_identity(self, clusters: Collection[str]) -> Identity:
        """Return which Kafka cluster and which Connect clusters these are, as they report it now."""
        if self._read_identity is None:
            raise RefusedError("can't determine the identity of the clusters")
        return self._read_identity(clusters)

    def worker_urls(self, cluster: str) -> tuple[str, ...]:
        """Return the workers that are up, as the brokers report them; none if all are down."""
        from seamark.kafka.worker_group import read_worker_urls  # noqa: PLC0415

        group = self._clusters.settings(cluster).group_id
        if group is None:
            raise self._context.missing(f"connect.{cluster}.group_id")
        return read_worker_urls(self._context.kafka.client_config(), group, timeout_seconds=_KAFKA_SECONDS)

    def read_members(self, cluster: str) -> WorkerGroup | None:
        """Return the worker group of a Connect cluster; None if the context has no brokers or no `group_id` for it."""
        from seamark.kafka.worker_group import read_members  # noqa: PLC0415

        group = self._clusters.settings(cluster).group_id
        if group is None or not self._context.has_brokers:
            return None
        return read_members(self._context.kafka.client_config(), group, timeout_seconds=_KAFKA_SECONDS)

    def read_worker_group(self, cluster: str) -> GroupReading:
        """Read whether a Connect cluster moves connectors or tasks; its worker group only if the context has it."""
        from seamark.connectors.workers import build_group_reading  # noqa: PLC0415
        from seamark.kafka.worker_group import read_worker_loads  # noqa: PLC0415

        group = self._clusters.settings(cluster).group_id
        loads = None
        try:
            if group is not None and self._context.has_brokers:
                loads = read_worker_loads(self._context.kafka.client_config(), group, timeout_seconds=_KAFKA_SECONDS)
            return build_group_reading(self.connect(cluster).read_statuses(), loads)
        except SeamarkError as error:
            if not error.retryable:
                raise
            return GroupReading(error.message)

    def offset_file(self, cluster: str) -> StandaloneFile:
        """Open the file of a standalone worker."""
        from seamark.kip199.steps import StandaloneFile  # noqa: PLC0415

        return StandaloneFile(self._clusters.settings(cluster))

    @cached_property
    def stores(self) -> OffsetStores:
        """Return the stores that hold the offsets of connectors."""
        from seamark.offsets.stores.stores import OffsetStores  # noqa: PLC0415

        return OffsetStores(self._context, clusters=self._clusters, brokers=self.kafka, open_scan=self._open_scan)

    def use(self, port: Port[P]) -> P:
        """Return the capability that is registered under a key."""
        found: P = getattr(self, _METHODS[port])
        return found

    def reveal(self, reference: str) -> str:
        """Return the value of a `secret://` reference."""
        return self._context.reveal(reference)

    def seal(self, value: str) -> str:
        """Return a keyed hash of a secret."""
        return self.keys.read().current.seal(value)


class PlanEnvironment:
    """The running systems as one plan reads them: with read-only clients, and each offsets topic once.

    Steps never use it: what they read after a stop must be current.
    """

    def __init__(
        self, live: LiveEnvironment, clusters: Clusters, *, context: Context, open_scan: OpenScan | None
    ) -> None:
        from seamark.offsets.read.snapshot import PlanSnapshots  # noqa: PLC0415

        self._live = live
        self._clusters = clusters
        self._context = context
        self.snapshots = PlanSnapshots(
            context, clusters=clusters, brokers=live.kafka, clock=live.clock, open_scan=open_scan
        )
        self._own: Mapping[Port[Any], Any] = {
            CONNECT: clusters.client,
            STATUSES: self.read_status,
            SNAPSHOTS: self.snapshots,
            OFFSETS: self.offsets,
            LEFT_OFFSETS: self.left_offsets,
            SECRET_KEYS: clusters.types.find_secret_keys,
        }

    @property
    def clock(self) -> SystemClock:
        """Return the clock of this machine."""
        return self._live.clock

    @property
    def stores(self) -> OffsetStores:
        """Return the stores that hold the offsets of connectors."""
        return self.snapshots.stores

    def kafka(self) -> BrokersPort:
        """Return the client of the context's brokers."""
        return self._live.kafka()

    def read_status(self, cluster: str, name: str) -> ConnectorStatus:
        """Read a connector's status. It is not cached: a plan waits until a rebalance is over."""
        client = self._clusters.client(cluster)
        status = client.read_status(name)
        if not has_trace(status):
            return status
        return self._clusters.types.clean_status(cluster, client.read_config(name), status)

    def offsets(self, cluster: str, name: str, *, kept: Connector | None = None) -> OffsetPort:
        """Open the offsets of one connector, read once; `kept` is its last known state, if Connect does not have it."""
        return self.snapshots.open(cluster, name) if kept is None else self.snapshots.build(cluster, name, kept)

    def left_offsets(self, cluster: str) -> OrphanedOffsets:
        """Open the orphaned offsets in the workers' topic."""
        from seamark.offsets.read.connector import OrphanedOffsets  # noqa: PLC0415

        return OrphanedOffsets(cluster, context=self._context, stores=self.stores)

    def use(self, port: Port[P]) -> P:
        """Return the capability that is registered under a key: that of the plan, else the live one."""
        found: P = self._own[port] if port in self._own else self._live.use(port)
        return found

    def reveal(self, reference: str) -> str:
        """Return the value of a `secret://` reference."""
        return self._live.reveal(reference)

    def seal(self, value: str) -> str:
        """Return a keyed hash of a secret."""
        return self._live.seal(value)


def build_plan_ports(
    context: Context,
    clusters: Clusters,
    *,
    world: LiveEnvironment,
    locks: LockNames,
    open_plans: Callable[[], ConnectorPlans],
    open_copies: Callable[[], Copies],
) -> dict[Port[Any], Any]:
    """Return what actions find under the keys that only planning uses."""
    from seamark.lifecycle.plans import build_create_with_offsets  # noqa: PLC0415
    from seamark.topics.safety import FleetTopicGuard  # noqa: PLC0415

    return {
        LOCKS: locks,
        PLANNING: Planning(context, clusters),
        LEFTOVERS: lambda cluster, name: open_plans().read_leftovers(cluster, name),
        PLUGIN_TYPES: lambda cluster, plugin: find_type(clusters.client(cluster).read_plugins(), plugin),
        COPY_PREVIEW: lambda: open_copies().open_preview(),
        CONNECTOR_SETTING: lambda: ConnectorSetting(
            context,
            clusters,
            world,
            open_plans().leftovers,
            partial(build_create_with_offsets, world=world, clusters=clusters, context=context),
        ),
        SOURCE_COLUMNS: SourceReader(context, kafka=world.kafka).read,
        TOPIC_GUARD: FleetTopicGuard(context, clusters=clusters, kafka=world.kafka),
    }


def build_changing_brokers(context: Context) -> BrokersPort:
    """Build the broker client for writes: two of its requests end within the time that a step has for sending."""
    from seamark.kafka.brokers import Brokers  # noqa: PLC0415

    send_seconds = build_timing(context.journal.in_flight_seconds).send_seconds
    return Brokers(context.kafka.client_config(), timeout_seconds=min(_KAFKA_SECONDS, send_seconds / 2))


def build_changing_client(
    settings: ConnectSettings,
    *,
    in_flight_seconds: float,
    read_config_names: Callable[[], frozenset[str]] | None = None,
) -> ConnectPort:
    """Build the Connect client for writes: it begins no attempt after the time at which a step may send its request."""
    from seamark.connect.caller import Timing  # noqa: PLC0415

    timing = Timing(deadline_seconds=build_timing(in_flight_seconds).send_seconds)
    return build_connect_client(settings, timing=timing, read_config_names=read_config_names)


def build_client(
    context: Context, settings: ConnectSettings, *, open_scan: OpenScan | None, changes: bool
) -> ConnectPort:
    """Build the Connect client for reads, or for `changes`."""
    read_names = find_config_reader(context, settings, open_scan)
    if not changes:
        return build_connect_client(settings, read_config_names=read_names)
    seconds = context.journal.in_flight_seconds
    return build_changing_client(settings, in_flight_seconds=seconds, read_config_names=read_names)
