"""Collect observations of past offsets: from the offsets topics, the journal, exports, and the current offsets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.changes.action import LockNames
from seamark.changes.journal import Entry, EntryKind
from seamark.changes.locks import base_name, group_lock
from seamark.changes.outcome import Outcome
from seamark.changes.plan import Plan
from seamark.changes.step import STEPS, Intent, Step, build_step
from seamark.connect.config import OWN_OFFSETS_TOPIC, find_group
from seamark.connect.model import Connector
from seamark.core.offsets import Offset, OffsetMap, spell_identity, spell_offset
from seamark.core.refs import ConnectorType, build_group_owner, read_group_name
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UsageError
from seamark.offsets.codec.codec import decode_key, decode_value
from seamark.offsets.exports import HistoryEntry, Observation, OwnerExport, PastOffset, find_past_offset
from seamark.offsets.read.export import OffsetReader
from seamark.offsets.read.export_file import is_envelope, read_export, read_json_file
from seamark.offsets.read.history import build_history
from seamark.offsets.stores.topic import TopicStore

if TYPE_CHECKING:
    from seamark.changes.journal import JournalPort
    from seamark.connect.clusters import Clusters
    from seamark.offsets.stores.stores import OffsetStores, Store


def read_change_observations(journal: JournalPort, locks: Collection[str]) -> dict[str, list[Observation]]:
    """Read, by subject, the offsets that changes with one of these locks found and wrote, in the order of time."""
    names = {base_name(lock) for lock in locks}
    found: dict[str, list[Observation]] = {}
    for head in journal.heads():
        if names.isdisjoint(base_name(lock) for lock in head.locks):
            continue
        for subject, observation in build_observations(journal.read(head.change)):
            found.setdefault(subject, []).append(observation)
    return {subject: sorted(seen, key=lambda one: one.at_ms) for subject, seen in found.items()}


def build_observations(entries: Sequence[Entry]) -> Iterator[tuple[str, Observation]]:
    """Build observations from the entries of one change: by subject, before each write and after it was done."""
    plan = Plan.from_dict(entries[0].body["plan"])
    intents: dict[int, Mapping[str, Any]] = {}
    for entry in entries:
        number = entry.body.get("step")
        if not isinstance(number, int) or not STEPS[plan.steps[number].kind].shows_positions:
            continue
        step = build_step(plan.steps[number])
        if entry.kind is EntryKind.INTENT:
            # A repeated intent records once more what the first one found, not what is stored by then.
            is_repeated = number in intents and intents[number]["before"] == entry.body["before"]
            intents[number] = entry.body
            if not is_repeated:
                yield from _see(step, entry.body["before"], entry, word="before")
        elif entry.kind is EntryKind.OUTCOME and entry.body.get("outcome") == Outcome.DONE and number in intents:
            yield from _see(step, step.build_left(Intent.from_dict(intents[number])), entry, word="after")
        elif entry.kind is EntryKind.OUTCOME and "image" in entry.body:
            yield from _see(step, entry.body["image"], entry, word="in")


def _see(step: Step, image: Any, entry: Entry, *, word: str) -> Iterator[tuple[str, Observation]]:
    at_ms = int(datetime.fromisoformat(entry.at).timestamp() * 1000)
    for one in step.read_positions(image):
        yield step.subject, Observation(one.partition, one.offset, at_ms, at_ms, f"{word} change {entry.change}")


# The time of an export is rounded to the second, and its offsets were read before that time.
_SECOND_MS = 1000


@dataclass(frozen=True, slots=True)
class PastExport:
    """One export as a source of observations. `topics` are the IDs that the topics of its sinks and groups had."""

    name: str
    at_ms: int
    owners: Mapping[str, OwnerExport]
    topics: Mapping[str, str]

    def build_observations(self, owner: str, partitions: Sequence[OffsetMap]) -> Iterator[Observation]:
        """Build the observations of an owner, including that one of these partitions had no offset."""
        found = self.owners.get(owner)
        if found is None:
            return
        written = _find_writes(found)
        where = f"export {self.name}"
        held = {spell_identity(one.partition): one for one in found.offsets}
        for identity, one in held.items():
            at_ms = written.get((identity, spell_offset(one.offset)))
            if at_ms is None:
                yield Observation(one.partition, one.offset, self.at_ms, self.at_ms, where, may_be_older=True)
            else:
                yield Observation(one.partition, one.offset, at_ms, at_ms, where)
        spoken = {identity for identity, _ in written} | held.keys()
        for partition in partitions:
            if spell_identity(partition) not in spoken:
                yield Observation(partition, None, self.at_ms, self.at_ms, where, may_be_older=True)


def read_exports(paths: Sequence[Path], *, context: str) -> tuple[tuple[PastExport, ...], tuple[str, ...]]:
    """Read the exports in these files and folders, oldest first, with notes on files that were skipped in folders.

    Raises:
        UsageError: A named file is not an export, or belongs to another context.
        RefusedError: An export was modified.
    """
    found, notes = [], []
    for path in paths:
        whole = path.expanduser()
        for file in sorted(whole.glob("*.json")) if whole.is_dir() else [whole]:
            misfit = _find_misfit(file, context)
            if not misfit:
                found.append(_read_one(file))
            elif whole.is_dir():
                notes.append(f"{file.name} was ignored: {misfit}")
            else:
                raise UsageError(
                    f"{path} is not usable with --exports",
                    cause=misfit,
                    hint="create exports with seamark offsets export",
                )
    return tuple(sorted(found, key=lambda one: one.at_ms)), tuple(notes)


def _find_misfit(file: Path, context: str) -> str:
    body = read_json_file(file)
    if not is_envelope(body):
        return "it is not an export of seamark, and has no time"
    source = body.get("source")
    said = source.get("context") if isinstance(source, dict) else None
    return "" if said == context else f"it was created in context {said}, not in {context}"


def _read_one(file: Path) -> PastExport:
    export, problems = read_export(file)
    if problems:
        raise RefusedError(
            f"{file} was changed after it was exported",
            cause="; ".join(problems),
            hint="use another copy of the export",
        )
    try:
        moment = datetime.fromisoformat(export.time)
    except ValueError:
        raise UsageError(f"{file} has an invalid time", cause=f"time is {export.time!r}") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    at_ms = int(moment.timestamp() * 1000) + _SECOND_MS
    return PastExport(file.name, at_ms, {one.owner: one for one in export.owners}, export.topics)


def _find_writes(owner: OwnerExport) -> dict[tuple[str, str | None], int]:
    """Return when each offset was written, if its record has a time: by partition and offset."""
    written: dict[tuple[str, str | None], int] = {}
    for record in owner.records:
        key = decode_key(record.key).key if record.key is not None else None
        if key is not None and record.timestamp_ms is not None:
            name = key.identity, spell_offset(decode_value(record.value).offset)
            written[name] = max(record.timestamp_ms, written.get(name, 0))
    return written


def find_topic_ids(exports: Sequence[PastExport], moment_ms: int) -> dict[str, tuple[str, str]]:
    """Return by topic the ID in the newest export at that time or before, and the name of that export."""
    found: dict[str, tuple[str, str]] = {}
    for one in exports:
        if one.at_ms <= moment_ms:
            found |= {topic: (topic_id, one.name) for topic, topic_id in one.topics.items()}
    return found


_OWN_PLACE = (OWN_OFFSETS_TOPIC, "producer.override.bootstrap.servers")
_NOTHING = frozenset({"tombstone", "null"})


@dataclass(frozen=True, slots=True)
class OwnerRef:
    """An owner of offsets; a consumer group has no connector."""

    owner: str
    connector: Connector | None = None

    @property
    def is_reader(self) -> bool:
        """Return whether its offsets are of topics: a sink or a group."""
        return self.connector is None or self.connector.type is ConnectorType.SINK


@dataclass(slots=True)
class Observations:
    """What is known about one owner: its current offsets, and the observations of each partition."""

    held: tuple[Offset, ...] = ()
    observations: dict[str, list[Observation]] = field(default_factory=dict)

    def add(self, observation: Observation) -> None:
        """Add an observation."""
        self.observations.setdefault(spell_identity(observation.partition), []).append(observation)

    def find(self, moment_ms: int) -> tuple[tuple[PastOffset, ...], tuple[OffsetMap, ...]]:
        """Return each partition's offset at that time, and the stored partitions without an observation."""
        held = {spell_identity(one.partition): one.partition for one in self.held}
        found = {name: find_past_offset(seen, moment_ms) for name, seen in self.observations.items()}
        past_offsets = tuple(one for one in found.values() if one is not None)
        return past_offsets, tuple(partition for name, partition in held.items() if found.get(name) is None)


