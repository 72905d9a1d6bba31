"""Actions of `connect-offsets --import`: write pairs to the file of a standalone worker, or to the workers' topic."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NoReturn

from seamark.changes.action import (
    Action,
    ActionHistory,
    Needs,
    Reads,
    StepSequence,
    action_kind,
    in_turn,
    is_met,
    needs_permission,
)
from seamark.changes.codec import Encoded
from seamark.changes.effect import ChangeKind, Effect, FieldChange
from seamark.changes.locks import file_lock
from seamark.changes.step import CanNotUndo, Intent
from seamark.core.offsets import Offset, OffsetMap, spell_identity, spell_offset
from seamark.errors import ConfigurationError, RefusedError
from seamark.kip199.steps import VerifyOffsetFile, WriteOffsetFile, find_file, pack_content, unpack_content
from seamark.offsets.codec.codec import decode_key, decode_value, encode_key, encode_rest_key, encode_value
from seamark.offsets.codec.java_map import read_java_map
from seamark.offsets.codec.verdicts import KeyVerdict, ValueVerdict
from seamark.offsets.model import StoredOffset, StoredRecord, StoreReading
from seamark.offsets.read.export_file import is_envelope
from seamark.offsets.stores.file import build_digest
from seamark.offsets.stores.topic import is_task_key
from seamark.offsets.write.records import CheckUnused, RecordsSeen, WriteOffsetRecords
from seamark.policy.permissions import Permission
from seamark.report.words import render_count

Values = Mapping[bytes, bytes | None]


@action_kind("import-offsets")
@needs_permission(Permission.CHANGE_OFFSETS)
@dataclass(frozen=True, slots=True)
class ImportOffsets(WriteOffsetRecords):
    """Write the offsets of connectors that no worker runs to the workers' topic."""

    def steps(self, seen: RecordsSeen) -> StepSequence:
        """Return the steps: check for some time that no worker uses the offsets, then write them."""
        write = super(ImportOffsets, self).steps(seen)
        proof = CheckUnused(seen.clusters, self.owners, seen.quiet_seconds, self.may_be_down)
        return (*in_turn(proof), *write) if write else ()

    def effects(self, seen: RecordsSeen) -> tuple[Effect, ...]:
        """Return one line for the topic, with one field for each pair."""
        before = {record.key: seen.held.get(record.place) for record in self.records}
        after = {record.key: record.value for record in self.records}
        return (build_import_effect(self.subject, before, after),)


def _unpack(text: str) -> bytes:
    content = unpack_content(text)
    if content is None:
        raise ValueError("empty content")
    return content


@dataclass(frozen=True, slots=True)
class FileSeen:
    """The content of the file, and what the step finds."""

    intent: Intent = field(repr=False)
    content: bytes | None = field(repr=False)


