"""The public API for the offsets of a fleet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.connect.clusters import Clusters
from seamark.connect.model import Connector
from seamark.connectors.service import Connectors
from seamark.core.offsets import Offset, OffsetMap
from seamark.core.readings import Reading
from seamark.core.refs import OwnerPatterns, is_group_owner, is_pipeline, read_group_name, render_group
from seamark.errors import (
    AccessError,
    ConfigurationError,
    NotFoundError,
    SeamarkError,
    UnreachableError,
    UnsupportedError,
    UsageError,
)
from seamark.offsets.exports import HistoryEntry, OffsetComparison, OffsetExport, Orphan
from seamark.offsets.model import OffsetFinding, OwnerOffsets, StoreReading
from seamark.offsets.read.orphans import build_orphan_offsets
from seamark.offsets.read.rest_comparison import build_notes, build_rest_notes, compare_copy, compare_rest

if TYPE_CHECKING:
    from seamark.changes.plan import PlannedChange
    from seamark.context import ConnectSettings, Context
    from seamark.offsets.model import SafetyOptions, Tolerance
    from seamark.offsets.port import OffsetDependencies
    from seamark.offsets.read.export import ExportAccumulator, OffsetReader
    from seamark.offsets.read.listing import OffsetList
    from seamark.offsets.stores.stores import OffsetStores, OpenScan


# The stores can't be read, but Connect can.
_UNREACHED = (UnreachableError, AccessError, ConfigurationError, UnsupportedError)


class Route(StrEnum):
    """How offsets are read."""

    REST = "rest"
    STORE = "store"


class Offsets:
    """The offsets of every owner: from the stores that hold them, compared with Connect's REST API."""

    def __init__(
        self,
        clusters: Clusters,
        connectors: Connectors,
        *,
        stores: Callable[[], OffsetStores],
        open_plan: Callable[[], OffsetDependencies],
        read_pipelines: Callable[[], Collection[str]],
    ) -> None:
        """Create the service. `open_plan` builds the dependencies of one plan, which cache what they read.

        `read_pipelines` returns the names of registered pipelines.
        """
        self._clusters = clusters
        self._connectors = connectors
        self._stores = stores
        self._open_plan = open_plan
        self._read_pipelines = read_pipelines

    def get(self, owner: str, *, route: Route | str | None = None) -> OwnerOffsets:
        """Return the offsets of the connector NAME or CLUSTER/NAME, or of the consumer group group/NAME.

        They are read from the store, with their bytes, and compared with REST. If the store can't be reached, the
        answer of REST is used, and a note has the reason. `route` selects only one of them.

        Raises:
            UnsupportedError: Only REST is available, and a worker is older than 3.5, which has no such endpoint.
        """
        route = None if route is None else Route(route)
        if is_group_owner(owner):
            return self._read_group(owner)
        try:
            connector = self._connectors.get(owner)
        except NotFoundError as missing:
            return self._read_gone(owner, missing)
        if route is Route.REST:
            return self._read_rest(connector)
        if route is None and self._stores().believes_rest:
            return self._read_rest(connector, why="read only through REST (offset_verification: rest in the context)")
        try:
            return self._read_store(connector, is_alone=route is Route.STORE)
        except _UNREACHED as failure:
            if route is Route.STORE:
                raise
            return self._read_rest(connector, why=f"read only through REST: {failure.message}")

    def list(self, owners: Sequence[str] = (), *, finding: str = "") -> OffsetList:
        """Return the offsets of every source, sink, group and pipeline, or of `owners`, which may be globs.

        A row is decoded when it is read, so that 500,000 offsets fit in memory. `finding` limits them to the offsets
        with an anomaly of that name, or `orphaned`. What could not be read is in `failures`.
        """
        from seamark.offsets.read.listing import OffsetLister  # noqa: PLC0415

        lister = OffsetLister(self._clusters, self._stores(), read_pipelines=self._read_pipelines)
        return lister.read(OwnerPatterns(tuple(owners)), finding=finding)

    def export(self, owners: Sequence[str] = (), *, everything: bool = False) -> OffsetExport:
        """Return the offsets of these owners, or of every Connect cluster, with their bytes.

        `everything` includes orphaned offsets. What could not be read is in `failures`.
        """
        if everything == bool(owners):
            raise UsageError("no owner given", hint="pass OWNER…, or --all")
        reader = self._reader()
        if everything:
            harvest = reader.read_all()
        else:
            names = dict.fromkeys(owners)
            groups = [read_group_name(name) for name in names if is_group_owner(name)]
            connectors = [self._connectors.get(name) for name in names if not is_group_owner(name)]
            harvest = reader.read_some(connectors, groups)
        reader.add_topics(harvest)
        return self._build_export(harvest)

    def compare(self, before: Path, after: Path | None = None) -> OffsetComparison:
        """Compare two exports, or an export with the current offsets of the same owners."""
        from seamark.offsets.read.export import build_comparison, read_side  # noqa: PLC0415

        old = read_side(before)
        if after is not None:
            return build_comparison(old, read_side(after), names=(str(before), str(after)))
        return build_comparison(old, self._read_live(list(old)), names=(str(before), "now"))

    def history(self, owner: str) -> tuple[HistoryEntry, ...]:
        """Return every write of an owner's offsets that its topic still contains, oldest first.

        Raises:
            UnsupportedError: Its offsets are in a file or a consumer group, which keep only the newest.
        """
        from seamark.offsets.read.history import read_history  # noqa: PLC0415

        return read_history(owner, connectors=self._connectors, clusters=self._clusters, stores=self._stores())

    def orphans(self) -> Reading[Orphan]:
        """Return orphaned offsets, oldest first. A Connect cluster that did not respond is in `failures`."""
        from seamark.offsets.read.orphans import read_orphans  # noqa: PLC0415

        return read_orphans(self._clusters, self._stores())

    def repair(
        self,
        owners: Sequence[str] = (),
        *,
        everything: bool = False,
        take: str = "",
        assume_worker_down: bool = False,
        tolerance: Tolerance | None = None,
        wait_seconds: float | None = None,
    ) -> PlannedChange:
        """Plan to rewrite the records of these sources, or of `everything`, as Connect would have written them.

        Every key encoding that a task may look up gets the same value, as does every copy of it. `take` selects the
        value if records differ: `newest`, or the location of one as `of` shows it.
        """
        from seamark.offsets.repair.plans import RepairChoice, RepairPlanner  # noqa: PLC0415

        choice = RepairChoice(take, _build_safety(assume_worker_down, tolerance, wait_seconds))
        return RepairPlanner(self._open_plan()).repair(owners, everything=everything, choice=choice)

    def purge(
        self,
        owners: Sequence[str] = (),
        *,
        everything: bool = False,
        older_than: float | str | timedelta | None = None,
    ) -> PlannedChange:
        """Plan to delete orphaned offsets: of these connectors, or `everything`.

        `older_than` is a duration: offsets written since then are kept.
        """
        from seamark.offsets.purge import OffsetPurges  # noqa: PLC0415

        before_ms = None
        if older_than is not None:
            from seamark.groups.targets import parse_length  # noqa: PLC0415

            before_ms = int((datetime.now(UTC).timestamp() - parse_length(older_than)) * 1000)
        return OffsetPurges(self._open_plan()).purge(owners, everything=everything, older_than_ms=before_ms)

    def move(
        self,
        owner: str,
        *,
        to: str | int | datetime | OffsetMap | None = None,
        back: float | str | timedelta | None = None,
        shift: int | None = None,
        source: Path | str | None = None,
        partitions: Sequence[str] = (),
        topics: Sequence[str] = (),
        assume_worker_down: bool = False,
        tolerance: Tolerance | None = None,
        wait_seconds: float | None = None,
    ) -> PlannedChange:
        """Plan other offsets for an owner. Exactly one of `to`, `back`, `shift` and `source` is given.

        `to` is `earliest`, `current`, a map, a number, a time, or `-1h` for one hour before now; for sinks and groups
        `latest` too. `back` is a duration of record time before the current offset. `shift` is a number of records,
        bytes or IDs. `source` is the file of an export; for a group also the name of another group. `partitions` are
        source partitions, as names or JSON maps; `topics` are `TOPIC` and `TOPIC:0,1` of sinks, groups and pipelines.
        The plan counts what is reprocessed or skipped. When a connector runs again, seamark waits up to `wait_seconds`
        for its first new offset.

        Raises:
            UnsupportedError: The owner can't be moved in this way; the hint names an alternative.
            RefusedError: The offsets are invalid for the owner, or its current offsets are ambiguous.
        """
        from seamark.offsets.move.moves import OffsetMoves  # noqa: PLC0415
        from seamark.offsets.move.targets import Move  # noqa: PLC0415

        move = Move(to=to, back=back, shift=shift, source=source)
        safety = _build_safety(assume_worker_down, tolerance, wait_seconds)
        return OffsetMoves(self._open_plan()).move(owner, move, partitions=partitions, topics=topics, safety=safety)

    def reset(
        self,
        owner: str,
        *,
        partitions: Sequence[str] = (),
        topics: Sequence[str] = (),
        assume_worker_down: bool = False,
        tolerance: Tolerance | None = None,
        wait_seconds: float | None = None,
    ) -> PlannedChange:
        """Plan to delete all offsets of an owner, or those of some partitions.

        A source then starts from its beginning. `partitions` and `topics` are as for `move`.
        """
        from seamark.offsets.move.moves import OffsetMoves  # noqa: PLC0415

        safety = _build_safety(assume_worker_down, tolerance, wait_seconds)
        return OffsetMoves(self._open_plan()).forget(owner, partitions=partitions, topics=topics, safety=safety)

    def import_file(
        self,
        path: Path,
        *,
        owners: Sequence[str] = (),
        assume_worker_down: bool = False,
        tolerance: Tolerance | None = None,
        wait_seconds: float | None = None,
    ) -> PlannedChange:
        """Plan to set owners to the offsets in an export or the JSON of `connect-offsets`; by default all in it.

        Partitions that the file does not contain stay unchanged.
        """
        from seamark.offsets.move.moves import OffsetMoves  # noqa: PLC0415

        safety = _build_safety(assume_worker_down, tolerance, wait_seconds)
        return OffsetMoves(self._open_plan()).restore(path, owners=owners, safety=safety)

    def copy(
        self,
        source: str,
        target: str,
        *,
        assume_worker_down: bool = False,
        tolerance: Tolerance | None = None,
        wait_seconds: float | None = None,
    ) -> PlannedChange:
        """Plan to set one owner to the offsets of another, with keys as the target names them."""
        from seamark.offsets.move.moves import OffsetMoves  # noqa: PLC0415

        safety = _build_safety(assume_worker_down, tolerance, wait_seconds)
        return OffsetMoves(self._open_plan()).copy(source, target, safety=safety)

    def relocate(
        self, owner: str, topic: str | None, *, assume_worker_down: bool = False, wait_seconds: float | None = None
    ) -> PlannedChange:
        """Plan to store the offsets of a source in its own topic, without reprocessing.

        Without a topic, it returns to the topic of its workers. The topic is created if it does not exist.
        """
        from seamark.offsets.move.moves import OffsetMoves  # noqa: PLC0415

        safety = _build_safety(assume_worker_down, None, wait_seconds)
        return OffsetMoves(self._open_plan()).relocate(owner, topic, safety=safety)

    def restore(
        self,
        at: str | datetime,
        owners: Sequence[str] = (),
        *,
        everything: bool = False,
        exports: Sequence[Path] = (),
        by_record_time: bool = False,
        skip_unknown: bool = False,
        partitions: Sequence[str] = (),
        assume_worker_down: bool = False,
        tolerance: Tolerance | None = None,
        wait_seconds: float | None = None,
    ) -> PlannedChange:
        """Plan to restore owners to their offsets at a point in time: sources and sinks, one step sequence for each.

        `owners` are NAME, CLUSTER/NAME, globs and group/NAME; `everything` is every connector. The evidence comes from
        the offsets topics, the journal, and `exports`, which are files and folders. With `by_record_time`, a sink
        without evidence is set to the first record of that time or later. Each line of the plan states its evidence,
        and whether it is exact or a bound. A bound never skips records.

        Raises:
            RefusedError: Some owners have no evidence; with `skip_unknown` those are skipped and listed.
        """
        from seamark.offsets.move.targets import parse_time  # noqa: PLC0415
        from seamark.offsets.restore.plans import RestoreOptions, RestorePlanner  # noqa: PLC0415

        back = RestoreOptions(parse_time(at), tuple(exports), by_record_time=by_record_time, skip_unknown=skip_unknown)
        safety = _build_safety(assume_worker_down, tolerance, wait_seconds)
        return RestorePlanner(self._open_plan()).plan(
            owners, back, everything=everything, partitions=partitions, safety=safety
        )

    def _reader(self) -> OffsetReader:
        from seamark.offsets.read.export import OffsetReader  # noqa: PLC0415

        return OffsetReader(self._clusters, self._stores())

    def _build_export(self, harvest: ExportAccumulator) -> OffsetExport:
        return OffsetExport(
            time=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            source=self._stores().describe(),
            owners=tuple(harvest.owners[name] for name in sorted(harvest.owners)),
            findings=tuple(harvest.findings),
            failures=harvest.failures,
            topics=harvest.topics,
        )

    def _read_live(self, owners: Sequence[str]) -> dict[str, tuple[Offset, ...]]:
        """Read the current offsets of owners; none for a deleted connector without orphaned offsets."""
        held: dict[str, tuple[Offset, ...]] = {}
        gone = []
        connectors, groups = [], []
        for owner in owners:
            if is_group_owner(owner):
                groups.append(read_group_name(owner))
                continue
            try:
                connectors.append(self._connectors.get(owner))
            except NotFoundError:
                gone.append(owner)
        harvest = self._reader().read_some(connectors, groups)
        for error in harvest.failures.values():
            raise error
        # A bare name in the file stands for the connector that was found by it.
        found = {name: export.offsets for name, export in harvest.owners.items()}
        for owner in owners:
            matching = [name for name in found if name == owner or name.endswith(f"/{owner}")]
            held[owner] = found[matching[0]] if matching else ()
        for owner in gone:
            with suppress(NotFoundError):
                held[owner] = self.get(owner).offsets
        return held

    def _read_store(self, connector: Connector, *, is_alone: bool) -> OwnerOffsets:
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
            notes = (*notes, f"REST was not read: {before.message}")
        elif before is not None:
            rest, found = self._compare(connector, first, before)
            findings += found
        offsets = tuple(found.as_offset() for found in first.offsets)
        return OwnerOffsets(
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
        """Return the answer of REST, and where it disagrees with the store."""
        findings = compare_rest(reading.offsets, [before], connector=connector.name)
        if not findings:
            return before, ()
        # The connector may only have progressed in the meantime.
        after = self._ask_rest(connector)
        if isinstance(after, SeamarkError):
            return before, findings
        return after, compare_rest(reading.offsets, [before, after], connector=connector.name)

    def _ask_rest(self, connector: Connector) -> tuple[Offset, ...] | SeamarkError:
        try:
            return self._clusters.client(connector.cluster).read_offsets(connector.name)
        except SeamarkError as error:
            return error

    def _read_rest(self, connector: Connector, *, why: str = "") -> OwnerOffsets:
        offsets = self._clusters.client(connector.cluster).read_offsets(connector.name)
        notes = build_notes(connector, offsets, worker_group=self._worker_group(connector))
        rest = build_rest_notes(connector, offsets)
        return OwnerOffsets(
            owner=connector.owner,
            connector=connector,
            offsets=offsets,
            notes=(*((why,) if why else ()), *notes, *rest),
            rest=offsets,
        )

    def _read_group(self, owner: str) -> OwnerOffsets:
        name = read_group_name(owner)
        reading = self._stores().find_group(name).read()
        if not reading.offsets:
            raise NotFoundError(
                f"no committed offsets for {render_group(name)}",
                hint="list pipelines with seamark pipelines status -f PATH"
                if is_pipeline(name)
                else "list groups with seamark groups list",
                context={"group": name},
            )
        return build_orphan_offsets(owner, reading)

    def _read_gone(self, owner: str, missing: NotFoundError) -> OwnerOffsets:
        """Read the orphaned offsets of a connector from the workers' store. Raises `missing` if there are none."""
        cluster, name = self._connectors.split_owner(owner)
        for where in (cluster,) if cluster is not None else self._clusters.names:
            try:
                reading = self._stores().find_workers(where).read([name])
            except SeamarkError:
                continue
            if reading.offsets:
                note = (
                    "the connector does not exist: these offsets are orphaned, and a new connector of this name "
                    "would use them"
                )
                return replace(build_orphan_offsets(f"{where}/{name}", reading), notes=(note,))
        raise missing

    def _worker_group(self, connector: Connector) -> str | None:
        return self._clusters.settings(connector.cluster).consumer_group_id


def _build_safety(assume_worker_down: bool, tolerance: Tolerance | None, wait_seconds: float | None) -> SafetyOptions:
    from seamark.offsets.model import DEFAULT_TOLERANCE, SafetyOptions  # noqa: PLC0415

    return SafetyOptions(assume_worker_down, tolerance or DEFAULT_TOLERANCE, wait_seconds)


def find_config_reader(
    context: Context, settings: ConnectSettings, open_scan: OpenScan | None = None
) -> Callable[[], frozenset[str]] | None:
    """Return a function that reads connector names from the config topic; None if the context lacks it."""
    topic = settings.config_topic
    if topic is None or "bootstrap.servers" not in context.kafka.values:
        return None

    def read_names() -> frozenset[str]:
        from seamark.kafka.topic_scan import read_connector_names  # noqa: PLC0415

        config = context.kafka.client_config()
        scan = None if open_scan is None else open_scan(config, topic, True)
        return read_connector_names(config, topic, scan=scan)

    return read_names
