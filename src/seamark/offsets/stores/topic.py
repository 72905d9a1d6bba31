"""Turn records into offsets by partition, with every key encoding and copy; check which records may be written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from seamark.core.offsets import OffsetKey
from seamark.errors import RefusedError
from seamark.kafka.model import HeldRecord, RawRecord, ScanResult
from seamark.kafka.partitioner import build_partitioner
from seamark.kafka.topic_scan import Accept
from seamark.offsets.codec.codec import (
    FIELD,
    decode_key,
    decode_value,
    has_duplicates,
    is_plain_value,
    match_ordered_key,
    match_plain_key,
)
from seamark.offsets.codec.spelling import DEFAULT_JAVA, SHORTEST_SINCE, spell_key, spell_text
from seamark.offsets.codec.verdicts import DecodedKey, KeyVerdict, ValueVerdict
from seamark.offsets.model import OffsetAnomaly, OffsetFinding, StoredOffset, StoredRecord, StoreReading

if TYPE_CHECKING:
    from seamark.context import Context

# The correct partition of the topic for a key; None if there is none, or if it is unknown.
Home = Callable[[bytes], int | None]


def build_home(partitions: int | None) -> Home:
    """Return the function that computes Java's default partition of a key; always None without partitions."""
    if partitions is None:
        return lambda _: None
    return build_partitioner(partitions)


def build_evidence(record: RawRecord, key: DecodedKey, *, store: str) -> StoredRecord:
    """Build the interpretation of one record."""
    value = decode_value(record.value)
    oddities = (*key.oddities, *value.oddities) if key.oddities or value.oddities else ()
    return StoredRecord(
        store,
        record.key,
        record.value,
        record.partition if record.partition >= 0 else None,
        record.offset if record.offset >= 0 else None,
        record.timestamp_ms if record.timestamp_ms >= 0 else None,
        value.offset,
        key.verdict,
        value.verdict,
        oddities,
    )


def build_reading(
    records: Iterable[RawRecord], *, store: str, home: Home, owners: Collection[str] | None = None, scanned: int = 0
) -> StoreReading:
    """Build a reading of all these records, for these connectors or for all.

    Each record is the newest with its key bytes on its partition.
    """
    wanted = None if owners is None else frozenset(owners)
    groups: dict[tuple[str, str], list[StoredRecord]] = {}
    keys: dict[tuple[str, str], OffsetKey] = {}
    findings: list[OffsetFinding] = []
    for record in records:
        decoded = decode_key(record.key)
        if wanted is not None and decoded.connector is not None and decoded.connector not in wanted:
            continue
        evidence = build_evidence(record, decoded, store=store)
        if decoded.key is None:
            findings.append(_build_bad_key(decoded, evidence))
            continue
        name = (decoded.key.connector, decoded.key.identity)
        if name in groups:
            groups[name].append(evidence)
        else:
            groups[name], keys[name] = [evidence], decoded.key
    offsets: list[StoredOffset] = []
    forgotten: list[StoredOffset] = []
    for name in sorted(groups):
        stored, found = resolve(keys[name], groups[name], home=home)
        findings += found
        (forgotten if stored.evidence.is_tombstone else offsets).append(stored)
    return StoreReading(store, tuple(offsets), tuple(forgotten), tuple(findings), scanned)


def resolve(key: OffsetKey, group: list[StoredRecord], *, home: Home) -> tuple[StoredOffset, list[OffsetFinding]]:
    """Return what is stored for one partition, and its anomalies."""
    if len(group) == 1:
        taken = group[0]
        stored = StoredOffset(key, taken.offset, taken)
    else:
        stored = _choose(key, group, home=home)
    return stored, list(_find_oddities(key, group, home=home))


def is_task_spelling(raw: bytes | None, key: OffsetKey) -> bool:
    """Return whether Connect itself writes these bytes for some order of the fields: if not, no task looks them up.

    `key` is the decoded key, with the fields in their order.
    """
    if raw is None:
        return False
    # Plain JSON is in the format of Connect, unless a field occurs twice: then the map has fewer fields.
    found = match_plain_key(raw)
    if found is not None and not has_duplicates(found[2]):
        return True
    javas = (DEFAULT_JAVA, SHORTEST_SINCE)
    return any(raw == spell_key(key.connector, key.partition, java=java) for java in javas)


