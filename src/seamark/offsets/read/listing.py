"""List the offsets of every owner: one scan for each offsets topic, one bulk read for all groups of a Kafka cluster.

A fleet has 500,000 offsets. Records are kept as they were read and decoded when their row is shown, so that memory
grows with the bytes of the newest records and not with what Python makes of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, overload

from seamark.connect.clusters import Clusters
from seamark.connect.config import OWN_OFFSETS_TOPIC, find_group
from seamark.connect.model import Connector
from seamark.core.offsets import OffsetMap, spell_identity
from seamark.core.readings import Reading, fan_out
from seamark.core.refs import (
    GLOB,
    ConnectorType,
    OwnerPatterns,
    build_group_owner,
    build_pipeline_owner,
    is_mirror,
    is_pipeline,
)
from seamark.errors import NotFoundError, SeamarkError
from seamark.kafka.groups import Committed, GroupOffsets
from seamark.kafka.model import TopicPartition
from seamark.offsets.model import OffsetFinding, StoredOffset, StoreReading
from seamark.offsets.read.orphans import find_sharing
from seamark.offsets.read.rest_comparison import compare_copy
from seamark.offsets.stores.stores import OFFSET, PARTITION, TOPIC, reads_elsewhere
from seamark.offsets.stores.topic import PlainRecord, TopicStore

if TYPE_CHECKING:
    from seamark.offsets.stores.stores import OffsetStores

ORPHANED = "orphaned"
"""The finding for offsets whose connector doesn't exist."""


class ListedOffset(NamedTuple):
    """One offset of the list. A tuple, because 500,000 of them are built.

    `record` is where the record is stored, "" for a group; `written_ms` is None if the store has no times. What Connect
    wrote in plain JSON is kept as `written`: only what is read of it is decoded, and output copies it. All others
    are `decoded`.
    """

    owner: str
    store: str
    record: str = ""
    written_ms: int | None = None
    findings: tuple[str, ...] = ()
    written: tuple[str, str] | None = None
    decoded: tuple[OffsetMap | None, OffsetMap | None] = (None, None)

    @property
    def partition(self) -> OffsetMap | None:
        """The partition; None for a record whose key can't be read."""
        return _decode(self.written[0]) if self.written else self.decoded[0]

    @property
    def offset(self) -> OffsetMap | None:
        """The offset; None if there is none."""
        return _decode(self.written[1]) if self.written else self.decoded[1]


@dataclass(slots=True)
class _OwnerRows:
    """The offsets of one owner in one store, in the forms in which they were read."""

    store: str
    findings: tuple[str, ...] = ()
    plain: list[PlainRecord] = field(default_factory=list)
    others: list[ListedOffset] = field(default_factory=list)
    committed: Mapping[TopicPartition, Committed] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.plain) + len(self.others) + len(self.committed)

    def build(self, owner: str) -> Iterator[ListedOffset]:
        """Build the rows, sorted by partition."""
        topic, store, findings = self.store.removeprefix("topic "), self.store, self.findings
        for _, partition, record in sorted(self.plain, key=_get_partition):
            number, offset, written_ms, _, value = record
            yield ListedOffset(
                owner,
                store,
                f"{topic}-{number}@{offset}",
                written_ms if written_ms >= 0 else None,
                findings,
                (partition.decode("ascii"), (value or b"null").decode("ascii")),
            )
        yield from self.others
        for (name, number), found in sorted(self.committed.items()):
            where: OffsetMap = {TOPIC: name, PARTITION: number}
            yield ListedOffset(owner, store, findings=findings, decoded=(where, {OFFSET: found.offset}))


