"""The action that changes the offsets of one connector: stop, check, write, verify, restore its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
from seamark.changes.effect import Effect, Preview
from seamark.changes.step import CanNotUndo, Intent, Step
from seamark.connect.connector import Connector
from seamark.connectors.run_state import SetRunState
from seamark.core.fanout import fan_out
from seamark.core.offset import Offset, spell_offset
from seamark.core.refs import spell_aspect
from seamark.kafka.records_held import HeldRecord
from seamark.offsets.held_offset import HeldOffset, WriteRoute
from seamark.offsets.port import PLANNING, SNAPSHOTS, Planning
from seamark.offsets.stores.own_records import check_own_records
from seamark.offsets.stores.stores import find_own_topic
from seamark.offsets.write.access import find_offset_rights
from seamark.offsets.write.effect import How, build_offset_effect, build_record_changes, find_written
from seamark.offsets.write.guards import find_quiet_seconds, find_workers, require_run_state
from seamark.offsets.write.preview_step import CheckPreview
from seamark.offsets.write.preview_totals import DEFAULT_TOLERANCE, Tolerance, Total
from seamark.offsets.write.progress import build_progress
from seamark.offsets.write.steps import WriteOffsets
from seamark.offsets.write.stopped import ProveStopped, VerifyOffsets
from seamark.policy.permission import Permission
from seamark.policy.rights import Right

if TYPE_CHECKING:
    from seamark.connect.connector import Connector
    from seamark.offsets.semantics import Meaning

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

    def build_proof(self, *, accepts_zombies: bool = False, config: str = "") -> ProveStopped:
        """Return the check that the connector has stopped."""
        cluster, name = self.connector.cluster, self.connector.name
        return ProveStopped(cluster, name, self.workers, self.quiet_seconds, accepts_zombies, config)

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
    held: tuple[HeldOffset, ...]
    previews: tuple[Preview, ...]
    meaning: Meaning = field(repr=False)
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
                how=How.STOPPED if restored == STOPPED else How.STOPS,
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


def is_same(held: HeldOffset, wanted: Offset) -> bool:
    """Return whether a partition has this offset for certain."""
    return not held.doubt and spell_offset(held.offset) == spell_offset(wanted.offset)