def is_task_key(raw: bytes | None) -> bool:
    """Return whether some task may look up these bytes."""
    key = decode_key(raw).key
    return key is not None and is_task_spelling(raw, key)


def _find_spelled(group: list[StoredRecord]) -> set[bytes | None]:
    """Return the keys among these that Connect may have written."""
    keys = {found.key: decode_key(found.key).key for found in group}
    return {raw for raw, key in keys.items() if key is not None and is_task_spelling(raw, key)}


def _choose(key: OffsetKey, group: list[StoredRecord], *, home: Home) -> StoredOffset:
    """Return the record that a task finds, if that is known; otherwise the one that was written last."""
    known = _find_spelled(group)
    candidates = [found for found in group if found.key in known] or group
    by_key: dict[bytes | None, list[StoredRecord]] = {}
    for found in candidates:
        by_key.setdefault(found.key, []).append(found)
    # Among copies of the same bytes, workers write the one on the correct partition; what a restart finds is open.
    heads = [_choose_copy(copies, home) for copies in by_key.values()]
    taken = max(heads, key=_age)
    if taken.is_tombstone and (live := [head for head in heads if not head.is_tombstone]):
        taken = max(live, key=_age)
    is_certain = bool(known) and all(found.value == taken.value for found in candidates)
    others = tuple(found for found in group if found is not taken)
    return StoredOffset(key, taken.offset, taken, others=others, is_certain=is_certain)


def _choose_copy(copies: list[StoredRecord], home: Home) -> StoredRecord:
    if len(copies) == 1:
        return copies[0]
    at_home = [found for found in copies if found.key is not None and found.partition == home(found.key)]
    return at_home[0] if at_home else max(copies, key=_age)


def _age(found: StoredRecord) -> tuple[int, int]:
    return (found.timestamp_ms or -1, found.record_offset or -1)


def _find_oddities(key: OffsetKey, group: list[StoredRecord], *, home: Home) -> Iterable[OffsetFinding]:
    if len(group) > 1:
        known = _find_spelled(group)
        yield from _compare(key, group, known)
    else:
        known = {group[0].key} if is_task_spelling(group[0].key, key) else set()
    for found in group:
        if found.key is not None and found.partition is not None:
            belongs = home(found.key)
            if belongs is not None and belongs != found.partition:
                yield _build(
                    OffsetAnomaly.MISPLACED,
                    key,
                    f"is on partition {found.partition} instead of {belongs}, where workers write: after a restart "
                    "it is "
                    "undefined which record they use",
                    found,
                )
        if found.value_verdict not in (ValueVerdict.GOOD, ValueVerdict.TOMBSTONE):
            yield _build(
                OffsetAnomaly.BAD_VALUE, key, f"its value is {found.value_verdict}: a task gets no offset", found
            )
        if found.oddities:
            words = ", ".join(found.oddities)
            yield _build(OffsetAnomaly.MALFORMED, key, f"a worker reads it differently than written: {words}", found)
        if found.key not in known:
            yield _build(
                OffsetAnomaly.UNREADABLE_KEY, key, "no task uses this key encoding: the record is never read", found
            )


def _compare(key: OffsetKey, group: list[StoredRecord], known: set[bytes | None]) -> Iterable[OffsetFinding]:
    variants = {found.key for found in group}
    if len(variants) > 1:
        if len(known) == 1:
            which = "Connect writes only one of them, and the task uses that one"
        elif known:
            which = f"a task may use {len(known)} of them; which one depends on its plugin"
        else:
            which = "Connect writes none of them: no task finds any"
        asked = sorted(raw for raw in variants if raw is not None and decode_key(raw).is_rest_spelling)
        rest = f"; REST looks for {asked[0].decode(errors='backslashreplace')}" if asked else ""
        text = f"has {len(variants)} key encodings: {which}{rest}"
        yield _build(OffsetAnomaly.DUPLICATE_ENCODING, key, text, *group)
    dead = [found for found in group if found.is_tombstone]
    live = [found for found in group if not found.is_tombstone]
    for tombstone in dead if live else ():
        same = [found for found in live if found.key == tombstone.key]
        if same:
            places = " and ".join(map(str, sorted({one.partition for one in same if one.partition is not None})))
            text = f"a tombstone on partition {tombstone.partition} may hide the offset on {places}"
            yield _build(OffsetAnomaly.HIDDEN_BY_TOMBSTONE, key, f"{text} from tasks and from REST", tombstone, *same)
        else:
            yield _build(
                OffsetAnomaly.HIDDEN_BY_TOMBSTONE,
                key,
                "a tombstone with another key encoding hides it from REST",
                tombstone,
                *live,
            )


