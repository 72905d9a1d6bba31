"""Read the offsets of many owners, one store at a time instead of one owner at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.connect.clusters import Clusters
from seamark.connect.config import OWN_OFFSETS_TOPIC
from seamark.connect.model import Connector
from seamark.core.offsets import Offset, spell_identity, spell_offset
from seamark.core.readings import fan_out
from seamark.core.refs import ConnectorType, build_group_owner
from seamark.errors import RefusedError, SeamarkError
from seamark.offsets.exports import DifferenceKind, OffsetComparison, OffsetDifference, OwnerExport
from seamark.offsets.model import OffsetFinding, StoredOffset, StoreReading
from seamark.offsets.read.export_file import is_envelope, parse_bare_export, read_export, read_json_file
from seamark.offsets.read.rest_comparison import compare_copy
from seamark.offsets.semantics.registry import read_meaning
from seamark.offsets.semantics.sinks import find_spot
from seamark.offsets.stores.stores import reads_elsewhere
from seamark.report.words import build_time

if TYPE_CHECKING:
    from seamark.offsets.stores.stores import OffsetStores


Side = Mapping[str, tuple[Offset, ...]]
"""Offsets by owner."""


def read_side(path: Path) -> Side:
    """Read the offsets in a file: an unmodified export, or the bare JSON of `connect-offsets`."""
    return read_saved(path)[0]


def read_saved(path: Path) -> tuple[Side, Mapping[str, str] | None]:
    """Read the offsets in a file and the IDs of their topics; None if the file format has no IDs."""
    body = read_json_file(path)
    if not is_envelope(body):
        return {found.owner: found.offsets for found in parse_bare_export(body, name=str(path))}, None
    export, problems = read_export(path)
    if problems:
        raise RefusedError(
            f"{path} was changed after it was exported",
            cause="; ".join(problems),
            hint="use another copy of the export",
        )
    return {found.owner: found.offsets for found in export.owners}, export.topics


def build_comparison(before: Side, after: Side, *, names: tuple[str, str]) -> OffsetComparison:
    """Return the offsets that were added, removed and changed from one side to the other."""
    differences: list[OffsetDifference] = []
    equal = 0
    for owner in sorted({*before, *after}):
        old, new = _by_identity(before.get(owner, ())), _by_identity(after.get(owner, ()))
        for identity in sorted({*old, *new}):
            was, now = old.get(identity), new.get(identity)
            found = _compare(owner, was, now)
            if found is None:
                equal += 1
            else:
                differences.append(found)
    return OffsetComparison(*names, tuple(differences), equal)


def _compare(owner: str, was: Offset | None, now: Offset | None) -> OffsetDifference | None:
    if was is None or now is None:
        present = was or now
        if present is None or present.offset is None:
            # "No offset" is written in two ways with the same meaning.
            return None
        kind = DifferenceKind.ADDED if was is None else DifferenceKind.REMOVED
        return OffsetDifference(
            owner, present.partition, kind, was.offset if was else None, now.offset if now else None
        )
    if spell_offset(was.offset) == spell_offset(now.offset):
        return None
    return OffsetDifference(owner, now.partition, DifferenceKind.CHANGED, was.offset, now.offset)


def _by_identity(offsets: tuple[Offset, ...]) -> dict[str, Offset]:
    return {spell_identity(found.partition): found for found in offsets}


@dataclass(slots=True)
class ExportAccumulator:
    """What was read so far, by owner."""

    owners: dict[str, OwnerExport] = field(default_factory=dict)
    findings: list[OffsetFinding] = field(default_factory=list)
    failures: dict[str, SeamarkError] = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)
    # Sinks whose topics are in another Kafka cluster.
    elsewhere: set[str] = field(default_factory=set)

    def add(self, owner: str, stored: Iterable[StoredOffset]) -> None:
        """Add the offsets of one owner. An unreadable value is included in the records, but not in the offsets."""
        held = list(stored)
        offsets = tuple(
            one.as_offset() for one in held if one.offset is not None or one.evidence.value_verdict == "null"
        )
        records = tuple(record for one in held for record in (one.evidence, *one.others))
        self.owners[owner] = OwnerExport(owner, offsets, records)

    def join(self, other: ExportAccumulator) -> None:
        """Add the results of another reading."""
        self.owners |= other.owners
        self.findings += other.findings
        self.failures |= other.failures
        self.topics |= other.topics
        self.elsewhere |= other.elsewhere


class OffsetReader:
    """Reads the offsets of whole Connect clusters, or of some of their connectors."""

    def __init__(self, clusters: Clusters, stores: OffsetStores) -> None:
        self._clusters = clusters
        self._stores = stores

    def read_all(self) -> ExportAccumulator:
        """Read all offsets of the context's Connect clusters, including orphaned offsets."""
        answers = self._clusters.ask(lambda client: client.read_connectors())
        harvest = ExportAccumulator(
            failures={f"connectors of {name}": error for name, error in answers.failures.items()}
        )
        # If the workers of a Connect cluster are down, its topic still exists: everything in it is read.
        calls = {
            name: partial(self._read_cluster, name, answers.results.get(name, ()), None)
            for name in self._clusters.names
        }
        return self._gather(calls, harvest)

    def read_some(self, connectors: Sequence[Connector], groups: Sequence[str] = ()) -> ExportAccumulator:
        """Read the offsets of these connectors and consumer groups."""
        by_cluster: dict[str, list[Connector]] = {}
        for connector in connectors:
            by_cluster.setdefault(connector.cluster, []).append(connector)
        calls = {
            name: partial(self._read_cluster, name, found, [one.name for one in found])
            for name, found in by_cluster.items()
        }
        harvest = self._gather(calls, ExportAccumulator())
        for group in groups:
            reading = self._stores.find_group(group).read()
            harvest.add(build_group_owner(group), reading.offsets)
        return harvest

    def add_topics(self, harvest: ExportAccumulator) -> None:
        """Add the IDs of the topics of sinks and groups. If they can't be read, the offsets are still exported."""
        near = (found for owner, found in harvest.owners.items() if owner not in harvest.elsewhere)
        spots = (find_spot(one.partition) for found in near for one in found.offsets)
        if names := sorted({spot[0] for spot in spots if spot is not None}):
            with suppress(SeamarkError):
                harvest.topics |= self._stores.read_topic_ids(names)

    def _gather(
        self, calls: Mapping[str, Callable[[], ExportAccumulator]], harvest: ExportAccumulator
    ) -> ExportAccumulator:
        answers = fan_out(calls)
        for found in answers.results.values():
            harvest.join(found)
        harvest.failures |= answers.failures
        return harvest

    def _read_cluster(
        self, cluster: str, connectors: Sequence[Connector], only: Collection[str] | None
    ) -> ExportAccumulator:
        harvest = ExportAccumulator()
        sinks = [one for one in connectors if one.type is ConnectorType.SINK]
        own = [one for one in connectors if one.type is not ConnectorType.SINK and OWN_OFFSETS_TOPIC in one.config]
        names = None if only is None else sorted({one.name for one in connectors} - {one.name for one in sinks})
        workers = StoreReading("")
        if names is None or names:
            workers = self._stores.find_workers(cluster).read(names)
            harvest.findings += workers.findings
        by_name: dict[str, list[StoredOffset]] = {name: [] for name in names or ()}
        for stored in (*workers.offsets, *workers.forgotten):
            by_name.setdefault(stored.key.connector, []).append(stored)
        for name in sorted(by_name):
            harvest.add(f"{cluster}/{name}", by_name[name])
        for connector in own:
            self._try(harvest, connector, lambda one: self._add_own(harvest, one, workers))
        for connector in sinks:
            self._try(harvest, connector, lambda one: self._add_sink(harvest, one))
        return harvest

    def _try(self, harvest: ExportAccumulator, connector: Connector, read: Callable[[Connector], None]) -> None:
        """Read one owner; a failure does not affect the others."""
        try:
            read(connector)
        except SeamarkError as error:
            harvest.failures[connector.owner] = error

    def _add_own(self, harvest: ExportAccumulator, connector: Connector, workers: StoreReading) -> None:
        stores = self._stores.find(connector)
        if stores.second is None:
            return
        reading, _ = stores.read_first(connector.name)
        mine = tuple(one for one in workers.offsets if one.key.connector == connector.name)
        copy = StoreReading(workers.store, mine)
        harvest.findings += (*reading.findings, *compare_copy(reading, copy))
        harvest.add(connector.owner, (*reading.offsets, *reading.forgotten))

    def _add_sink(self, harvest: ExportAccumulator, connector: Connector) -> None:
        reading = self._stores.find(connector).first.read([connector.name])
        harvest.add(connector.owner, reading.offsets)
        if reads_elsewhere(connector):
            harvest.elsewhere.add(connector.owner)


