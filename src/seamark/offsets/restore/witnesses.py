"""Who may have seen where owners stood: the offsets topics, the journal, exports, and what is held now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from seamark.changes.action import LockNames
from seamark.changes.locks import group_lock
from seamark.connect.config import OWN_OFFSETS_TOPIC, find_group
from seamark.connect.connector import Connector
from seamark.core.offset import Offset, OffsetMap, spell_identity
from seamark.core.refs import ConnectorType, build_group_owner, read_group_name
from seamark.errors import NotFoundError, SeamarkError
from seamark.offsets.offset_export import HistoryEntry
from seamark.offsets.past_offsets import Sighting, Standing, find_standing
from seamark.offsets.read.export import OffsetReader
from seamark.offsets.read.history import build_history
from seamark.offsets.restore.changes import read_change_sightings
from seamark.offsets.restore.exports import PastExport
from seamark.offsets.stores.topic_store import TopicStore

if TYPE_CHECKING:
    from seamark.changes.journal import Journal
    from seamark.connect.clusters import Clusters
    from seamark.offsets.stores.store import Store
    from seamark.offsets.stores.stores import OffsetStores

_OWN_PLACE = (OWN_OFFSETS_TOPIC, "producer.override.bootstrap.servers")
_NOTHING = frozenset({"tombstone", "null"})


@dataclass(frozen=True, slots=True)
class Asked:
    """An owner who is asked about; a consumer group has no connector."""

    owner: str
    connector: Connector | None = None

    @property
    def is_reader(self) -> bool:
        """Whether its positions are in topics: a sink or a group."""
        return self.connector is None or self.connector.type is ConnectorType.SINK


@dataclass(slots=True)
class Testimony:
    """Everything that is known of one owner: what it holds now, and what was seen of each partition."""

    held: tuple[Offset, ...] = ()
    sightings: dict[str, list[Sighting]] = field(default_factory=dict)

    def add(self, sighting: Sighting) -> None:
        """Take one more word."""
        self.sightings.setdefault(spell_identity(sighting.partition), []).append(sighting)

    def find(self, moment_ms: int) -> tuple[tuple[Standing, ...], tuple[OffsetMap, ...]]:
        """Where each partition stood, and the partitions that are held now and of which nobody can tell it."""
        held = {spell_identity(one.partition): one.partition for one in self.held}
        found = {name: find_standing(seen, moment_ms) for name, seen in self.sightings.items()}
        standings = tuple(one for one in found.values() if one is not None)
        return standings, tuple(partition for name, partition in held.items() if found.get(name) is None)


class Witnesses:
    """Hears everybody, each store and the journal once for all owners."""

    def __init__(
        self,
        *,
        clusters: Clusters,
        stores: OffsetStores,
        journal: Callable[[], Journal],
        locks: LockNames,
        exports: Sequence[PastExport],
        now_ms: int,
    ) -> None:
        self._clusters = clusters
        self._stores = stores
        self._journal = journal
        self._locks = locks
        self._exports = exports
        self._now_ms = now_ms
        self.notes: list[str] = []
        """What could not be heard. It may have known more."""

    def hear(self, asked: Sequence[Asked]) -> dict[str, Testimony]:
        """What is known of each owner.

        Raises:
            SeamarkError: what one of them holds now can't be read.
        """
        found = self._read_held(asked)
        self._hear_topics([one.connector for one in asked if one.connector is not None and not one.is_reader], found)
        self._hear_journal(asked, found)
        for one in asked:
            testimony = found[one.owner]
            for export in self._exports:
                for sighting in export.build_sightings(one.owner, [held.partition for held in testimony.held]):
                    testimony.add(sighting)
        return found

    def _read_held(self, asked: Sequence[Asked]) -> dict[str, Testimony]:
        groups = [read_group_name(one.owner) for one in asked if one.connector is None]
        harvest = OffsetReader(self._clusters, self._stores).read_some(
            [one.connector for one in asked if one.connector is not None], groups
        )
        for error in harvest.failures.values():
            raise error
        found: dict[str, Testimony] = {}
        for one in asked:
            export = harvest.owners.get(one.owner)
            held = tuple(offset for offset in export.offsets if offset.offset is not None) if export else ()
            found[one.owner] = Testimony(held)
            if one.is_reader:
                # A source's topic says of itself what it holds, and since when.
                for offset in held:
                    now = self._now_ms
                    found[one.owner].add(Sighting(offset.partition, offset.offset, now, now, "where it stands"))
        return found

    def _hear_topics(self, sources: Sequence[Connector], found: dict[str, Testimony]) -> None:
        """The history of every source, one reading for all that share a topic."""
        by_place: dict[tuple[str, str], list[Connector]] = {}
        for one in sources:
            # One with a topic of its own, or one in another Kafka cluster, reads it alone.
            own = one.name if any(one.config.get(key) for key in _OWN_PLACE) else ""
            by_place.setdefault((one.cluster, own), []).append(one)
        for sharing in by_place.values():
            store: Store = self._stores.find(sharing[0]).first
            if not isinstance(store, TopicStore):
                continue
            owners = {one.name: one.owner for one in sharing}
            histories: dict[tuple[str, str], list[HistoryEntry]] = {}
            for entry in self._read_history(store, list(owners)):
                if entry.partition is not None and entry.evidence.timestamp_ms is not None:
                    histories.setdefault((entry.connector, spell_identity(entry.partition)), []).append(entry)
            for (name, _), entries in histories.items():
                for sighting in build_topic_sightings(entries, now_ms=self._now_ms):
                    found[owners[name]].add(sighting)

    def _read_history(self, store: TopicStore, names: Sequence[str]) -> tuple[HistoryEntry, ...]:
        try:
            return build_history(store.read_history(names))
        except NotFoundError as missing:
            # A connector's own topic is made by the worker, when it first needs it.
            self.notes.append(f"{store.name} is not there yet: {missing.message}")
            return ()

    def _hear_journal(self, asked: Sequence[Asked], found: dict[str, Testimony]) -> None:
        subjects = {subject: one.owner for one in asked for subject in self._find_subjects(one)}
        locks = {lock for one in asked for lock in self._find_locks(one)}
        try:
            seen = read_change_sightings(self._journal(), locks)
        except SeamarkError as error:
            self.notes.append(f"the journal was not heard: {error.message}")
            return
        for subject, sightings in seen.items():
            if subject in subjects:
                for sighting in sightings:
                    found[subjects[subject]].add(sighting)

    def _find_subjects(self, asked: Asked) -> tuple[str, ...]:
        """Under which names changes may have moved an owner."""
        connector = asked.connector
        if connector is None:
            return (asked.owner,)
        if connector.type is not ConnectorType.SINK:
            return (f"connector/{asked.owner}",)
        group = find_group(connector.name, connector.config, self._clusters.settings(connector.cluster))
        return f"connector/{asked.owner}", build_group_owner(group)

    def _find_locks(self, asked: Asked) -> frozenset[str]:
        connector = asked.connector
        if connector is None:
            return frozenset({group_lock(read_group_name(asked.owner))})
        return self._locks.find_connector(connector.cluster, connector.name, [connector.config], kind=connector.type)


def build_topic_sightings(entries: Sequence[HistoryEntry], *, now_ms: int) -> list[Sighting]:
    """The writes of one partition that are left, the oldest first: each holds until the next one.

    Compaction takes the oldest first. So whatever came between two that are left would be left too.
    """
    times = [entry.evidence.timestamp_ms or 0 for entry in entries]
    ends = [max(at, following - 1) for at, following in pairwise(times)]
    ends.append(max(now_ms, times[-1]))
    return [
        Sighting(entry.partition or {}, entry.offset, at, until, entry.evidence.place)
        for entry, at, until in zip(entries, times, ends, strict=True)
        # What nobody can read is not the same as nothing.
        if entry.offset is not None or entry.evidence.value_verdict in _NOTHING
    ]
