"""Cache what one plan reads about connectors and their offsets: each connector and each offsets topic is read once.

Steps never use it: what they read after a stop must be current. The environment of steps has no `SNAPSHOTS`, and a
snapshot refuses to write.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from seamark.connect.model import Connector
from seamark.offsets.read.connector import ConnectorAccess, ConnectorOffsets, Content
from seamark.offsets.read.rest import RestOffsets
from seamark.offsets.stores.stores import OffsetStores, OpenScan, ScanCache, open_topic_scan

if TYPE_CHECKING:
    from seamark.changes.environment import Clock
    from seamark.connect.clusters import Clusters
    from seamark.context import Context
    from seamark.core.offsets import Offset
    from seamark.kafka.api import BrokersPort
    from seamark.kafka.model import HeldRecord
    from seamark.offsets.port import OffsetSnapshot
    from seamark.offsets.semantics import OffsetSemantics


class _Snapshot(ConnectorAccess):
    """Reads once and refuses to write: a write to a snapshot is a bug in seamark, not an operator error."""

    @cached_property
    def connector(self) -> Connector:
        """Return the connector with its config and status."""
        return super()._read_connector()

    @cached_property
    def meaning(self) -> OffsetSemantics:
        """Return the semantics of its offsets."""
        return super()._find_meaning(self.connector)

    def _read_connector(self) -> Connector:
        return self.connector

    def _find_meaning(self, connector: Connector) -> OffsetSemantics:
        del connector
        return self.meaning

    def alter(self, offsets: Sequence[Offset]) -> object:
        raise NotImplementedError("a snapshot of offsets writes nothing")

    def write(self, records: Sequence[HeldRecord], *, into: str = "") -> None:
        raise NotImplementedError("a snapshot of offsets writes nothing")

    def commit(self, offsets: Sequence[Offset]) -> None:
        raise NotImplementedError("a snapshot of offsets writes nothing")


class StoreSnapshot(_Snapshot, ConnectorOffsets):
    """A connector whose offsets are read from their stores."""

    @cached_property
    def _contents(self) -> tuple[Content, Content]:
        return super()._read_stores(self.connector)

    def _read_stores(self, connector: Connector) -> tuple[Content, Content]:
        del connector
        return self._contents


class RestSnapshot(_Snapshot, RestOffsets):
    """A connector whose offsets are read from the workers through REST."""

    @cached_property
    def _agreed(self) -> tuple[Offset, ...]:
        return super()._read_agreed()

    def _read_agreed(self) -> tuple[Offset, ...]:
        return self._agreed


class PlanSnapshots:
    """The connectors of one plan, an `OffsetSnapshots`."""

    def __init__(
        self,
        context: Context,
        *,
        clusters: Clusters,
        brokers: Callable[[], BrokersPort],
        clock: Clock,
        open_scan: OpenScan | None = None,
    ) -> None:
        self._context = context
        self._clusters = clusters
        self._clock = clock
        self._scans = ScanCache(open_scan or open_topic_scan)
        self.stores = OffsetStores(context, clusters=clusters, brokers=brokers, open_scan=self._scans.open)
        self._known: dict[tuple[str, str], StoreSnapshot | RestSnapshot] = {}
        self._lock = threading.Lock()

    def expect(self, names: Iterable[str]) -> None:
        """Announce the connectors of the plan, so that one scan of their topic reads all of them."""
        self._scans.expect(tuple(names))

    def open(self, cluster: str, name: str, connector: Connector | None = None) -> OffsetSnapshot:
        """Return the snapshot of a connector, the same for each call; `connector` is what was already read of it."""
        with self._lock:
            if (cluster, name) not in self._known:
                self._known[cluster, name] = self.build(cluster, name, connector)
            return self._known[cluster, name]

    def build(self, cluster: str, name: str, connector: Connector | None) -> StoreSnapshot | RestSnapshot:
        """Build an unshared snapshot, such as that of a connector that Connect does not have yet."""
        client, settings = self._clusters.client(cluster), self._clusters.settings(cluster)
        if self._context.verify == "rest":
            return RestSnapshot(
                name, context=self._context, client=client, settings=settings, clock=self._clock, kept=connector
            )
        return StoreSnapshot(
            name, context=self._context, client=client, settings=settings, stores=self.stores, kept=connector
        )
