"""Actions on records of an offsets topic whose connectors no worker runs: restore them, or delete them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from seamark.changes.action import (
    LOCKS,
    Action,
    ActionHistory,
    CheckStep,
    Needs,
    Reads,
    StepSequence,
    action_kind,
    in_turn,
    needs_permission,
    read_within_deadline,
)
from seamark.changes.effect import ChangeKind, Effect, FieldChange
from seamark.changes.environment import Environment
from seamark.changes.preconditions import POSITION
from seamark.changes.step import CanNotUndo, Intent, Observed, Step, compare_image, step_kind
from seamark.connect.api import CONNECT, WORKER_URLS
from seamark.core.offsets import Offset, spell_identity, spell_offset
from seamark.core.refs import ConnectorType
from seamark.errors import RefusedError, SeamarkError
from seamark.kafka.model import HeldRecord
from seamark.offsets.codec.codec import decode_key
from seamark.offsets.port import LEFT_OFFSETS, PLANNING
from seamark.offsets.read.connector import build_records
from seamark.offsets.read.orphans import find_sharing
from seamark.offsets.stores.topic import check_own_records
from seamark.offsets.write.guards import find_quiet_seconds
from seamark.policy.permissions import Permission, Right

_SETTLE_SECONDS = 60.0
LOOK_SECONDS = 0.5


@step_kind("prove-unused")
@dataclass(frozen=True, slots=True)
class CheckUnused(CheckStep):
    """Checks for `quiet_seconds` that the offsets of connectors are unused: they exist in none of `clusters`.

    With `may_be_down` it is enough that the brokers report no worker. A connector that was just deleted may still end
    its tasks, which write once more.
    """

    aspect: ClassVar[str] = "unused"
    settle_seconds: ClassVar[float] = _SETTLE_SECONDS

    clusters: tuple[str, ...]
    owners: tuple[str, ...]
    quiet_seconds: float
    may_be_down: bool = False

    @property
    def subject(self) -> str:
        return name_left(self.clusters, self.owners)

    def describe(self) -> str:
        return f"verify that no worker of {' and '.join(self.clusters)} uses {self.subject}"

    def perform(self, world: Environment, intent: Intent) -> None:
        del intent
        began_at = world.clock.now()
        while True:
            refuse_used(world, self.clusters, self.owners, may_be_down=self.may_be_down)
            if world.clock.now() - began_at >= self.quiet_seconds:
                return
            world.clock.sleep(min(LOOK_SECONDS, self.quiet_seconds))

    def observe(self, world: Environment, intent: Intent) -> Observed:
        del intent
        there = find_users(world, self.clusters, self.owners, may_be_down=self.may_be_down)
        return Observed.BEFORE if there else Observed.AFTER


def name_left(clusters: Sequence[str], owners: Sequence[str]) -> str:
    """Return the subject for orphaned offsets. Each step has its own owners."""
    if not clusters or not owners:
        raise RefusedError("records without a connector", hint="create a new plan")
    others = f" and {len(owners) - 1} more" if len(owners) > 1 else ""
    return f"offsets/{clusters[0]}/{owners[0]}{others}"


def find_users(
    world: Environment, clusters: Sequence[str], owners: Sequence[str], *, may_be_down: bool
) -> tuple[str, ...]:
    """Return those of these connectors that exist, with their Connect cluster.

    Raises:
        SeamarkError: A worker is up, but its connectors can't be determined.
    """
    wanted = frozenset(owners)
    return tuple(
        f"{cluster}/{name}"
        for cluster in clusters
        if not may_be_down or world.use(WORKER_URLS)(cluster)
        for name in sorted(wanted.intersection(world.use(CONNECT)(cluster).read_names()))
    )


def refuse_used(world: Environment, clusters: Sequence[str], owners: Sequence[str], *, may_be_down: bool) -> None:
    """Raise if a worker runs one of these connectors, or may run it."""
    try:
        there = find_users(world, clusters, owners, may_be_down=may_be_down)
    except SeamarkError as error:
        raise RefusedError(
            f"can't determine whether a worker of {' or '.join(clusters)} uses these offsets; no changes were made",
            cause=f"{error.message}: {error.cause}" if error.cause else error.message,
            hint="make the workers' REST API reachable from here" + (", or stop all workers" if may_be_down else ""),
        ) from error
    if there:
        raise RefusedError(
            f"{', '.join(there[:10])} {'was' if len(there) == 1 else 'were'} created meanwhile; no changes were made",
            cause="a worker is running, and another process created it",
            hint="use seamark offsets move or seamark offsets reset for connectors that exist",
        )


@step_kind("write-records")
@dataclass(frozen=True, slots=True)
class WriteRecords(Step):
    """Writes exactly these records to the workers' topic, in their order.

    `owners` are the connectors of the records. None of them may exist in any of `clusters`, which share the topic: a
    task would not see what is written, and overwrite it. With `may_be_down` all workers may be down instead. Several
    steps of a plan for the same owners differ in `part`: their images are of different records.
    """

    aspect: ClassVar[str] = POSITION
    repeats: ClassVar[bool] = True
    # It checks twice, directly before it writes, that none of the owners exists.
    proves: ClassVar[bool] = True
    settle_seconds: ClassVar[float] = _SETTLE_SECONDS

    clusters: tuple[str, ...]
    owners: tuple[str, ...]
    records: tuple[HeldRecord, ...]
    may_be_down: bool = False
    part: int = 1

    @property
    def subject(self) -> str:
        return name_left(self.clusters, self.owners) + ("" if self.part == 1 else f", part {self.part}")

    def describe(self) -> str:
        gone = sum(record.value is None for record in self.records)
        words = [f"write {_count(left)}"] if (left := len(self.records) - gone) else []
        if gone:
            words.append(f"delete {_count(gone)}")
        return f"{' and '.join(words)} of {self.subject} in the topic"

    def intend(self, world: Environment) -> Intent:
        return Intent(before=self._read_image(world), after=_build_image(self.records))

    def perform(self, world: Environment, intent: Intent) -> None:
        del intent
        read_within_deadline(world, self.subject, lambda: self._look_twice(world))
        world.use(LEFT_OFFSETS)(self.clusters[0]).write(self.owners, self.records)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        now = self._read_image(world)
        seen = compare_image(now, intent)
        if seen is not Observed.FOREIGN:
            return seen
        known = all(value in (intent.before[place], intent.after[place]) for place, value in now.items())
        return Observed.BETWEEN if known else Observed.FOREIGN

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        before: Mapping[str, Any] = intent.before
        records = (HeldRecord.from_dict({**record.to_dict(), "value": before[record.place]}) for record in self.records)
        return replace(self, records=tuple(records)[::-1])

    def _look_twice(self, world: Environment) -> None:
        refuse_used(world, self.clusters, self.owners, may_be_down=self.may_be_down)
        world.clock.sleep(LOOK_SECONDS)
        refuse_used(world, self.clusters, self.owners, may_be_down=self.may_be_down)

    def _read_image(self, world: Environment) -> dict[str, Any]:
        found = world.use(LEFT_OFFSETS)(self.clusters[0]).read(self.owners)
        held = {record.place: record for record in found}
        return _build_image([held.get(record.place, replace(record, value=None)) for record in self.records])


def _build_image(records: Sequence[HeldRecord]) -> dict[str, Any]:
    return {record.place: record.to_dict()["value"] for record in records}


def _count(number: int) -> str:
    return f"{number} record" + ("s" if number != 1 else "")


# Each record is acknowledged before the next is sent: 5 ms, and 50 ms under load. A step of this size takes seconds.
RECORDS_PER_STEP = 100


@dataclass(frozen=True, slots=True)
class RecordsSeen:
    """What the topic stores for the owners, and which Connect clusters share it.

    `held` are the values by the location of their record, `offsets` the offsets by owner.
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
    """Write exactly these records to the workers' topic, in their order. Changes of records are undone with it.

    `owners` are the connectors that they belong to. None of them may exist in any Connect cluster that shares the topic
    of `cluster`; with `may_be_down` all workers may be down instead.
    """

    reaches_by_itself: ClassVar[bool] = True

    cluster: str
    owners: tuple[str, ...]
    records: tuple[HeldRecord, ...]
    may_be_down: bool = False

    @property
    def subject(self) -> str:
        """Return the subject for the orphaned offsets of the connectors."""
        return name_left((self.cluster,), self.owners)

    @property
    def sequence(self) -> str:
        """Return one sequence per topic: its steps run in order, and each keeps its own part for an undo."""
        return f"offsets/{self.cluster}"

    def read(self, reads: Reads) -> RecordsSeen:
        """Read the records of the owners in the topic.

        Raises:
            RefusedError: A record belongs to a connector that is not among the owners, so that its use is not checked.
        """
        planning, locks = reads.use(PLANNING), reads.use(LOCKS)
        topics = (planning.clusters.settings(self.cluster).offsets_topic,)
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
        """Return steps of at most 100 records; each checks directly before the write that no worker uses them."""
        if all(seen.held.get(record.place) == record.value for record in self.records):
            return ()
        return in_turn(*self._cut(seen))

    def needs(self, seen: RecordsSeen) -> Needs:
        """Return the locks of the owners, and the permissions to read and write the topic."""
        topics = {record.topic for record in self.records}
        return Needs(
            seen.locks,
            frozenset(Right("topic", topic, operation) for topic in topics for operation in ("READ", "WRITE")),
        )

    def effects(self, seen: RecordsSeen) -> tuple[Effect, ...]:
        """Return one line for each step."""
        return tuple(Effect(ChangeKind.CHANGE, step.subject, step.describe()) for step in self._cut(seen))

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
    """Delete orphaned offsets from the workers' topic: each key gets a tombstone."""

    def __post_init__(self) -> None:
        if any(record.value is not None for record in self.records):
            raise RefusedError("a purge deletes records and writes no offset", hint="create a new plan")

    def steps(self, seen: RecordsSeen) -> StepSequence:
        """Return the steps: check for some time that no worker uses the records, then delete them."""
        write = super(PurgeOffsets, self).steps(seen)
        return (*in_turn(CheckUnused(seen.clusters, self.owners, seen.quiet_seconds)), *write) if write else ()

    def effects(self, seen: RecordsSeen) -> tuple[Effect, ...]:
        """Return one line for each connector, with one field for each offset that is deleted."""
        keys = [key for record in self.records if (key := decode_key(record.key).key) is not None]
        return tuple(
            Effect(
                ChangeKind.DELETE,
                f"offsets/{self.cluster}/{owner}",
                "a new connector of this name starts without offsets",
                tuple(
                    FieldChange(spell_identity(found.partition), spell_offset(found.offset), None)
                    for found in seen.offsets.get(owner, ())
                    if any((key.connector, key.partition) == (owner, found.partition) for key in keys)
                ),
            )
            for owner in self.owners
        )