# The workers' topic is read once per Connect cluster, a connector's own topic once per connector: this many take some
# seconds.
_MOST_READS = 50

NO_FORMER_OFFSETS = "starts from the beginning, no offset of this name exists"
"""What is reported for a connector of whose name no offsets are stored."""


class ExistingOffsets:
    """Searches the stores for existing offsets of new connectors. Failures are reported as text, never raised."""

    def __init__(self, clusters: Clusters, *, stores: Callable[[], OffsetStores]) -> None:
        self._clusters = clusters
        self._stores = stores

    def describe(self, connectors: Sequence[Connector]) -> Mapping[str, str]:
        """Describe, by owner, where each of these sources would start."""
        groups: dict[tuple[str, str], list[Connector]] = {}
        for one in connectors:
            groups.setdefault((one.cluster, one.config.get(OWN_OFFSETS_TOPIC, "")), []).append(one)
        if len(groups) > _MOST_READS:
            return {one.owner: "resumes from existing offsets of this name, if there are any" for one in connectors}
        answers = fan_out({" ".join(where): partial(self._describe, found) for where, found in groups.items()})
        words: dict[str, str] = {}
        for where, found in groups.items():
            error = answers.failures.get(" ".join(where))
            unknown = "" if error is None else f"can't check for existing offsets of this name ({error.message})"
            words |= dict.fromkeys([one.owner for one in found], unknown) if error else answers.results[" ".join(where)]
        return words

    def _describe(self, connectors: Sequence[Connector]) -> dict[str, str]:
        """Describe connectors that share their stores, with one reading."""
        reading, _ = self._stores().find(connectors[0]).read_first(*(one.name for one in connectors))
        held: dict[str, list[StoredOffset]] = {}
        for stored in reading.offsets:
            if stored.offset is not None:
                held.setdefault(stored.key.connector, []).append(stored)
        return {one.owner: self._spell(one, held.get(one.name, ())) for one in connectors}

    def _spell(self, connector: Connector, held: Sequence[StoredOffset]) -> str:
        if not held:
            return NO_FORMER_OFFSETS
        newest = max(held, key=lambda stored: stored.evidence.timestamp_ms or 0)
        if len(held) > 1:
            return f"resumes from {len(held)} existing offsets of this name{_spell_day(newest, ', the newest')}"
        try:
            meaning = read_meaning(connector, self._clusters.client(connector.cluster))
            place = " ".join(meaning.describe(newest.key.partition, newest.offset))
        except SeamarkError:
            return f"resumes from an existing offset of this name{_spell_day(newest)}"
        return f"resumes at {place}, an existing offset of this name{_spell_day(newest)}"


def _spell_day(stored: StoredOffset, before: str = "") -> str:
    millis = stored.evidence.timestamp_ms
    return "" if millis is None else f"{before} from {build_time(millis):%Y-%m-%d}"