@action_kind("write-offsets-file")
@needs_permission(Permission.CHANGE_OFFSETS)
@dataclass(frozen=True, slots=True)
class WriteOffsetsFile(Action):
    """Write this content to a standalone worker's file, and verify that no worker has read the previous content."""

    cluster: str
    path: str
    content: Annotated[bytes, Encoded(pack_content, _unpack)] = field(repr=False)

    @property
    def subject(self) -> str:
        """The file."""
        return f"file{self.path}"

    @property
    def write(self) -> WriteOffsetFile:
        """The step that writes."""
        return WriteOffsetFile(self.cluster, self.path, self.content)

    def read(self, reads: Reads) -> FileSeen:
        """Read the file."""
        return FileSeen(self.write.intend(reads.world), find_file(reads.world, self.cluster, self.path).read())

    def steps(self, seen: FileSeen) -> StepSequence:
        """Return the steps: write the file, then verify it."""
        if is_met(seen.intent):
            return ()
        return in_turn(self.write, VerifyOffsetFile(self.cluster, self.path, build_digest(self.content) or ""))

    def needs(self, seen: FileSeen) -> Needs:
        """Return the lock of the file on this machine."""
        return Needs(frozenset({file_lock(self.path, host=socket.gethostname())}))

    def effects(self, seen: FileSeen) -> tuple[Effect, ...]:
        """Return one line for the file, with one field for each pair that changes."""
        before = {} if seen.content is None else dict(_read_entries(seen.content, self.path))
        after = dict(_read_entries(self.content, self.path))
        changed = [key for key in {**before, **after} if before.get(key) != after.get(key)]
        return (
            build_import_effect(
                self.subject, {key: before.get(key) for key in changed}, {key: after.get(key) for key in changed}
            ),
        )

    def find_intents(self, seen: FileSeen) -> Mapping[str, Intent]:
        """Return the intent of the write."""
        return {f"{self.subject}#{WriteOffsetFile.aspect}": seen.intent}

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the step that writes the previous content."""
        return past.undo_last(WriteOffsetFile, WriteOffsetFile)


def build_import_effect(subject: str, before: Values, after: Values) -> Effect:
    """Build the line of a plan: which pairs change. Several keys may belong to one pair."""
    fields: dict[str, FieldChange] = {}
    for raw, value in after.items():
        key = decode_key(raw).key
        name = repr(raw) if key is None else f"{key.connector} {spell_identity(key.partition)}"
        old, new = (spell_offset(decode_value(one).offset) for one in (before.get(raw), value))
        fields.setdefault(name, FieldChange(name, old, new))
    return Effect(ChangeKind.CHANGE, subject, f"{render_count(len(fields), 'pair')} written", tuple(fields.values()))


def _read_entries(content: bytes, name: str) -> Iterator[tuple[bytes, bytes | None]]:
    for key, value in read_java_map(content, name=name).entries:
        if key is not None:
            yield key, value


_SHAPE = 'expected {"CONNECTOR": [{"partition": {…}, "offset": {…} or null}, …], …}'
_PAIR = frozenset({"partition", "offset"})
_SINK = frozenset({"kafka_topic", "kafka_partition"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """The wanted offsets by connector, and notes about the file."""

    offsets: Mapping[str, tuple[Offset, ...]]
    notes: tuple[str, ...] = ()


def read_wanted(text: str, *, name: str) -> Wanted:
    """Parse the wanted offsets of a text. If a partition occurs several times, the last one counts."""
    try:
        body = json.loads(text, object_pairs_hook=_build_object, parse_constant=_refuse_constant)
    except RecursionError:
        raise _build_error(name, "it is nested too deeply") from None
    except ValueError as error:
        raise _build_error(name, str(error)) from None
    if is_envelope(body):
        raise ConfigurationError(
            f"{name} is an export of seamark, with records and checksums", hint="use seamark offsets import"
        )
    if not isinstance(body, dict):
        raise _build_error(name, _SHAPE)
    offsets, notes = {}, []
    for connector, listed in body.items():
        if not isinstance(listed, list):
            raise _build_error(name, f"{connector}: {_SHAPE}")
        found: dict[str, Offset] = {}
        for number, pair in enumerate(listed, start=1):
            one = _read_pair(connector, pair, where=f"{name}: pair {number} of {connector}")
            # The last pair must also be written last.
            found.pop(spell_identity(one.partition), None)
            found[spell_identity(one.partition)] = one
        if len(found) < len(listed):
            notes.append(f"{connector}: {len(listed) - len(found)} pairs are overwritten by later ones in {name}")
        if found:
            offsets[connector] = tuple(found.values())
    return Wanted(offsets, tuple(notes))


def _read_pair(connector: str, pair: Any, *, where: str) -> Offset:
    if not isinstance(pair, dict) or pair.keys() != _PAIR:
        # A pair without an offset would delete one, so that must be written explicitly.
        raise _build_error(where, 'a pair has exactly "partition" and "offset"; a null offset deletes the stored one')
    partition, offset = pair["partition"], pair["offset"]
    if not isinstance(partition, dict) or not isinstance(offset, dict | None):
        raise _build_error(where, "a partition must be a map, an offset must be a map or null")
    if partition.keys() >= _SINK:
        raise ConfigurationError(
            f"{where} is an offset of a sink",
            cause="the offsets of sinks are in consumer groups",
            hint="use seamark offsets import",
        )
    nested = [key for fields in (partition, offset or {}) for key, value in fields.items() if _is_nested(value)]
    if nested:
        raise _build_error(where, f"Connect accepts no list or map as the value of {nested[0]!r}")
    key, value = decode_key(encode_key(connector, partition)), decode_value(encode_value(offset))
    if key.verdict is not KeyVerdict.GOOD or value.verdict not in (ValueVerdict.GOOD, ValueVerdict.TOMBSTONE):
        raise _build_error(where, f"a worker can't read it: {key.detail or value.detail or value.verdict}")
    return Offset(partition, offset)


def _is_nested(value: Any) -> bool:
    return isinstance(value, list | dict)


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body = dict(pairs)
    if len(body) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"duplicate key {twice!r} in a map")
    return body


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")


def _build_error(name: str, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"{name} is not a valid offsets file", cause=why, hint="create one with connect-offsets --export"
    )


@dataclass(frozen=True, slots=True)
class PairChange:
    """The change of one partition of a connector by an import. `after` is None if its offset is deleted."""

    connector: str
    partition: OffsetMap
    before: OffsetMap | None
    after: OffsetMap | None

    @property
    def is_needed(self) -> bool:
        """Whether it changes anything."""
        return spell_offset(self.before) != spell_offset(self.after)

    def describe(self) -> str:
        """Return one line: `set orders {"table":"o"}: {"seq":2} -> {"seq":1}`."""
        name = f"{self.connector} {spell_identity(self.partition)}"
        before, after = spell_offset(self.before), spell_offset(self.after)
        if not self.is_needed:
            return f"keep {name}: {after or 'no offset'}"
        if after is None:
            return f"remove {name}: {before}"
        return f"set {name}: {before or 'no offset'} -> {after}"


@dataclass(frozen=True, slots=True)
class Target:
    """A needed change with the keys to write, each with its partition in a topic; None in a file or for a new key.

    If `is_guessed`, the key was never written, and a task may encode it differently.
    """

    pair: PairChange
    keys: tuple[tuple[int | None, bytes], ...]
    is_guessed: bool = False

    @property
    def value(self) -> bytes | None:
        """The bytes that are written; None for no offset."""
        return encode_value(self.pair.after)


def build_targets(
    reading: StoreReading, wanted: Mapping[str, Sequence[Offset]]
) -> tuple[list[PairChange], list[Target]]:
    """Return every pair, and those that change with their keys.

    Raises:
        RefusedError: several records of one partition differ, so that seamark can't determine which one a task uses.
    """
    held = {(one.key.connector, one.key.identity): one for one in (*reading.offsets, *reading.forgotten)}
    pairs, targets, doubts = [], [], []
    for connector, offsets in wanted.items():
        for one in offsets:
            stored = held.get((connector, spell_identity(one.partition)))
            pair = PairChange(connector, one.partition, None if stored is None else stored.offset, one.offset)
            pairs.append(pair)
            doubt = _find_doubt(stored)
            if doubt:
                doubts.append(f"{connector} {spell_identity(one.partition)} {doubt}")
            elif pair.is_needed:
                targets.append(_build_target(pair, stored))
    if doubts:
        raise RefusedError(
            f"can't determine which record of {reading.store} the tasks use; no changes were made",
            cause="; ".join(doubts),
            hint="list the anomalies with connect-offsets --export; repair them with seamark offsets repair",
        )
    return pairs, targets


def build_notes(targets: Sequence[Target]) -> list[str]:
    """Return notes about keys that were never written before."""
    guessed = [one for one in targets if one.is_guessed]
    return [
        f"{one.pair.connector} {spell_identity(one.pair.partition)}: this key does not exist yet; its fields "
        "have the order of your file, and a task that uses another order does not find it"
        for one in guessed
    ]


def _build_target(pair: PairChange, stored: StoredOffset | None) -> Target:
    found = tuple((one.partition, one.key) for one in _find_read(stored) if one.key is not None)
    if found:
        return Target(pair, found)
    key = encode_key(pair.connector, pair.partition)
    return Target(pair, ((None, key),), is_guessed=key != encode_rest_key(pair.connector, pair.partition))


def _find_read(stored: StoredOffset | None) -> Iterator[StoredRecord]:
    """Yield the records that a task may read. Records with a key encoding that no task uses are kept."""
    if stored is not None:
        yield from (one for one in (stored.evidence, *stored.others) if is_task_key(one.key))


def _find_doubt(stored: StoredOffset | None) -> str:
    if stored is None:
        return ""
    if not stored.is_certain:
        return f"is in several different records: {', '.join(one.place for one in (stored.evidence, *stored.others))}"
    if not any(_find_read(stored)):
        return f"is only in {stored.evidence.place}, with a key encoding that no task uses: it is never read"
    return ""