def _build(anomaly: OffsetAnomaly, key: OffsetKey, message: str, *evidence: StoredRecord) -> OffsetFinding:
    return OffsetFinding(anomaly, key.connector, message, key.partition, evidence)


def _build_bad_key(decoded: DecodedKey, evidence: StoredRecord) -> OffsetFinding:
    detail = f" ({decoded.detail})" if decoded.detail else ""
    loud = "silently ignores it" if decoded.verdict is KeyVerdict.NO_PARTITION else "ignores it"
    if decoded.verdict is KeyVerdict.NESTED:
        loud = "lists it without an offset"
    message = f"its key is {decoded.verdict}{detail}: a worker {loud}"
    return OffsetFinding(OffsetAnomaly.BAD_KEY, decoded.connector or "", message, None, (evidence,))


# A list that begins with a name in plain ASCII: it has only one encoding, so the owner is certain.
_SURE = re.compile(rb'\["([ !#-\[\]-~]*)"')


class KeyFilter:
    """Accepts every key of these connectors, and the few keys whose owner is not obvious from the bytes."""

    __slots__ = ("_usual", "_wanted", "owners")

    def __init__(self, owners: Collection[str]) -> None:
        self.owners = frozenset(owners)
        self._wanted = frozenset(name.encode("utf-8", "surrogatepass") for name in owners)
        self._usual = tuple(f"[{spell_text(name)}".encode() for name in owners)

    def __call__(self, key: bytes) -> bool:
        """Return whether a key may belong to one of the owners."""
        if key.startswith(self._usual):
            return True
        sure = _SURE.match(key)
        return sure is None or sure[1] in self._wanted


class _NameFilter:
    """Accepts every key of the connectors that a function accepts, and keys whose owner is not obvious."""

    def __init__(self, accepts: Callable[[str], bool]) -> None:
        self._accepts = accepts
        self._known: dict[bytes, bool] = {}

    def __call__(self, key: bytes) -> bool:
        sure = _SURE.match(key)
        if sure is None:
            return True
        name = sure[1]
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._accepts(name.decode())
        return known


# The fast path for records that are unambiguous: plain ASCII without escapes, integers that fit, each field once, one
# record per partition, on the correct partition of the topic. All other records take the slow path through
# `build_reading`, with the same meaning.

_identify = json.JSONEncoder(separators=(",", ":")).encode


class PlainPair(NamedTuple):
    """A partition and its offset, as the JSON that Connect wrote. `connector` includes its quotes."""

    connector: bytes
    partition: bytes
    offset: bytes


class PlainRecord(NamedTuple):
    """A record whose key and value Connect wrote: its connector with quotes, and its partition as JSON."""

    connector: bytes
    partition: bytes
    record: RawRecord


def split_plain(records: Iterable[RawRecord], home: Home) -> tuple[list[PlainPair], list[RawRecord]]:
    """Split records into plain pairs and those for the slow path. Plain tombstones are in neither."""
    plain, rest = split_plain_records(records, home)
    return [PlainPair(found.connector, found.partition, found.record.value or b"") for found in plain], rest