class ObservationSources:
    """Collects observations from stores, journal and exports, reading each once for all owners."""

    def __init__(
        self,
        *,
        clusters: Clusters,
        stores: OffsetStores,
        journal: Callable[[], JournalPort],
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
        """Sources that could not be read."""

    def collect(self, asked: Sequence[OwnerRef]) -> dict[str, Observations]:
        """Collect the observations of each owner.

        Raises:
            SeamarkError: The current offsets of an owner can't be read.
        """
        found = self._read_held(asked)
        self._collect_topics([one.connector for one in asked if one.connector is not None and not one.is_reader], found)
        self._collect_journal(asked, found)
        for one in asked:
            observations = found[one.owner]
            for export in self._exports:
                for observation in export.build_observations(one.owner, [held.partition for held in observations.held]):
                    observations.add(observation)
        return found

    def _read_held(self, asked: Sequence[OwnerRef]) -> dict[str, Observations]:
        groups = [read_group_name(one.owner) for one in asked if one.connector is None]
        harvest = OffsetReader(self._clusters, self._stores).read_some(
            [one.connector for one in asked if one.connector is not None], groups
        )
        for error in harvest.failures.values():
            raise error
        found: dict[str, Observations] = {}
        for one in asked:
            export = harvest.owners.get(one.owner)
            held = tuple(offset for offset in export.offsets if offset.offset is not None) if export else ()
            found[one.owner] = Observations(held)
            if one.is_reader:
                # For a source, its topic already shows the current offset and since when it is stored.
                for offset in held:
                    now = self._now_ms
                    found[one.owner].add(Observation(offset.partition, offset.offset, now, now, "current offset"))
        return found

    def _collect_topics(self, sources: Sequence[Connector], found: dict[str, Observations]) -> None:
        """Collect the history of every source, with one reading for all that share a topic."""
        by_place: dict[tuple[str, str], list[Connector]] = {}
        for one in sources:
            # A connector with its own topic, or in another Kafka cluster, is read separately.
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
                for observation in build_topic_observations(entries, now_ms=self._now_ms):
                    found[owners[name]].add(observation)

    def _read_history(self, store: TopicStore, names: Sequence[str]) -> tuple[HistoryEntry, ...]:
        try:
            return build_history(store.read_history(names))
        except NotFoundError as missing:
            # The worker creates a connector's own topic when it first needs it.
            self.notes.append(f"{store.name} does not exist yet: {missing.message}")
            return ()

    def _collect_journal(self, asked: Sequence[OwnerRef], found: dict[str, Observations]) -> None:
        subjects = {subject: one.owner for one in asked for subject in self._find_subjects(one)}
        locks = {lock for one in asked for lock in self._find_locks(one)}
        try:
            seen = read_change_observations(self._journal(), locks)
        except SeamarkError as error:
            self.notes.append(f"the journal was not read: {error.message}")
            return
        for subject, observations in seen.items():
            if subject in subjects:
                for observation in observations:
                    found[subjects[subject]].add(observation)

    def _find_subjects(self, asked: OwnerRef) -> tuple[str, ...]:
        """Return the names under which changes may have moved an owner."""
        connector = asked.connector
        if connector is None:
            return (asked.owner,)
        if connector.type is not ConnectorType.SINK:
            return (f"connector/{asked.owner}",)
        group = find_group(connector.name, connector.config, self._clusters.settings(connector.cluster))
        return f"connector/{asked.owner}", build_group_owner(group)

    def _find_locks(self, asked: OwnerRef) -> frozenset[str]:
        connector = asked.connector
        if connector is None:
            return frozenset({group_lock(read_group_name(asked.owner))})
        return self._locks.find_connector(connector.cluster, connector.name, [connector.config], kind=connector.type)


def build_topic_observations(entries: Sequence[HistoryEntry], *, now_ms: int) -> list[Observation]:
    """Build observations from the remaining writes of one partition, oldest first: each is valid until the next one.

    Compaction removes the oldest records first, so no write between two remaining ones is missing.
    """
    times = [entry.evidence.timestamp_ms or 0 for entry in entries]
    ends = [max(at, following - 1) for at, following in pairwise(times)]
    ends.append(max(now_ms, times[-1]))
    return [
        Observation(entry.partition or {}, entry.offset, at, until, entry.evidence.place)
        for entry, at, until in zip(entries, times, ends, strict=True)
        # An unreadable value does not mean "no offset".
        if entry.offset is not None or entry.evidence.value_verdict in _NOTHING
    ]
