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
from seamark.changes.step import CanNotUndo, ConnectorSubject, Intent, Step
from seamark.connect.model import Connector
from seamark.connectors.run_state import SetRunState
from seamark.core.offsets import Offset, Order, spell_identity, spell_offset
from seamark.core.readings import fan_out
from seamark.core.refs import ConnectorType, spell_aspect
from seamark.errors import RefusedError
from seamark.kafka.model import HeldRecord
from seamark.offsets.codec.codec import decode_key, decode_value, encode_value
from seamark.offsets.model import DEFAULT_TOLERANCE, CompletedOffsets, CurrentOffset, Tolerance, WriteRoute
from seamark.offsets.port import PLANNING, SNAPSHOTS, Planning
from seamark.offsets.read.connector import find_read_records
from seamark.offsets.read.preview import Total, say_preview, say_total, sum_previews
from seamark.offsets.semantics import OffsetSemantics
from seamark.offsets.stores.stores import find_own_topic
from seamark.offsets.stores.topic import check_own_records
from seamark.offsets.write.guards import (
    CheckProgress,
    CheckStopped,
    VerifyOffsets,
    find_quiet_seconds,
    find_workers,
    require_run_state,
)
from seamark.offsets.write.rights import find_offset_rights
from seamark.offsets.write.steps import CheckPreview, WriteOffsets
from seamark.policy.permissions import Permission, Right

if TYPE_CHECKING:
    from seamark.context import ConnectSettings, Context


class Disruption(StrEnum):
    """What happens to a connector while its offsets are written, as a plan displays it."""

    STOPPED = "stays stopped"
    STOPS = "stops, moves, resumes"


def find_written(step: WriteOffsets) -> tuple[Offset, ...]:
    """Return the offsets that a step writes. With the route TOPIC its records define them, the last one of each key."""
    if step.route is not WriteRoute.TOPIC:
        return step.offsets
    found: dict[str, Offset] = {}
    for record in step.records:
        key = decode_key(record.key).key
        if key is not None:
            found[spell_identity(key.partition)] = Offset(key.partition, decode_value(record.value).offset)
    return tuple(found.values())


def build_record_changes(records: Sequence[HeldRecord], held: Sequence[CurrentOffset]) -> Iterator[FieldChange]:
    """Return each record that changes, if those of one partition will differ: the undo of a repair."""
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
    """Build the change of one record of a topic: its location and key, its value before and after."""
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
    """Describe the effect on the data, for each direction that occurs."""
    orders = {found.order for found in previews if found.counted.figure != 0}
    lines = []
    if orders & {Order.BEFORE, Order.UNKNOWN}:
        lines.append(f"reprocessed: {meaning.explain_rewind().words}")
    if orders & {Order.AFTER, Order.UNKNOWN}:
        lines.append(f"skipped: {meaning.explain_skip().words}")
    return lines


_FLUSH = "offset.flush.interval.ms"
# Connect's own default. The check must not take a minute with it: after 15 s it reports that nothing can be stored yet,
# and `--progress-timeout` extends it.
_DEFAULT_FLUSH_SECONDS = 60.0
_MOST_SECONDS = 15.0
# A rebalance takes place between the resume and the first poll of a new task.
_START_SECONDS = 4.0