def split_plain_records(records: Iterable[RawRecord], home: Home) -> tuple[list[PlainRecord], list[RawRecord]]:
    """Split records into plain ones and those for the slow path. Plain tombstones are in neither."""
    alone: dict[bytes, tuple[RawRecord, bytes, bytes] | None] = {}
    rest: list[RawRecord] = []
    for record in records:
        found = match_ordered_key(record.key)
        if found is not None:
            identity = record.key
        else:
            found = match_plain_key(record.key)
            identity = None if found is None else _find_identity(found)
        if found is None or identity is None:
            rest.append(record)
        elif identity in alone:
            rest.append(record)
            rest += _take(alone, identity)
        else:
            alone[identity] = (record, found[1], found[2])
    # A record in another encoding may be for the same partition.
    for record in list(rest):
        rest += _take(alone, _identify_decoded(record.key))
    pairs = []
    for entry in alone.values():
        if entry is None:
            continue
        record, connector, partition = entry
        if not _is_plain(record, home):
            rest.append(record)
        elif record.value is not None:
            pairs.append(PlainRecord(connector, partition, record))
    return pairs, rest


def _is_plain(record: RawRecord, home: Home) -> bool:
    """Return whether the value is plain or missing, and the record is on the correct partition."""
    value = record.value
    if value is not None and not is_plain_value(value):
        return False
    belongs = home(record.key or b"")
    return belongs is None or belongs == record.partition or record.partition < 0


def _find_identity(found: re.Match[bytes]) -> bytes | None:
    """Return the key with its fields in the order of their names; None if a field occurs twice."""
    partition = found[2]
    if b',"' not in partition:
        return found[0]
    fields = FIELD.findall(partition)
    fields.sort()
    names = {name for name, _ in fields}
    if len(names) != len(fields):
        return None
    return b"[%s,{%s}]" % (found[1], b",".join(b"%s:%s" % field for field in fields))


def _identify_decoded(raw: bytes | None) -> bytes:
    key = decode_key(raw).key
    if key is None:
        return b""
    # The same order as in `_find_identity`: by the names with their quotes.
    fields = sorted(key.partition.items(), key=lambda field: _identify(field[0]))
    return _identify([key.connector, dict(fields)]).encode()


def _take(alone: dict[bytes, tuple[RawRecord, bytes, bytes] | None], identity: bytes) -> list[RawRecord]:
    """Remove a partition from those with one record, leaving a marker for further records of it."""
    entry = alone.get(identity)
    if entry is None:
        return []
    alone[identity] = None
    return [entry[0]]


class Scan(Protocol):
    """The interface to the brokers. `seamark.kafka.topic_scan.TopicScan` is the real implementation."""

    @property
    def topic(self) -> str: ...
    def read_newest(self, accept: Accept | None = None) -> ScanResult: ...
    def read_all(self, accept: Accept | None = None) -> Iterator[RawRecord]: ...


