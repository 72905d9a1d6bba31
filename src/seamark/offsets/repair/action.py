"""The action that rewrites a stopped source's offset records as Connect would have written them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Self

from seamark.changes.action import (
    Action,
    ActionHistory,
    GuardStep,
    Needs,
    Reads,
    StepSequence,
    action_kind,
    needs_permission,
)
from seamark.changes.effect import ChangeKind, Effect, FieldChange, Preview
from seamark.changes.environment import Environment
from seamark.changes.preconditions import POSITION
from seamark.changes.step import CanNotUndo, ConnectorSubject, Intent, Observed, Step, compare_places, step_kind
from seamark.connect.model import State
from seamark.connectors.run_state import SetRunState
from seamark.core.offsets import Offset
from seamark.core.readings import read_all
from seamark.errors import RefusedError, SeamarkError
from seamark.kafka.model import HeldRecord
from seamark.offsets.codec.codec import decode_value
from seamark.offsets.model import DEFAULT_TOLERANCE, Tolerance, WriteRoute
from seamark.offsets.port import OFFSETS, PLANNING, SNAPSHOTS
from seamark.offsets.quiesce import refuse_moving
from seamark.offsets.read.preview import Total, say_preview, say_total, sum_previews
from seamark.offsets.repair.rules import (
    AnomalousOwner,
    AnomalousPartition,
    RepairRule,
    build_repaired,
    find_records,
    read_anomalous_partition,
    settle_rule,
)
from seamark.offsets.semantics import OffsetSemantics
from seamark.offsets.write.action import (
    Quiesced,
    build_progress,
    build_quiesced,
    build_record_change,
    find_unrestored_state,
    undo_write,
)
from seamark.offsets.write.steps import CheckPreview, WriteOffsets
from seamark.policy.permissions import Permission, Right
from seamark.report.words import render_count


@dataclass(frozen=True, slots=True)
class RepairStep(ConnectorSubject, Step):
    """The common part of the steps of one repair: the owner, the topic, and the rules."""

    topic: str
    rules: tuple[RepairRule, ...]

    # Whether the step checks repaired records; its rules are then those of `settle_rule`.
    settled: ClassVar[bool] = True

    def read(self, world: Environment) -> tuple[dict[str, HeldRecord], list[HeldRecord]]:
        """Read the current records by their locations, and build the target records of all rules."""
        holding = world.use(OFFSETS)(self.cluster, self.name).read_topic(self.topic)
        mended = [
            record
            for rule in self.rules
            for record in build_repaired(
                find_records(holding.records, rule),
                rule,
                topic=self.topic,
                home=holding.find_home,
                settled=self.settled,
            )
        ]
        return {record.place: record for record in holding.records}, mended


@step_kind("write-repairs")
@dataclass(frozen=True, slots=True)
class RepairRecords(RepairStep):
    """Writes the same value for every key encoding that a task may look up, and for every copy of it.

    The value is read after the connector has stopped. The images contain the bytes at each location.
    """

    aspect: ClassVar[str] = POSITION
    repeats: ClassVar[bool] = True
    settled: ClassVar[bool] = False

    def describe(self) -> str:
        count = len(self.rules)
        return f"repair the records of {count} offset{'' if count == 1 else 's'} of {self.subject}"

    def intend(self, world: Environment) -> Intent:
        held, wanted = self.read(world)
        extra = {"records": [record.to_dict() for record in wanted]}
        return Intent(before=_build_image(wanted, held), after=_build_wanted(wanted), extra=extra)

    def perform(self, world: Environment, intent: Intent) -> None:
        refuse_moving(world, self.cluster, self.name)
        records = [HeldRecord.from_dict(record) for record in intent.extra["records"]]
        world.use(OFFSETS)(self.cluster, self.name).write(records)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        wanted = [HeldRecord.from_dict(record) for record in intent.extra["records"]]
        holding = world.use(OFFSETS)(self.cluster, self.name).read_topic(self.topic)
        now = _build_image(wanted, {record.place: record for record in holding.records})
        return compare_places(now, intent, "offsets")

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        before: Mapping[str, Any] = intent.before["offsets"]
        records = [HeldRecord.from_dict(record) for record in intent.extra["records"]]
        back = tuple(
            HeldRecord.from_dict({**record.to_dict(), "value": before.get(record.place)}) for record in records
        )
        taken = {record.place: decode_value(record.value).offset for record in back}
        offsets = tuple(Offset(rule.partition, self._find_offset(rule, taken)) for rule in self.rules)
        return WriteOffsets(self.cluster, self.name, offsets, WriteRoute.TOPIC, back)

    def _find_offset(self, rule: RepairRule, values: Mapping[str, Any]) -> Any:
        return values.get(HeldRecord(self.topic, rule.where, rule.key).place)


@step_kind("verify-repaired")
@dataclass(frozen=True, slots=True)
class VerifyRepaired(GuardStep, RepairStep):
    """Checks, directly before the connector may run, that each of its records is as it should be."""

    aspect: ClassVar[str] = "verified"
    expires: ClassVar[bool] = True

    def describe(self) -> str:
        return f"verify the records of {self.subject} in topic {self.topic}"

    def find_refusal(self, world: Environment) -> SeamarkError | None:
        """Compare the records with the result of the rules."""
        held, wanted = self.read(world)
        now, then = _build_image(wanted, held)["offsets"], _build_wanted(wanted)["offsets"]
        wrong = [place for place in then if now[place] != then[place]]
        if not wrong:
            return None
        return RefusedError(
            f"the records of {self.subject} are not as written: another process writes them",
            cause=f"different values at {', '.join(wrong[:5])}",
            hint=f"find and stop the other writer; then check seamark offsets show {self.cluster}/{self.name}",
        )


def _build_image(wanted: Sequence[HeldRecord], held: Mapping[str, HeldRecord]) -> dict[str, Any]:
    """Build the image of the locations of these records. A missing record and a tombstone are equivalent."""
    return {
        "offsets": {
            record.place: held[record.place].to_dict()["value"] if record.place in held else None for record in wanted
        }
    }


def _build_wanted(wanted: Sequence[HeldRecord]) -> dict[str, Any]:
    return {"offsets": {record.place: record.to_dict()["value"] for record in wanted}}


REMOVAL = "docs/runbooks/offsets-topic-repartitioned.md describes how to remove them"
"""What messages say about records that a repair keeps in the log."""


def build_repair_effect(
    owner: AnomalousOwner, meaning: OffsetSemantics, moved: Sequence[tuple[Offset, Preview]]
) -> Effect:
    """Build one line for the connector, with a field for each record that changes."""
    connector = owner.connector
    status = connector.status
    is_stopped = status is not None and status.state is State.STOPPED
    fields = tuple(field for one in owner.partitions for field in _build_fields(one))
    previews = [preview for _, preview in moved]
    unsure = "it resumes from the chosen record; which record it would have used otherwise is unknown"
    means = unsure if any(not one.is_certain for one in owner.partitions) else "nothing reprocessed or skipped"
    means = say_total(sum_previews(previews), previews) if moved else means
    how = "stays stopped" if is_stopped else "stops, resumes"
    words = f"{how}, {render_count(len(fields), 'record')} repaired: {means}"
    places = tuple(_build_moved(owner, meaning, offset, preview) for offset, preview in moved)
    tasks = 0 if is_stopped or status is None else len(status.tasks)
    return Effect(ChangeKind.CHANGE, f"connector/{connector.owner}", words, (*places, *fields), tasks=tasks)


def _build_moved(owner: AnomalousOwner, meaning: OffsetSemantics, offset: Offset, preview: Preview) -> FieldChange:
    held = next(one.held for one in owner.partitions if one.offset is offset)
    partition, before = meaning.describe(held.partition, held.offset)
    _, after = meaning.describe(offset.partition, offset.offset)
    return FieldChange(
        partition,
        None if held.offset is None else before,
        None if offset.offset is None else after,
        note=say_preview(preview),
        preview=preview,
    )


def _build_fields(found: AnomalousPartition) -> Iterator[FieldChange]:
    """Return each record that changes: its location and key, its value before and after."""
    held = {record.place: record for record in found.records}
    for record in found.build():
        before = held.get(record.place)
        if before is None or before.value != record.value:
            yield build_record_change(before, record)


def say_left(found: Sequence[AnomalousOwner]) -> tuple[str, ...]:
    """Explain why a plan is empty although there are anomalies."""
    if not found:
        return ()
    names = ", ".join(owner.connector.owner for owner in found[:10])
    return (f"the records of {names} already have the same value, and extra records stay in the log: {REMOVAL}",)


@dataclass(frozen=True, slots=True)
class RepairSeen:
    """What `RepairOffsets` reads: the records of each partition, and the effect of other offsets for the task."""

    quiesced: Quiesced
    owner: AnomalousOwner
    previews: tuple[Preview, ...]
    meaning: OffsetSemantics = field(repr=False)
    progress: tuple[Step, ...]

    @property
    def moved(self) -> tuple[Offset, ...]:
        """Return the offsets that differ from those that the tasks use now."""
        return self.owner.moved


@action_kind("repair-offsets")
@needs_permission(Permission.CHANGE_OFFSETS)
@dataclass(frozen=True, slots=True)
class RepairOffsets(ConnectorSubject, Action):
    """Write the value that each rule selects to all records of some partitions of a source, as read after the stop.

    `planned` is what the plan reprocesses and skips, if the value is not the one that the tasks use now: beyond the
    `tolerance` nothing is written. `config` is the fingerprint of the config that the plan was created for.
    `wait_seconds` is how long to wait for the first new offset.
    """

    topic: str
    rules: tuple[RepairRule, ...]
    planned: Total | None = None
    tolerance: Tolerance = DEFAULT_TOLERANCE
    wait_seconds: float | None = None
    accepts_zombies: bool = False
    config: str = ""

    @classmethod
    def inspect(cls, actions: Sequence[Self], reads: Reads) -> Sequence[RepairSeen]:
        """Read the connectors and their records."""
        reads.world.use(SNAPSHOTS).expect(action.name for action in actions)
        return read_all((action.subject, partial(action.read, reads)) for action in actions)

    def read(self, reads: Reads) -> RepairSeen:
        """Read one connector and its records.

        Raises:
            RefusedError: The record whose value was selected no longer exists.
        """
        port, planning = reads.world.use(SNAPSHOTS).open(self.cluster, self.name), reads.use(PLANNING)
        quiesced = build_quiesced(port.connector, reads)
        home = port.read_topic(self.topic).find_home
        held = port.read([rule.partition for rule in self.rules])
        partitions = tuple(
            read_anomalous_partition(rule, found, topic=self.topic, home=home)
            for rule, found in zip(self.rules, held, strict=True)
        )
        owner = AnomalousOwner(quiesced.connector, self.topic, home, partitions)
        stored = tuple(one.offset for one in partitions if one.offset.offset is not None)
        progress = build_progress(
            self.cluster,
            self.name,
            stored,
            (),
            context=planning.context,
            settings=planning.clusters.settings(self.cluster),
            wait_seconds=self.wait_seconds,
            carried=True,
        )
        return RepairSeen(
            quiesced,
            owner,
            tuple(port.preview(owner.moved)) if owner.moved else (),
            port.meaning,
            progress if stored else (),
        )

    def steps(self, seen: RepairSeen) -> StepSequence:
        """Return the steps: stop, check, write and verify the records, restore the state; none if all are correct."""
        if not any(one.is_needed() for one in seen.owner.partitions):
            return ()
        settled = tuple(settle_rule(rule, seen.owner.home) for rule in self.rules)
        return seen.quiesced.surround(
            (
                *self._build_check(seen),
                RepairRecords(self.cluster, self.name, self.topic, self.rules),
                VerifyRepaired(self.cluster, self.name, self.topic, settled),
            ),
            accepts_zombies=self.accepts_zombies,
            config=self.config,
            progress=seen.progress,
        )

    def needs(self, seen: RepairSeen) -> Needs:
        """Return the connector's locks, and the permissions to read and write its topic."""
        rights = frozenset(Right("topic", self.topic, operation) for operation in ("READ", "WRITE"))
        return Needs(seen.quiesced.locks, rights)

    def effects(self, seen: RepairSeen) -> tuple[Effect, ...]:
        """Return one line for the connector, with one field for each record that changes."""
        moved = list(zip(seen.moved, seen.previews, strict=True))
        return (build_repair_effect(seen.owner, seen.meaning, moved),)

    def find_intents(self, seen: RepairSeen) -> Mapping[str, Intent]:
        """Return the state of the connector."""
        return seen.quiesced.find_intents()

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the action that writes the previous records and restores the connector's state."""
        restores = find_unrestored_state(past)
        if past.find(RepairRecords) is None:
            return SetRunState(self.cluster, self.name, restores) if restores else None
        back = past.undo_last(RepairRecords, WriteOffsets)
        return None if back is None else undo_write(back, restores=restores)

    def _build_check(self, seen: RepairSeen) -> tuple[Step, ...]:
        """If the value is not the one that the tasks use now, count its effect again after the stop."""
        if not seen.moved:
            return ()
        planned = self.planned or sum_previews(seen.previews)
        return (CheckPreview(self.cluster, self.name, seen.moved, planned, self.tolerance),)
