"""What the owners of a fleet remember."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.connect.clusters import Clusters
from seamark.connect.connector import Connector
from seamark.connectors.service import Connectors
from seamark.core.offset import Offset
from seamark.core.reading import Reading
from seamark.core.refs import is_group_owner, is_pipeline, read_group_name, render_group
from seamark.errors import (
    AccessError,
    ConfigurationError,
    NotFoundError,
    SeamarkError,
    UnreachableError,
    UnsupportedError,
    UsageError,
)
from seamark.offsets.offset_export import HistoryEntry, OffsetComparison, OffsetExport, Orphan
from seamark.offsets.offset_finding import OffsetFinding
from seamark.offsets.offset_verbs import OffsetVerbs
from seamark.offsets.owned import OwnedOffsets
from seamark.offsets.read.orphans import build_orphan_offsets
from seamark.offsets.read.rest_words import build_notes, build_rest_notes, compare_copy, compare_rest
from seamark.offsets.stored_offset import StoreReading

if TYPE_CHECKING:
    from seamark.offsets.port import OffsetDependencies
    from seamark.offsets.read.export import Harvest, OffsetReader
    from seamark.offsets.stores.stores import OffsetStores

# The stores can't be asked, but Connect can.
_UNREACHED = (UnreachableError, AccessError, ConfigurationError, UnsupportedError)


class Route(StrEnum):
    """How offsets are read."""

    REST = "rest"
    STORE = "store"


class Offsets(OffsetVerbs):
    """The offsets of every owner: from the stores that hold them, and what Connect's REST API says of them."""

    def __init__(
        self,
        clusters: Clusters,
        connectors: Connectors,
        *,
        stores: Callable[[], OffsetStores],
        open_plan: Callable[[], OffsetDependencies],
    ) -> None:
        super().__init__(open_plan)
        self._clusters = clusters
        self._connectors = connectors
        self._stores = stores

    def of(self, owner: str, *, route: Route | str | None = None) -> OwnedOffsets:
        """The offsets of the connector NAME or CLUSTER/NAME, or of the consumer group group/NAME.

        They are read from the store, with their bytes, and REST is asked beside it. Where the store can't be reached,
        what REST says must do, and a note says why. A `route` asks for one of them alone.

        Raises:
            UnsupportedError: only REST could be asked, and a worker is older than 3.5, which has no call for it.
        """
        route = None if route is None else Route(route)
        if is_group_owner(owner):
            return self._read_group(owner)
        try:
            connector = self._connectors.one(owner)
        except NotFoundError as missing:
            return self._read_gone(owner, missing)
        if route is Route.REST:
            return self._read_rest(connector)
        if route is None and self._stores().believes_rest:
            return self._read_rest(connector, why="read through REST alone, as the context says: verify: rest")
        try:
            return self._read_store(connector, is_alone=route is Route.STORE)
        except _UNREACHED as failure:
            if route is Route.STORE:
                raise
            return self._read_rest(connector, why=f"read through REST alone: {failure.message}")

    def export(self, owners: Sequence[str] = (), *, everything: bool = False) -> OffsetExport:
        """The offsets of these owners, or of every Connect cluster, with the bytes behind them.

        `everything` takes also what connectors that are gone have left. What could not be read is in `failures`.
        """
        if everything == bool(owners):
            raise UsageError("say whose offsets: some owners, or all of them", hint="OWNER…, or --all")
        reader = self._reader()
        if everything:
            harvest = reader.read_all()
        else:
            names = dict.fromkeys(owners)
            groups = [read_group_name(name) for name in names if is_group_owner(name)]
            connectors = [self._connectors.one(name) for name in names if not is_group_owner(name)]
            harvest = reader.read_some(connectors, groups)
        reader.add_topics(harvest)
        return self._build_export(harvest)

    def compare(self, before: Path, after: Path | None = None) -> OffsetComparison:
        """Two exports side by side, or an export and what is held now by the same owners."""
        from seamark.offsets.read.diff import build_comparison, read_side  # noqa: PLC0415

        old = read_side(before)
        if after is not None:
            return build_comparison(old, read_side(after), names=(str(before), str(after)))
        return build_comparison(old, self._read_live(list(old)), names=(str(before), "now"))

    def history(self, owner: str) -> tuple[HistoryEntry, ...]:
        """Every write of an owner's offsets that its topic still holds, the oldest first.

        Raises:
            UnsupportedError: its offsets are in a file or a consumer group, which keep the newest only.
        """
        from seamark.offsets.read.history import read_history  # noqa: PLC0415

        return read_history(owner, connectors=self._connectors, clusters=self._clusters, stores=self._stores())

    def orphans(self) -> Reading[Orphan]:
        """Offsets whose connector is gone, the oldest first. A cluster that did not answer is in `failures`."""
        from seamark.offsets.read.orphans import read_orphans  # noqa: PLC0415

        return read_orphans(self._clusters, self._stores())

    def _reader(self) -> OffsetReader:
        from seamark.offsets.read.export import OffsetReader  # noqa: PLC0415

        return OffsetReader(self._clusters, self._stores())

    def _build_export(self, harvest: Harvest) -> OffsetExport:
        return OffsetExport(
            time=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            source=self._stores().describe(),
            owners=tuple(harvest.owners[name] for name in sorted(harvest.owners)),
            findings=tuple(harvest.findings),
            failures=harvest.failures,
            topics=harvest.topics,
        )

    def _read_live(self, owners: Sequence[str]) -> dict[str, tuple[Offset, ...]]:
        """What owners hold now; nothing for a connector that is gone and left nothing."""
        held: dict[str, tuple[Offset, ...]] = {}
        gone = []
        connectors, groups = [], []
        for owner in owners:
            if is_group_owner(owner):
                groups.append(read_group_name(owner))
                continue
            try:
                connectors.append(self._connectors.one(owner))
            except NotFoundError:
                gone.append(owner)
        harvest = self._reader().read_some(connectors, groups)
        for error in harvest.failures.values():
            raise error
        # A bare name in the file stands for the connector that it found.
        found = {name: export.offsets for name, export in harvest.owners.items()}
        for owner in owners:
            matching = [name for name in found if name == owner or name.endswith(f"/{owner}")]
            held[owner] = found[matching[0]] if matching else ()
        for owner in gone:
            with suppress(NotFoundError):
                held[owner] = self.of(owner).offsets
        return held

    def _read_store(self, connector: Connector, *, is_alone: bool) -> OwnedOffsets:
        stores = self._stores().find(connector)
        before = None if is_alone else self._ask_rest(connector)
        first, notes = stores.read_first(connector.name)
        findings = list(first.findings)
        names = [first.store]
        if stores.second is not None:
            second = stores.second.read([connector.name])
            findings += (*second.findings, *compare_copy(first, second))
            names.append(second.store)
        rest = None
        if isinstance(before, SeamarkError):
            notes = (*notes, f"REST was not heard: {before.message}")
        elif before is not None:
            rest, found = self._compare(connector, first, before)
            findings += found
        offsets = tuple(found.as_offset() for found in first.offsets)
        return OwnedOffsets(
            owner=connector.owner,
            connector=connector,
            offsets=offsets,
            route="store",
            notes=(*build_notes(connector, offsets, worker_group=self._worker_group(connector)), *notes),
            stores=tuple(names),
            stored=first.offsets,
            forgotten=first.forgotten,
            findings=tuple(findings),
            rest=rest,
        )

    def _compare(
        self, connector: Connector, reading: StoreReading, before: tuple[Offset, ...]
    ) -> tuple[tuple[Offset, ...], tuple[OffsetFinding, ...]]:
        """What REST says, and where it disagrees with the store."""
        findings = compare_rest(reading.offsets, [before], connector=connector.name)
        if not findings:
            return before, ()
        # It may only have moved on in the meantime.
        after = self._ask_rest(connector)
        if isinstance(after, SeamarkError):
            return before, findings
        return after, compare_rest(reading.offsets, [before, after], connector=connector.name)

    def _ask_rest(self, connector: Connector) -> tuple[Offset, ...] | SeamarkError:
        try:
            return self._clusters.client(connector.cluster).read_offsets(connector.name)
        except SeamarkError as error:
            return error

    def _read_rest(self, connector: Connector, *, why: str = "") -> OwnedOffsets:
        offsets = self._clusters.client(connector.cluster).read_offsets(connector.name)
        notes = build_notes(connector, offsets, worker_group=self._worker_group(connector))
        rest = build_rest_notes(connector, offsets)
        return OwnedOffsets(
            owner=connector.owner,
            connector=connector,
            offsets=offsets,
            notes=(*((why,) if why else ()), *notes, *rest),
            rest=offsets,
        )

    def _read_group(self, owner: str) -> OwnedOffsets:
        name = read_group_name(owner)
        reading = self._stores().find_group(name).read()
        if not reading.offsets:
            raise NotFoundError(
                f"nothing is committed for {render_group(name)}",
                hint="seamark land status -f PATH shows landings"
                if is_pipeline(name)
                else "seamark groups list shows all groups",
                context={"group": name},
            )
        return build_orphan_offsets(owner, reading)

    def _read_gone(self, owner: str, missing: NotFoundError) -> OwnedOffsets:
        """What a connector that is gone has left in the workers' store; the error where that is nothing."""
        cluster, name = self._connectors.split_owner(owner)
        for where in (cluster,) if cluster is not None else self._clusters.names:
            try:
                reading = self._stores().find_workers(where).read([name])
            except SeamarkError:
                continue
            if reading.offsets:
                note = "there is no such connector: these offsets were left behind, and one of that name takes them up"
                return replace(build_orphan_offsets(f"{where}/{name}", reading), notes=(note,))
        raise missing

    def _worker_group(self, connector: Connector) -> str | None:
        return self._clusters.settings(connector.cluster).consumer_group_id