class OffsetList(Sequence[ListedOffset]):
    """The offsets of many owners, by owner and partition. Each row is built when it is read.

    `failures` are what could not be read; `notes` are findings that concern no single offset.
    """

    def __init__(
        self,
        owners: Mapping[str, Sequence[_OwnerRows]],
        *,
        finding: str = "",
        failures: Mapping[str, SeamarkError] | None = None,
        notes: Sequence[OffsetFinding] = (),
    ) -> None:
        self._owners = owners
        self._finding = finding
        self._length: int | None = None
        self.failures = dict(failures or {})
        self.notes = tuple(notes)

    def __iter__(self) -> Iterator[ListedOffset]:
        for owner in sorted(self._owners):
            for part in self._owners[owner]:
                for row in part.build(owner):
                    if not self._finding or self._finding in row.findings:
                        yield row

    def __len__(self) -> int:
        if self._length is None:
            is_whole = not self._finding
            self._length = sum(len(part) for parts in self._owners.values() for part in parts) if is_whole else -1
            if not is_whole:
                self._length = sum(1 for _ in self)
        return self._length

    @overload
    def __getitem__(self, index: int) -> ListedOffset: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ListedOffset]: ...
    def __getitem__(self, index: int | slice) -> ListedOffset | Sequence[ListedOffset]:
        return list(self)[index]


class OffsetLister:
    """Reads the offsets of all or some owners of a context."""

    def __init__(
        self,
        clusters: Clusters,
        stores: OffsetStores,
        *,
        read_pipelines: Callable[[], Collection[str]],
    ) -> None:
        self._clusters = clusters
        self._stores = stores
        self._read_pipelines = read_pipelines

    def read(self, only: OwnerPatterns, *, finding: str = "") -> OffsetList:
        """Read the offsets of these owners. Those that could not be read are in `failures`, also missing owners."""
        answers = self._clusters.ask(lambda client: client.read_connectors())
        connectors = {name: tuple(answers.results.get(name, ())) for name in self._clusters.names}
        failures: dict[str, SeamarkError] = dict(answers.failures)
        run = _ListRun(self._stores, self._clusters, only, connectors, frozenset(answers.results))
        calls: dict[str, Callable[[], None]] = {}
        for names in dict.fromkeys(find_sharing(self._clusters, name) for name in self._clusters.names):
            calls[f"offsets of {', '.join(names)}"] = partial(run.add_workers, names)
        calls["consumer groups"] = run.add_groups
        if not only.texts or any(GLOB & set(text) or is_pipeline(text) for text in only.texts):
            calls["pipelines"] = partial(run.add_pipelines, self._read_pipelines)
        failures |= fan_out(calls).failures
        failures |= run.failures
        known = {one.owner for found in connectors.values() for one in found} | set(run.owners) | run.groups
        if not failures:
            hint = "list all owners: seamark offsets list -o name"
            missing = only.find_missing(known)
            failures = {name: NotFoundError(f"owner {name} does not exist", hint=hint) for name in missing}
        return OffsetList(run.owners, finding=finding, failures=failures, notes=run.notes)


@dataclass(frozen=True, slots=True)
class _Scope:
    """The Connect clusters of one store: the one that orphaned offsets are listed under, and that of each source."""

    cluster: str
    homes: Mapping[str, str]
    is_complete: bool = True

    def find_owner(self, name: str) -> str:
        """Return a connector with its Connect cluster."""
        return f"{self.homes.get(name, self.cluster)}/{name}"

    def is_orphan(self, name: str) -> bool:
        """Return whether it is certain that a connector doesn't exist."""
        return self.is_complete and name not in self.homes


