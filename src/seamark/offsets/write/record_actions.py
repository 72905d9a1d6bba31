"""Actions on the records of an offsets topic whose connectors no worker runs: restore them, or delete them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Self

from seamark.changes.action import (
    LOCKS,
    Action,
    ActionHistory,
    Needs,
    Reads,
    StepSequence,
    action_kind,
    in_turn,
    needs_permission,
)
from seamark.changes.effect import Effect, FieldChange, Sign
from seamark.changes.step import CanNotUndo
from seamark.core.fanout import read_all
from seamark.core.offset import Offset, spell_identity, spell_offset
from seamark.core.refs import ConnectorType
from seamark.errors import RefusedError
from seamark.kafka.records_held import HeldRecord
from seamark.offsets.codec.codec import decode_key
from seamark.offsets.port import LEFT_OFFSETS, PLANNING
from seamark.offsets.read.left_offsets import build_records
from seamark.offsets.read.orphans import find_sharing
from seamark.offsets.stores.own_records import check_own_records
from seamark.offsets.write.guards import find_quiet_seconds
from seamark.offsets.write.offset_records import WriteRecords
from seamark.offsets.write.unused import ProveUnused, name_left
from seamark.policy.permission import Permission
from seamark.policy.rights import Right

# Each is acknowledged before the next is sent: 5 ms, and 50 on a bad day. A step of so many is over within seconds.
RECORDS_PER_STEP = 100


@dataclass(frozen=True, slots=True)
class RecordsSeen:
    """What the topic holds of the owners, and which clusters share it.

    `held` are the values by the place of their record, `offsets` the offsets by owner.
    """

    clusters: tuple[str, ...]
    quiet_seconds: float
    locks: frozenset[str]
    held: Mapping[str, bytes | None] = field(repr=False)
    offsets: Mapping[str, Sequence[Offset]] = field(repr=False)


@action_kind("write-offset-records")
@needs_permission(Permission.CHANGE_OFFSETS)
@dataclass(frozen=True, slots=True)
class WriteOffsetRecords(Action):
    """Write exactly these records to the workers' topic, in their order. It is how a change of records is undone.

    `owners` are the connectors that they belong to. None of them may exist in any cluster that shares the topic of
    `cluster`; with `may_be_down` all workers may be down instead.
    """

    reaches_by_itself: ClassVar[bool] = True

    cluster: str
    owners: tuple[str, ...]
    records: tuple[HeldRecord, ...]
    may_be_down: bool = False

    @property
    def subject(self) -> str:
        """What the connectors left behind."""
        return name_left((self.cluster,), self.owners)

    @property
    def sequence(self) -> str:
        """One sequence for each topic: its steps follow each other, and each keeps its own part for an undo."""
        return f"offsets/{self.cluster}"

    @classmethod
    def inspect(cls, actions: Sequence[Self], reads: Reads) -> Sequence[RecordsSeen]:
        """Read what the topics hold."""
        return read_all((action.subject, partial(action.read, reads)) for action in actions)

    def read(self, reads: Reads) -> RecordsSeen:
        """Read what the topic holds of the owners.

        Raises:
            RefusedError: a record belongs to a connector that is not among the owners, so that its use is not checked.
        """
        planning, locks = reads.use(PLANNING), reads.use(LOCKS)
        topics = (planning.settings(self.cluster).offsets_topic,)
        check_own_records(self.records, connectors=self.owners, topics=topics)
        reading = reads.world.use(LEFT_OFFSETS)(self.cluster).read_stored(self.owners)
        offsets: dict[str, list[Offset]] = {}
        for found in reading.offsets:
            offsets.setdefault(found.key.connector, []).append(found.as_offset())
        return RecordsSeen(
            find_sharing(planning.clusters, self.cluster),
            find_quiet_seconds(planning.context),
            frozenset().union(
                *(locks.find_connector(self.cluster, one, [{}], kind=ConnectorType.SOURCE) for one in self.owners)
            ),
            {record.place: record.value for record in build_records(reading)},
            offsets,
        )

    def steps(self, seen: RecordsSeen) -> StepSequence:
        """Write the records, at most 100 in a step; each step checks right before that no worker uses them."""
        if all(seen.held.get(record.place) == record.value for record in self.records):
            return ()
        return in_turn(*self._cut(seen))

    def needs(self, seen: RecordsSeen) -> Needs:
        """The locks of the owners, and the rights to read and write the topic."""
        topics = {record.topic for record in self.records}
        return Needs(
            seen.locks,
            frozenset(Right("topic", topic, operation) for topic in topics for operation in ("READ", "WRITE")),
        )

    def effects(self, seen: RecordsSeen) -> tuple[Effect, ...]:
        """One line for each step."""
        return tuple(Effect(Sign.CHANGE, step.subject, step.describe()) for step in self._cut(seen))

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the action that writes the previous records, the last one first."""
        backs = past.undo_all(WriteRecords, WriteRecords)
        records = tuple(record for back in backs for record in back.records)
        connectors = {decode_key(record.key).connector for record in records}
        owners = tuple(one for one in self.owners if one in connectors)
        return WriteOffsetRecords(self.cluster, owners, records, self.may_be_down) if records else None

    def _cut(self, seen: RecordsSeen) -> Iterator[WriteRecords]:
        """Return the steps. An owner with many records is in several."""
        parts: Counter[str] = Counter()
        for start in range(0, len(self.records), RECORDS_PER_STEP):
            part = self.records[start : start + RECORDS_PER_STEP]
            connectors = {decode_key(record.key).connector for record in part}
            owners = tuple(one for one in self.owners if one in connectors)
            name = name_left(seen.clusters, owners)
            parts[name] += 1
            yield WriteRecords(seen.clusters, owners, part, self.may_be_down, parts[name])


@action_kind("purge-offsets")
@needs_permission(Permission.CHANGE_OFFSETS, Permission.DELETE)
@dataclass(frozen=True, slots=True)
class PurgeOffsets(WriteOffsetRecords):
    """Delete what connectors that are gone left in the workers' topic: each key gets a tombstone."""

    def __post_init__(self) -> None:
        if any(record.value is not None for record in self.records):
            raise RefusedError("a purge deletes records and writes no offset", hint="create a new plan")

    def steps(self, seen: RecordsSeen) -> StepSequence:
        """Check for a while that no worker uses the records, then delete them."""
        write = super(PurgeOffsets, self).steps(seen)
        return (*in_turn(ProveUnused(seen.clusters, self.owners, seen.quiet_seconds)), *write) if write else ()

    def effects(self, seen: RecordsSeen) -> tuple[Effect, ...]:
        """One line for each connector, one field for each offset that is deleted."""
        keys = [key for record in self.records if (key := decode_key(record.key).key) is not None]
        return tuple(
            Effect(
                Sign.DELETE,
                f"offsets/{self.cluster}/{owner}",
                "a new connector of this name finds nothing there",
                tuple(
                    FieldChange(spell_identity(found.partition), spell_offset(found.offset), None)
                    for found in seen.offsets.get(owner, ())
                    if any((key.connector, key.partition) == (owner, found.partition) for key in keys)
                ),
            )
            for owner in self.owners
        )
