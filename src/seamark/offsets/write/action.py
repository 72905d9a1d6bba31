"""The action that changes the offsets of one connector: stop, check, write, verify, restore its state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Self

from seamark.changes.action import (
    LOCKS,
    Action,
    ActionHistory,
    Needs,
    Reads,
    StepSequence,
    When,
    action_kind,
    needs_permission,
)
from seamark.changes.effect import ChangeKind, Effect, FieldChange, Preview
from seamark.changes.step import CanNotUndo, Intent, Step
from seamark.connect.model import Connector
from seamark.connectors.run_state import SetRunState
from seamark.core.offsets import Offset, Order, spell_identity, spell_offset
from seamark.core.readings import fan_out
from seamark.core.refs import ConnectorType, spell_aspect
from seamark.errors import RefusedError
from seamark.kafka.model import HeldRecord
from seamark.offsets.codec.codec import decode_key, decode_value, encode_value
from seamark.offsets.model import CompletedOffsets, CurrentOffset, WriteRoute
from seamark.offsets.port import PLANNING, SNAPSHOTS, Planning
from seamark.offsets.semantics import OffsetSemantics
from seamark.offsets.stores.stores import find_own_topic
from seamark.offsets.stores.topic import is_task_key
from seamark.offsets.stores.write_checks import check_own_records
from seamark.offsets.write.guards import (
    CheckStopped,
    VerifyOffsets,
    find_quiet_seconds,
    find_workers,
    require_run_state,
)
from seamark.offsets.write.preview import DEFAULT_TOLERANCE, Tolerance, Total, say_preview, say_total, sum_previews
from seamark.offsets.write.progress_step import CheckProgress
from seamark.offsets.write.rights import find_offset_rights
from seamark.offsets.write.steps import CheckPreview, WriteOffsets
from seamark.policy.permissions import Permission, Right

if TYPE_CHECKING:
    from seamark.context import ConnectSettings, Context


class Disruption(StrEnum):
    """What becomes of a connector while its offsets are written, in the words of a plan."""

    STOPPED = "stays stopped"
    STOPS = "stops, moves, goes on"


def build_offset_effect(
    connector: Connector,
    meaning: OffsetSemantics,
    needed: Sequence[tuple[CurrentOffset, Offset]],
    previews: Sequence[Preview],
    *,
    how: Disruption,
    records: Sequence[FieldChange] = (),
) -> Effect:
    """One line for the connector, one field for each partition, and what its target will see."""
    fields = tuple(
        _build_field(meaning, held, wanted, preview) for (held, wanted), preview in zip(needed, previews, strict=True)
    )
    tasks = len(connector.status.tasks) if connector.status else 0
    return Effect(
        ChangeKind.CHANGE,
        f"connector/{connector.owner}",
        f"{how}: {say_total(sum_previews(previews), previews)}",
        (*fields, *records),
        tasks=0 if how is Disruption.STOPPED else tasks,
        consequences=tuple(_build_consequences(meaning, previews)),
    )


def find_written(step: WriteOffsets) -> tuple[Offset, ...]:
    """Return the offsets that a step leaves. By the route TOPIC its records say it, the last one of each key."""
    if step.route is not WriteRoute.TOPIC:
        return step.offsets
    found: dict[str, Offset] = {}
    for record in step.records:
        key = decode_key(record.key).key
        if key is not None:
            found[spell_identity(key.partition)] = Offset(key.partition, decode_value(record.value).offset)
    return tuple(found.values())


def build_record_changes(records: Sequence[HeldRecord], held: Sequence[CurrentOffset]) -> Iterator[FieldChange]:
    """Return each record that changes, where those of one partition will not be equal: the undo of a repair."""
    now = {record.place: record for found in held for record in found.records}
    values: dict[str, set[bytes | None]] = {}
    for record in records:
        values.setdefault(_identify(record), set()).add(record.value)
    for record in records:
        before = now.get(record.place)
        if len(values[_identify(record)]) > 1 and (before is None or before.value != record.value):
            yield build_record_change(before, record)


def _identify(record: HeldRecord) -> str:
    key = decode_key(record.key).key
    return record.place if key is None else spell_identity(key.partition)


def build_record_change(before: HeldRecord | None, record: HeldRecord) -> FieldChange:
    """One record of a topic: where it lies and its key, its value before and after."""
    key = record.key.decode(errors="backslashreplace")
    return FieldChange(f"{record.topic}-{record.partition} {key}", _spell(before), _spell(record))


def _spell(record: HeldRecord | None) -> str | None:
    return None if record is None or record.value is None else record.value.decode(errors="backslashreplace")


def _build_field(meaning: OffsetSemantics, held: CurrentOffset, wanted: Offset, preview: Preview) -> FieldChange:
    partition, before = meaning.describe(held.partition, held.offset)
    _, after = meaning.describe(wanted.partition, wanted.offset)
    return FieldChange(
        partition,
        None if held.offset is None else before,
        None if wanted.offset is None else after,
        note=say_preview(preview),
        preview=preview,
    )


def _build_consequences(meaning: OffsetSemantics, previews: Sequence[Preview]) -> list[str]:
    """What becomes of the data, for each direction that there is."""
    orders = {found.order for found in previews if found.counted.figure != 0}
    lines = []
    if orders & {Order.BEFORE, Order.UNKNOWN}:
        lines.append(f"read again: {meaning.explain_rewind().words}")
    if orders & {Order.AFTER, Order.UNKNOWN}:
        lines.append(f"skipped: {meaning.explain_skip().words}")
    return lines


_FLUSH = "offset.flush.interval.ms"
# Connect's own default. Whoever has it must not wait a minute for a look: at 15 s it is told that nothing can be there
# yet, and `--wait` waits for it.
_DEFAULT_FLUSH_SECONDS = 60.0
_MOST_SECONDS = 15.0
# From the resume to the first poll of a new task there is a rebalance.
_START_SECONDS = 4.0


def find_flush_seconds(settings: ConnectSettings) -> float | None:
    """How often the workers store what their tasks have read; None where no file of theirs tells.

    With exactly-once it is done with every batch, or as a connector says.
    """
    path = settings.worker_config
    if settings.exactly_once or path is None or not path.is_file():
        return None
    from seamark.context.layer import Origin, OriginKind  # noqa: PLC0415
    from seamark.context.properties import read_properties  # noqa: PLC0415

    found = read_properties(path, origin=Origin(OriginKind.WORKER, str(path), path=path)).get(_FLUSH)
    if found is None:
        return _DEFAULT_FLUSH_SECONDS
    return int(found.value) / 1000 if found.value.strip().isdecimal() else None


def find_wait_seconds(context: Context, flush_seconds: float | None) -> float:
    """How long to look for the first new position, where nobody says."""
    # As for the quiet before a write: who says that requests are over at once has servers that are made up.
    start = min(_START_SECONDS, context.journal.in_flight_seconds / 5)
    if flush_seconds is None:
        flush_seconds = min(_MOST_SECONDS, context.journal.in_flight_seconds)
    return min(_MOST_SECONDS, flush_seconds + start)


def build_progress(
    cluster: str,
    name: str,
    offsets: Sequence[Offset],
    former: Sequence[Offset],
    *,
    context: Context,
    settings: ConnectSettings,
    wait_seconds: float | None = None,
    carried: bool = False,
) -> tuple[CheckProgress, ...]:
    """The look at the first position after a resume; none where somebody does not want to wait."""
    flush_seconds = find_flush_seconds(settings)
    if wait_seconds is None:
        wait_seconds = find_wait_seconds(context, flush_seconds)
    if not wait_seconds:
        return ()
    return (CheckProgress(cluster, name, tuple(offsets), tuple(former), wait_seconds, flush_seconds, carried),)


STOPPED, RUNNING = "STOPPED", "RUNNING"


@dataclass(frozen=True, slots=True)
class Quiesced:
    """A connector around whose steps it is stopped: its state now, and everything that guards the stop.

    Every action that writes offsets derives its guards from here, so that no plan can lack one.
    """

    connector: Connector
    state: str
    workers: tuple[str, ...]
    quiet_seconds: float
    locks: frozenset[str]

    @property
    def stop(self) -> SetRunState:
        """The step that stops the connector."""
        return SetRunState(self.connector.cluster, self.connector.name, STOPPED)

    def find_intents(self) -> Mapping[str, Intent]:
        """Return what the step that stops the connector finds: it is not read again."""
        stop = self.stop
        return {spell_aspect(stop.subject, stop.aspect): Intent(before={"state": self.state}, after={"state": STOPPED})}

    def build_proof(self, *, accepts_zombies: bool = False, config: str = "") -> CheckStopped:
        """Return the check that the connector has stopped."""
        cluster, name = self.connector.cluster, self.connector.name
        return CheckStopped(cluster, name, self.workers, self.quiet_seconds, accepts_zombies, config)

    def surround(
        self,
        steps: Sequence[Step],
        *,
        accepts_zombies: bool = False,
        config: str = "",
        restores: str = "",
        progress: Sequence[Step] = (),
        is_undo: bool = False,
    ) -> StepSequence:
        """Return the steps between a verified stop and the restored state.

        `config` is the fingerprint of the config that the steps rely on. `restores` is the state to restore where it
        isn't the one found now. `progress` are the checks after the connector runs again. An undo, which `is_undo`, has
        no step that stops a stopped connector; a new plan has one, so that it is out of date once that one runs.
        """
        cluster, name = self.connector.cluster, self.connector.name
        state = restores or self.state
        stop = () if is_undo and self.state == STOPPED else (self.stop,)
        proof = self.build_proof(accepts_zombies=accepts_zombies, config=config)
        restore = () if state == STOPPED else ((SetRunState(cluster, name, state), When.ALWAYS),)
        return (
            *((step, When.TURN) for step in (*stop, proof, *steps)),
            *restore,
            *((step, When.TURN) for step in (progress if state == RUNNING else ())),
        )


def read_quiesced(cluster: str, name: str, reads: Reads) -> Quiesced:
    """Read a connector that is to be stopped.

    Raises:
        NotFoundError: there is no such connector.
        UnsettledError, RefusedError: its state can't be determined, so it could not be restored.
    """
    return build_quiesced(reads.use(PLANNING).client(cluster).read_connector(name), reads)


def build_quiesced(connector: Connector, reads: Reads) -> Quiesced:
    """Return the same for a connector that is read already.

    Raises:
        UnsettledError, RefusedError: its state can't be determined, so it could not be restored.
    """
    return Quiesced(
        connector,
        require_run_state(connector, reads.world),
        find_workers(connector),
        find_quiet_seconds(reads.use(PLANNING).context),
        reads.use(LOCKS).find_connector(connector.cluster, connector.name, [connector.config], kind=connector.type),
    )


def check_write(write: WriteOffsets, connector: Connector, planning: Planning) -> None:
    """Refuse a write of records that are not the connector's own, before anything is stopped.

    Raises:
        RefusedError: a record has another topic, or a key of something else.
    """
    settings = planning.settings(write.cluster)
    topics = (find_own_topic(connector, settings), settings.offsets_topic)
    check_own_records(write.records, connectors=(write.name,), topics=topics)


@dataclass(frozen=True, slots=True)
class OffsetsSeen:
    """What `ChangeOffsets` reads of one connector."""

    quiesced: Quiesced
    write: Intent
    held: tuple[CurrentOffset, ...]
    previews: tuple[Preview, ...]
    meaning: OffsetSemantics = field(repr=False)
    rights: frozenset[Right]
    progress: tuple[Step, ...]


@action_kind("change-offsets")
@needs_permission(Permission.CHANGE_OFFSETS)
@dataclass(frozen=True, slots=True)
class ChangeOffsets(Action):
    """Give partitions of one connector other offsets, or none where an offset is None; the others stay as they are.

    By the route TOPIC exactly `records` are written, in their order. `planned` is what the plan says is reprocessed and
    skipped: beyond the `tolerance` nothing is written. None stands for an undo, which is not counted again. `config` is
    the fingerprint of the config that the offsets were planned for. `restores` is the state to restore where it isn't
    the one that the connector has when the plan is prepared. `wait_seconds` is how long the first new offset is waited
    for, by default as long as the workers need to store one.
    """

    reaches_by_itself: ClassVar[bool] = True

    cluster: str
    name: str
    offsets: tuple[Offset, ...]
    route: WriteRoute = WriteRoute.REST
    records: tuple[HeldRecord, ...] = ()
    planned: Total | None = None
    tolerance: Tolerance = DEFAULT_TOLERANCE
    wait_seconds: float | None = None
    accepts_zombies: bool = False
    config: str = ""
    restores: str = ""

    @property
    def subject(self) -> str:
        """The connector."""
        return f"connector/{self.cluster}/{self.name}"

    @property
    def write(self) -> WriteOffsets:
        """The step that writes."""
        return WriteOffsets(self.cluster, self.name, self.offsets, self.route, self.records)

    @classmethod
    def inspect(cls, actions: Sequence[Self], reads: Reads) -> Sequence[OffsetsSeen]:
        """Read the connectors, what they hold, and what the new offsets mean."""
        reads.world.use(SNAPSHOTS).expect(action.name for action in actions)
        answers = fan_out({str(number): partial(action.read, reads) for number, action in enumerate(actions)})
        for error in answers.failures.values():
            raise error
        return list(answers.results.values())

    def read(self, reads: Reads) -> OffsetsSeen:
        """Read one connector, what it holds, and what the new offsets mean."""
        snapshot, planning = reads.world.use(SNAPSHOTS).open(self.cluster, self.name), reads.use(PLANNING)
        connector, write = snapshot.connector, self.write
        wanted = find_written(write)
        quiesced = build_quiesced(connector, reads)
        check_write(write, connector, planning)
        held = tuple(snapshot.read([one.partition for one in wanted]))
        progress = build_progress(
            self.cluster,
            self.name,
            wanted,
            [Offset(one.partition, one.offset) for one in held],
            context=planning.context,
            settings=planning.settings(self.cluster),
            wait_seconds=self.wait_seconds,
        )
        return OffsetsSeen(
            quiesced,
            write.intend(reads.world),
            held,
            tuple(snapshot.preview(wanted)),
            snapshot.meaning,
            frozenset(find_offset_rights(write, connector, planning)),
            progress,
        )

    def steps(self, seen: OffsetsSeen) -> StepSequence:
        """Stop, check, write, verify, restore; nothing where the connector has these offsets and its state."""
        is_written = seen.write.before == seen.write.after
        if is_written and (self.restores or seen.quiesced.state) == seen.quiesced.state:
            return ()
        count: tuple[Step, ...] = ()
        if self.planned is not None:
            count = (CheckPreview(self.cluster, self.name, self.offsets, self.planned, self.tolerance),)
        return seen.quiesced.surround(
            (*count, self.write, VerifyOffsets(self.write, self.config)),
            accepts_zombies=self.accepts_zombies,
            config=self.config,
            restores=self.restores,
            progress=seen.progress,
            is_undo=self.planned is None,
        )

    def needs(self, seen: OffsetsSeen) -> Needs:
        """The connector's locks, and the rights to see and to write its offsets."""
        return Needs(seen.quiesced.locks, seen.rights)

    def effects(self, seen: OffsetsSeen) -> tuple[Effect, ...]:
        """One line for the connector, one field for each partition."""
        restored = self.restores or seen.quiesced.state
        needed = list(zip(seen.held, find_written(self.write), strict=True))
        return (
            build_offset_effect(
                seen.quiesced.connector,
                seen.meaning,
                needed,
                seen.previews,
                how=Disruption.STOPPED if restored == STOPPED else Disruption.STOPS,
                records=tuple(build_record_changes(self.records, seen.held)),
            ),
        )

    def find_intents(self, seen: OffsetsSeen) -> Mapping[str, Intent]:
        """Return the state of the connector."""
        return seen.quiesced.find_intents()

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the action that gives the partitions their previous offsets, and the connector its state."""
        restores = find_unrestored_state(past)
        if past.find(WriteOffsets) is None:
            return SetRunState(self.cluster, self.name, restores) if restores else None
        back = past.undo_last(WriteOffsets, WriteOffsets)
        return None if back is None else undo_write(back, restores=restores)


def undo_write(back: WriteOffsets, *, restores: str = "") -> ChangeOffsets:
    """Return the action for a write that takes another one back."""
    return ChangeOffsets(back.cluster, back.name, back.offsets, back.route, back.records, restores=restores)


def find_unrestored_state(past: ActionHistory) -> str:
    """Return the state before a stop that a change is not known to have restored; "" where there is none."""
    stops = past.find_all(SetRunState)
    if not stops or (len(stops) > 1 and stops[-1].is_good):
        return ""
    before = stops[0].intent.before if stops[0].intent is not None else None
    return "" if before is None else str(before["state"])


def is_same(held: CurrentOffset, wanted: Offset) -> bool:
    """Return whether a partition has this offset for certain."""
    return not held.ambiguity and spell_offset(held.offset) == spell_offset(wanted.offset)


Complete = Callable[[Sequence[CurrentOffset]], CompletedOffsets]
"""Gives offsets the records that they lack."""


@dataclass(frozen=True, slots=True)
class ChosenWrite:
    """The step that writes the offsets, and the notes of the plan on it."""

    step: WriteOffsets
    notes: tuple[str, ...] = ()


def choose_route(
    connector: Connector,
    held: Sequence[CurrentOffset],
    offsets: Sequence[Offset],
    *,
    has_rest: bool,
    complete: Complete,
) -> ChosenWrite:
    """The step that writes these offsets. `has_rest` says whether the workers take offsets, as from 3.6 on.

    REST spells every key its own way, and writes it to one partition of the topic. Where a record stands under another
    spelling, or strayed to another partition, REST would write a second one beside it, and no task reads that, or
    nobody knows which one it reads: then all are written as records, each over the one that is there.
    """
    if ambiguities := [found.ambiguity for found in held if found.ambiguity]:
        raise RefusedError(
            f"nobody can tell which record holds the offsets of {connector.owner}; nothing was changed",
            cause="; ".join(ambiguities),
            hint=f"seamark offsets show {connector.owner} shows all of them",
        )
    cluster, name, wanted = connector.cluster, connector.name, tuple(offsets)
    if connector.type is ConnectorType.SINK:
        return ChosenWrite(WriteOffsets(cluster, name, wanted, WriteRoute.REST if has_rest else WriteRoute.GROUP))
    if has_rest and all(_reaches(found) for found in held):
        return ChosenWrite(WriteOffsets(cluster, name, wanted))
    completed = complete(held)
    records = tuple(
        record for found, one in zip(completed.held, wanted, strict=True) for record in _build_records(found, one)
    )
    return ChosenWrite(WriteOffsets(cluster, name, wanted, WriteRoute.TOPIC, records), completed.notes)


def _reaches(held: CurrentOffset) -> bool:
    """Whether REST would write over the records that are there. A key that nobody has written has no other spelling."""
    return not held.is_stray and all(decode_key(record.key).is_rest_spelling for record in _find_read(held))


def _find_read(held: CurrentOffset) -> tuple[HeldRecord, ...]:
    """The records that a task may read. What no task spells so stays as it is, whatever the others get."""
    return tuple(record for record in held.records if is_task_key(record.key))


def _build_records(held: CurrentOffset, wanted: Offset) -> Iterator[HeldRecord]:
    value = encode_value(wanted.offset)
    # Where there are two topics, the one that the tasks read is written last: until then nothing has changed for them.
    for record in reversed(_find_read(held)):
        yield HeldRecord(record.topic, record.partition, record.key, value)