def find_flush_seconds(settings: ConnectSettings) -> float | None:
    """Return the interval at which the workers store offsets; None if no worker file is known.

    With exactly-once, offsets are stored with every batch, or as a connector configures it.
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
    """Return how long to wait for the first new offset if the user sets no time."""
    # As for the quiet time before a write: a context with a very short in-flight timeout has simulated servers.
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
    """Build the check of the first offset after a resume; none if the user does not want to wait."""
    flush_seconds = find_flush_seconds(settings)
    if wait_seconds is None:
        wait_seconds = find_wait_seconds(context, flush_seconds)
    if not wait_seconds:
        return ()
    return (CheckProgress(cluster, name, tuple(offsets), tuple(former), wait_seconds, flush_seconds, carried),)


STOPPED, RUNNING = "STOPPED", "RUNNING"


@dataclass(frozen=True, slots=True)
class Quiesced:
    """A connector that is stopped around some steps: its current state, and all checks of the stop.

    Every action that writes offsets derives its checks from here, so that no plan can lack one.
    """

    connector: Connector
    state: str
    workers: tuple[str, ...]
    quiet_seconds: float
    locks: frozenset[str]

    @property
    def stop(self) -> SetRunState:
        """Return the step that stops the connector."""
        return SetRunState(self.connector.cluster, self.connector.name, STOPPED)

    def find_intents(self) -> Mapping[str, Intent]:
        """Return the expected state for the step that stops the connector; it is not read a second time."""
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

        `config` is the fingerprint of the config that the steps rely on. `restores` is the state to restore if it is
        not the current one. `progress` are the checks after the connector runs again. An undo (`is_undo`) has no step
        that stops a stopped connector; a new plan has one, so that the plan is out of date once the connector runs.
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
    """Read a connector that will be stopped.

    Raises:
        NotFoundError: The connector does not exist.
        UnsettledError, RefusedError: Its state can't be determined, so it could not be restored.
    """
    return build_quiesced(reads.use(PLANNING).clusters.client(cluster).read_connector(name), reads)


def build_quiesced(connector: Connector, reads: Reads) -> Quiesced:
    """Return the same for a connector that is already read.

    Raises:
        UnsettledError, RefusedError: Its state can't be determined, so it could not be restored.
    """
    return Quiesced(
        connector,
        require_run_state(connector, reads.world),
        find_workers(connector),
        find_quiet_seconds(reads.use(PLANNING).context),
        reads.use(LOCKS).find_connector(connector.cluster, connector.name, [connector.config], kind=connector.type),
    )


def check_write(write: WriteOffsets, connector: Connector, planning: Planning) -> None:
    """Raise for records that do not belong to the connector, before anything is stopped.

    Raises:
        RefusedError: A record has another topic, or a key of another owner.
    """
    settings = planning.clusters.settings(write.cluster)
    topics = (find_own_topic(connector, settings), settings.offsets_topic)
    check_own_records(write.records, connectors=(write.name,), topics=topics)


@dataclass(frozen=True, slots=True)
class OffsetsSeen:
    """What `ChangeOffsets` reads about one connector."""

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
class ChangeOffsets(ConnectorSubject, Action):
    """Set offsets for partitions of one connector, or delete those that are None; other partitions stay unchanged.

    With the route TOPIC exactly `records` are written, in their order. `planned` is what the plan reprocesses and
    skips: beyond the `tolerance` nothing is written. None stands for an undo, which is not counted again. `config` is
    the fingerprint of the config that the offsets were planned for. `restores` is the state to restore if it is not the
    state of the connector when the plan is prepared. `wait_seconds` is how long to wait for the first new offset, by
    default as long as the workers need to store one.
    """

    reaches_by_itself: ClassVar[bool] = True

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
    def write(self) -> WriteOffsets:
        """Return the step that writes."""
        return WriteOffsets(self.cluster, self.name, self.offsets, self.route, self.records)

    @classmethod
    def inspect(cls, actions: Sequence[Self], reads: Reads) -> Sequence[OffsetsSeen]:
        """Read the connectors, their offsets, and the effect of the new offsets."""
        reads.world.use(SNAPSHOTS).expect(action.name for action in actions)
        answers = fan_out({str(number): partial(action.read, reads) for number, action in enumerate(actions)})
        for error in answers.failures.values():
            raise error
        return list(answers.results.values())

    def read(self, reads: Reads) -> OffsetsSeen:
        """Read one connector, its offsets, and the effect of the new offsets."""
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
            settings=planning.clusters.settings(self.cluster),
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
        """Return the steps: stop, check, write, verify, restore; none if offsets and state are already right."""
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
        """Return the connector's locks, and the permissions to read and write its offsets."""
        return Needs(seen.quiesced.locks, seen.rights)

    def effects(self, seen: OffsetsSeen) -> tuple[Effect, ...]:
        """Return one line for the connector, one field for each partition, and the effect on its target."""
        connector = seen.quiesced.connector
        fields = tuple(
            _build_field(seen.meaning, held, wanted, preview)
            for held, wanted, preview in zip(seen.held, find_written(self.write), seen.previews, strict=True)
        )
        is_stopped = (self.restores or seen.quiesced.state) == STOPPED
        how = Disruption.STOPPED if is_stopped else Disruption.STOPS
        return (
            Effect(
                ChangeKind.CHANGE,
                f"connector/{connector.owner}",
                f"{how}: {say_total(sum_previews(seen.previews), seen.previews)}",
                (*fields, *build_record_changes(self.records, seen.held)),
                tasks=0 if is_stopped or connector.status is None else len(connector.status.tasks),
                consequences=tuple(_build_consequences(seen.meaning, seen.previews)),
            ),
        )

    def find_intents(self, seen: OffsetsSeen) -> Mapping[str, Intent]:
        """Return the state of the connector."""
        return seen.quiesced.find_intents()

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the action that restores the previous offsets of the partitions and the connector's state."""
        restores = find_unrestored_state(past)
        if past.find(WriteOffsets) is None:
            return SetRunState(self.cluster, self.name, restores) if restores else None
        back = past.undo_last(WriteOffsets, WriteOffsets)
        return None if back is None else undo_write(back, restores=restores)