class _ListRun:
    """One reading of the list. Its parts run at the same time, each for other owners."""

    def __init__(
        self,
        stores: OffsetStores,
        clusters: Clusters,
        only: OwnerPatterns,
        connectors: Mapping[str, Sequence[Connector]],
        known_clusters: frozenset[str],
    ) -> None:
        self._stores = stores
        self._clusters = clusters
        self._only = only
        self._connectors = connectors
        self._known_clusters = known_clusters
        self.owners: dict[str, list[_OwnerRows]] = {}
        self.groups: set[str] = set()
        self.failures: dict[str, SeamarkError] = {}
        self.notes: list[OffsetFinding] = []

    # --- sources

    def add_workers(self, clusters: Sequence[str]) -> None:
        """Add the sources of the Connect clusters that share a store, and orphaned offsets."""
        scope = _Scope(
            clusters[0],
            {one.name: one.cluster for name in reversed(clusters) for one in self._connectors[name] if _is_source(one)},
            is_complete=self._known_clusters.issuperset(clusters),
        )
        own = [one for name in clusters for one in self._connectors[name] if self._may_have_own(one)]
        own_names = {one.name for one in own}
        store = self._stores.find_workers(clusters[0])
        plain: Sequence[PlainRecord] = ()
        if isinstance(store, TopicStore):
            plain, reading = store.read_plain(
                lambda name: self._only.matches(scope.find_owner(name)), besides=own_names
            )
        else:
            reading = store.read()
        names: dict[bytes, str] = {}
        rows: dict[str, _OwnerRows] = {}
        for one in plain:
            name = names.get(one.connector)
            if name is None:
                name = names[one.connector] = json.loads(one.connector)
                rows[name] = self._open(name, reading.store, scope)
            rows[name].plain.append(one)
        self._add_stored(reading, scope, rows=rows, besides=own_names)
        self._add_own(own, reading)

    def _may_have_own(self, connector: Connector) -> bool:
        """Return whether a source may have a store of its own; only these are worth building stores for."""
        override = connector.config.get("producer.override.bootstrap.servers")
        may_have = bool(connector.config.get(OWN_OFFSETS_TOPIC) or override)
        return may_have and _is_source(connector) and self._only.matches(connector.owner)

    def _open(self, name: str, store: str, scope: _Scope) -> _OwnerRows:
        rows = _OwnerRows(store, (ORPHANED,) if scope.is_orphan(name) else ())
        self.owners.setdefault(scope.find_owner(name), []).append(rows)
        return rows

    def _add_stored(
        self, reading: StoreReading, scope: _Scope, *, rows: dict[str, _OwnerRows], besides: Collection[str] = ()
    ) -> None:
        """Add what was decoded, each with its findings, and the findings that no offset has."""
        findings = _group_findings(reading.findings)
        for stored in (*reading.offsets, *reading.forgotten):
            name = stored.key.connector
            owner = scope.find_owner(name)
            words = findings.get((name, stored.key.identity), ())
            is_deleted = stored.evidence.is_tombstone and not words
            if is_deleted or name in besides or not self._only.matches(owner):
                continue
            if name not in rows:
                rows[name] = self._open(name, reading.store, scope)
            rows[name].others.append(_build_row(owner, stored, reading.store, (*rows[name].findings, *words)))
        for found in reading.findings:
            if found.partition is None and found.connector not in besides:
                self._add_alone(found, reading.store, scope)

    def _add_alone(self, found: OffsetFinding, store: str, scope: _Scope) -> None:
        """Add a finding that belongs to no offset: a key that can't be read, or an open transaction."""
        if not found.evidence:
            self.notes.append(found)
            return
        owner = scope.find_owner(found.connector) if found.connector else scope.cluster
        if self._only.matches(owner):
            stamp = found.evidence[0].timestamp_ms
            row = ListedOffset(owner, store, found.evidence[0].place, stamp, (found.anomaly.value,))
            self.owners.setdefault(owner, []).append(_OwnerRows(store, others=[row]))

    def _add_own(self, connectors: Sequence[Connector], workers: StoreReading) -> None:
        """Add the sources with a topic of their own; those that share it are read together."""
        shared: dict[tuple[tuple[str, str], ...], list[Connector]] = {}
        for one in connectors:
            where = sorted(item for item in one.config.items() if item[0].startswith(_PLACE))
            shared.setdefault((("cluster", one.cluster), *where), []).append(one)
        for found in shared.values():
            try:
                stores = self._stores.find(found[0])
                reading = stores.read_first(*(one.name for one in found))[0] if stores.second else workers
            except SeamarkError as error:
                self.failures |= dict.fromkeys((one.owner for one in found), error)
                continue
            for one in found:
                mine, copy = _select(reading, one.name), _select(workers, one.name)
                if stores.second:
                    mine = replace(mine, findings=(*mine.findings, *compare_copy(mine, copy)))
                self._add_stored(mine, _Scope(one.cluster, {one.name: one.cluster}), rows={})

    # --- groups

    def add_groups(self) -> None:
        """Add sinks and all other groups, whose offsets are read in bulk."""
        sinks = self._find_sinks()
        kafka = self._stores.brokers
        listings = kafka.read_consumer_groups()
        self.failures |= listings.failures
        self.groups |= {build_group_owner(found.name) for found in listings.items}
        wanted = {
            found.name: owners
            for found in listings.items
            if found.has_offsets and not is_mirror(found.name)
            if (owners := self._choose_owners(build_group_owner(found.name), sinks.get(found.name, ())))
        }
        self._add_committed(kafka.read_committed(dict.fromkeys(wanted), with_metadata=False), wanted)

    def _find_sinks(self) -> dict[str, list[str]]:
        """Return the sinks of each group of the context's Kafka cluster; those of others are read one by one."""
        sinks: dict[str, list[str]] = {}
        for one in (one for found in self._connectors.values() for one in found):
            if one.type is ConnectorType.SINK:
                group = find_group(one.name, one.config, self._clusters.settings(one.cluster))
                if not reads_elsewhere(one):
                    sinks.setdefault(group, []).append(one.owner)
                elif self._only.matches(one.owner):
                    self._add_far_sink(one, group)
        return sinks

    def _choose_owners(self, group: str, sinks: Sequence[str]) -> tuple[str, ...]:
        """Return the owners under which a group is listed: its sinks, or itself if it has none or was chosen."""
        chosen = tuple(owner for owner in sinks if self._only.matches(owner))
        return chosen or ((group,) if (not sinks or self._only.texts) and self._only.matches(group) else ())

    def _add_far_sink(self, connector: Connector, group: str) -> None:
        """Add a sink that consumes from another Kafka cluster, which its config names."""
        try:
            reading = self._stores.find_brokers(connector).read_committed({group: None})
        except SeamarkError as error:
            self.failures[connector.owner] = error
            return
        self._add_committed(reading, {group: (connector.owner,)})

    def add_pipelines(self, read_pipelines: Callable[[], Collection[str]]) -> None:
        """Add the registered pipelines, whose offsets are in their ledgers."""
        owners = [build_pipeline_owner(name) for name in read_pipelines()]
        self.groups |= set(owners)
        wanted = {owner: (owner,) for owner in owners if self._only.matches(owner)}
        if wanted:
            self._add_committed(self._stores.brokers.read_committed(dict.fromkeys(wanted), with_metadata=False), wanted)

    def _add_committed(self, reading: Reading[GroupOffsets], owners: Mapping[str, Sequence[str]]) -> None:
        # A group that was deleted in the meantime has no offsets.
        self.failures |= {name: e for name, e in reading.failures.items() if not isinstance(e, NotFoundError)}
        for found in reading.items:
            store = f"ledger {found.group}" if is_pipeline(found.group) else f"group {found.group}"
            for owner in owners[found.group]:
                self.owners.setdefault(owner, []).append(_OwnerRows(store, committed=found.offsets))


