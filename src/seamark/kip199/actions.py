"""Actions of `connect-offsets --import`: pairs into the file of a standalone worker, or into the workers' topic."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Self

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
from seamark.changes.effect import Effect, FieldChange, Sign
from seamark.changes.locks import file_lock
from seamark.changes.step import CanNotUndo, Intent
from seamark.core.fanout import read_all
from seamark.core.offset import spell_identity, spell_offset
from seamark.kip199.offset_file import VerifyOffsetFile, WriteOffsetFile, find_file, pack_content, unpack_content
from seamark.offsets.codec.codec import decode_key, decode_value
from seamark.offsets.codec.javamap import read_java_map
from seamark.offsets.stores.file_swap import build_digest
from seamark.offsets.write.record_actions import RecordsSeen, WriteOffsetRecords
from seamark.offsets.write.unused import ProveUnused
from seamark.policy.permission import Permission
from seamark.report.words import render_count

Values = Mapping[bytes, bytes | None]


@action_kind("import-offsets")
@needs_permission(Permission.CHANGE_OFFSETS)
@dataclass(frozen=True, slots=True)
class ImportOffsets(WriteOffsetRecords):
    """Write the offsets of connectors that no worker runs to the workers' topic."""

    def steps(self, seen: RecordsSeen) -> StepSequence:
        """Check for a while that no worker uses the offsets, then write them."""
        write = super(ImportOffsets, self).steps(seen)
        proof = ProveUnused(seen.clusters, self.owners, seen.quiet_seconds, self.may_be_down)
        return (*in_turn(proof), *write) if write else ()

    def effects(self, seen: RecordsSeen) -> tuple[Effect, ...]:
        """One line for the topic, one field for each pair."""
        before = {record.key: seen.held.get(record.place) for record in self.records}
        after = {record.key: record.value for record in self.records}
        return (build_import_effect(self.subject, before, after),)


def _unpack(text: str) -> bytes:
    content = unpack_content(text)
    if content is None:
        raise ValueError("no content")
    return content


@dataclass(frozen=True, slots=True)
class FileSeen:
    """What the file holds: its bytes, and what the step finds."""

    intent: Intent = field(repr=False)
    content: bytes | None = field(repr=False)


@action_kind("write-offsets-file")
@needs_permission(Permission.CHANGE_OFFSETS)
@dataclass(frozen=True, slots=True)
class WriteOffsetsFile(Action):
    """Give the file of a standalone worker this content, and verify that no worker has read the previous one."""

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

    @classmethod
    def inspect(cls, actions: Sequence[Self], reads: Reads) -> Sequence[FileSeen]:
        """Read the files."""
        return read_all((action.subject, partial(action.read, reads)) for action in actions)

    def read(self, reads: Reads) -> FileSeen:
        """Read the file."""
        return FileSeen(self.write.intend(reads.world), find_file(reads.world, self.cluster, self.path).read())

    def steps(self, seen: FileSeen) -> StepSequence:
        """Write the file, then verify it."""
        if is_met(seen.intent):
            return ()
        return in_turn(self.write, VerifyOffsetFile(self.cluster, self.path, build_digest(self.content) or ""))

    def needs(self, seen: FileSeen) -> Needs:
        """The lock of the file on this machine."""
        del seen
        return Needs(frozenset({file_lock(self.path, host=socket.gethostname())}))

    def effects(self, seen: FileSeen) -> tuple[Effect, ...]:
        """One line for the file, one field for each pair that changes."""
        before = {} if seen.content is None else dict(_read_entries(seen.content, self.path))
        after = dict(_read_entries(self.content, self.path))
        changed = [key for key in {**before, **after} if before.get(key) != after.get(key)]
        return (
            build_import_effect(
                self.subject, {key: before.get(key) for key in changed}, {key: after.get(key) for key in changed}
            ),
        )

    def find_intents(self, seen: FileSeen) -> Mapping[str, Intent]:
        """Return what the write found."""
        return {f"{self.subject}#{WriteOffsetFile.aspect}": seen.intent}

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the step that writes the previous content."""
        return past.undo_last(WriteOffsetFile, WriteOffsetFile)


def build_import_effect(subject: str, before: Values, after: Values) -> Effect:
    """Return the line of a plan: which pairs change. Several keys may be of one pair."""
    fields: dict[str, FieldChange] = {}
    for raw, value in after.items():
        key = decode_key(raw).key
        name = repr(raw) if key is None else f"{key.connector} {spell_identity(key.partition)}"
        old, new = (spell_offset(decode_value(one).offset) for one in (before.get(raw), value))
        fields.setdefault(name, FieldChange(name, old, new))
    return Effect(Sign.CHANGE, subject, f"{render_count(len(fields), 'pair')} written", tuple(fields.values()))


def _read_entries(content: bytes, name: str) -> Iterator[tuple[bytes, bytes | None]]:
    for key, value in read_java_map(content, name=name).entries:
        if key is not None:
            yield key, value