def undo_write(back: WriteOffsets, *, restores: str = "") -> ChangeOffsets:
    """Return the action for a write that undoes another one."""
    return ChangeOffsets(back.cluster, back.name, back.offsets, back.route, back.records, restores=restores)


def find_unrestored_state(past: ActionHistory) -> str:
    """Return the state before a stop that a change is not known to have restored; "" if there is none."""
    stops = past.find_all(SetRunState)
    if not stops or (len(stops) > 1 and stops[-1].is_good):
        return ""
    before = stops[0].intent.before if stops[0].intent is not None else None
    return "" if before is None else str(before["state"])


def is_same(held: CurrentOffset, wanted: Offset) -> bool:
    """Return whether a partition has this offset for certain."""
    return not held.ambiguity and spell_offset(held.offset) == spell_offset(wanted.offset)


Complete = Callable[[Sequence[CurrentOffset]], CompletedOffsets]
"""Adds missing records to offsets."""


@dataclass(frozen=True, slots=True)
class ChosenWrite:
    """The step that writes the offsets, and the notes of the plan about it."""

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
    """Choose the step that writes these offsets. `has_rest` is whether the workers accept offsets, as from 3.6 on.

    REST encodes every key in its own way and writes it to one partition of the topic. If a record has another key
    encoding, or is on another partition, REST would write a second one beside it. No task would read that one, or it
    would be unknown which one it reads. Then all are written as records, each over the existing one.
    """
    if ambiguities := [found.ambiguity for found in held if found.ambiguity]:
        raise RefusedError(
            f"can't determine which record the tasks of {connector.owner} use; no changes were made",
            cause="; ".join(ambiguities),
            hint=f"list them with seamark offsets show {connector.owner}; repair them with seamark offsets repair",
        )
    cluster, name, wanted = connector.cluster, connector.name, tuple(offsets)
    if connector.type is ConnectorType.SINK:
        return ChosenWrite(WriteOffsets(cluster, name, wanted, WriteRoute.REST if has_rest else WriteRoute.GROUP))
    # REST overwrites the existing records, or there is none: a key without a record has no other encoding.
    if has_rest and all(
        not found.is_misplaced and all(decode_key(one.key).is_rest_spelling for one in find_read_records(found))
        for found in held
    ):
        return ChosenWrite(WriteOffsets(cluster, name, wanted))
    completed = complete(held)
    records = tuple(
        record for found, one in zip(completed.held, wanted, strict=True) for record in _build_records(found, one)
    )
    return ChosenWrite(WriteOffsets(cluster, name, wanted, WriteRoute.TOPIC, records), completed.notes)


def _build_records(held: CurrentOffset, wanted: Offset) -> Iterator[HeldRecord]:
    value = encode_value(wanted.offset)
    # If there are two topics, the one that the tasks read is written last: until then nothing has changed for them.
    for record in reversed(find_read_records(held)):
        yield HeldRecord(record.topic, record.partition, record.key, value)