class TopicStore:
    """One offsets topic.

    The scan decides whether only committed records are read, as by a worker with exactly-once and by one that reads a
    connector's own topic. `knows_partitioner` is false if the producers have a custom partitioner.
    """

    def __init__(self, scan: Scan, *, knows_partitioner: bool = True) -> None:
        self._scan = scan
        self._knows_partitioner = knows_partitioner

    @property
    def name(self) -> str:
        """Return `topic NAME`."""
        return f"topic {self._scan.topic}"

    def read(self, owners: Collection[str] | None = None) -> StoreReading:
        """Read the newest record of every key. Memory grows with the requested keys, not with the records."""
        result = self._scan.read_newest(None if owners is None else KeyFilter(owners))
        return self._build_reading(result, result.records, owners)

    def _build_reading(
        self, result: ScanResult, records: Iterable[RawRecord], owners: Collection[str] | None
    ) -> StoreReading:
        known = result.partitions if self._knows_partitioner else None
        reading = build_reading(records, store=self.name, home=build_home(known), owners=owners, scanned=result.scanned)
        held = tuple(self._build_held_back(number, *where) for number, where in result.held_back.items())
        return replace(reading, findings=(*reading.findings, *held), partitions=known)

    def read_pairs(self, owners: Collection[str] | None = None) -> tuple[list[PlainPair], StoreReading]:
        """Read the same for callers that need only JSON: plain pairs as written, and a reading of the rest."""
        result = self._scan.read_newest(None if owners is None else KeyFilter(owners))
        home = build_home(result.partitions if self._knows_partitioner else None)
        pairs, rest = split_plain(result.records, home)
        return pairs, self._build_reading(result, rest, owners)

    def read_plain(
        self, accepts: Callable[[str], bool], *, besides: Collection[str] = ()
    ) -> tuple[list[PlainRecord], StoreReading]:
        """Read the same for connectors that `accepts` takes: plain records as written, and a reading of the rest.

        The records of the connectors in `besides` are in the reading, whatever they look like.
        """
        result = self._scan.read_newest(_NameFilter(accepts))
        home = build_home(result.partitions if self._knows_partitioner else None)
        is_besides = KeyFilter(besides)
        decoded = [found for found in result.records if besides and found.key is not None and is_besides(found.key)]
        rest = set(decoded)
        plain, others = split_plain_records((one for one in result.records if one not in rest), home)
        return plain, self._build_reading(result, (*others, *decoded), None)

    def read_history(self, owners: Collection[str] | None = None) -> Iterator[tuple[DecodedKey, StoredRecord]]:
        """Read every record that compaction has kept, in the order of each partition, including overwritten ones."""
        wanted = None if owners is None else frozenset(owners)
        decoded: dict[bytes | None, DecodedKey] = {}
        for record in self._scan.read_all(None if owners is None else KeyFilter(owners)):
            key = decoded.get(record.key)
            if key is None:
                key = decoded[record.key] = decode_key(record.key)
            if wanted is None or key.connector in wanted:
                yield key, build_evidence(record, key, store=self.name)

    def _build_held_back(self, partition: int, reached: int, end: int) -> OffsetFinding:
        message = (
            f"{self._scan.topic}-{partition}: an open transaction hides offsets {reached} to {end - 1}; "
            "tasks and REST wait for its end, too"
        )
        return OffsetFinding(OffsetAnomaly.OPEN_TRANSACTION, "", message)


def check_own_records(
    records: Iterable[HeldRecord], *, connectors: Collection[str], topics: Collection[str | None]
) -> None:
    """Raise for records that are not offsets of these connectors in one of their own topics.

    A plan file or a journal entry may come from anywhere: with records of another topic, it could write connector
    configs or journal entries.

    Raises:
        RefusedError: A record has another topic, or its key is not that of one of the connectors.
    """
    allowed = {topic for topic in topics if topic}
    for record in records:
        if record.topic not in allowed:
            raise _build_foreign_record(
                f"topic {record.topic}", f"offsets of {_list_names(connectors)} are in {_list_names(allowed)}"
            )
        found = decode_key(record.key)
        if found.key is None or found.key.connector not in connectors:
            key = record.key[:200].decode(errors="backslashreplace")
            raise _build_foreign_record(
                f"{record.topic}-{record.partition} {key}", f"the key isn't one of {_list_names(connectors)}"
            )


def _list_names(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "no topic"


def _build_foreign_record(what: str, cause: str) -> RefusedError:
    return RefusedError(
        f"refusing to write a record that isn't an offset of the connector: {what}; no changes were made",
        cause=cause,
        hint="create a new plan and review it",
    )


# Internal topics of the brokers.
_KAFKA = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})


def check_record_topic(name: str, context: Context, *, is_for_offsets: bool = False) -> None:
    """Raise for a topic in which Kafka, Connect or seamark stores its state: a record there acts as a command.

    The name may come from a plan file or from the config of a connector. Offsets topics are rejected unless the records
    are offsets.

    Raises:
        RefusedError: The topic must not be written to.
    """
    whose = "Kafka" if name in _KAFKA else ""
    if name in (context.journal.topic, context.journal.heads_topic):
        whose = "seamark's journal"
    for settings in context.connect.values():
        offsets = () if is_for_offsets else (settings.offsets_topic,)
        if name in (settings.config_topic, settings.status_topic, *offsets):
            whose = f"Connect cluster {settings.name}"
    if whose:
        raise RefusedError(
            f"refusing to write records to topic {name}, which is used by {whose}; no changes were made",
            hint="use another topic",
            context={"topic": name},
        )