def _is_source(connector: Connector) -> bool:
    return connector.type is not ConnectorType.SINK


# The keys of a source's config that choose where its own offsets are.
_PLACE = (OWN_OFFSETS_TOPIC, "producer.override.", "consumer.override.isolation.level")


# Only applied to plain JSON, which begins and ends without blanks; `json.loads` takes twice as long.
_scan = json.JSONDecoder().raw_decode
_get_partition = attrgetter("partition")


def _decode(text: str) -> OffsetMap | None:
    found: OffsetMap | None = _scan(text)[0]
    return found


def _group_findings(findings: Iterable[OffsetFinding]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the names of findings by connector and partition, each once."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for one in findings:
        if one.partition is not None:
            found.setdefault((one.connector, spell_identity(one.partition)), {})[one.anomaly.value] = None
    return {key: tuple(names) for key, names in found.items()}


def _build_row(owner: str, stored: StoredOffset, store: str, findings: tuple[str, ...]) -> ListedOffset:
    evidence = stored.evidence
    place = evidence.place if evidence.partition is not None else ""
    return ListedOffset(
        owner, store, place, evidence.timestamp_ms, findings, decoded=(stored.key.partition, stored.offset)
    )


def _select(reading: StoreReading, name: str) -> StoreReading:
    return StoreReading(
        reading.store,
        tuple(one for one in reading.offsets if one.key.connector == name),
        tuple(one for one in reading.forgotten if one.key.connector == name),
        tuple(one for one in reading.findings if one.connector == name),
    )
