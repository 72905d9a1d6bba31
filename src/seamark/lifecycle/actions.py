"""Actions on a connector together with its offsets: create it with offsets, rename it, and remove it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from seamark.changes.action import (
    LOCKS,
    Action,
    ActionHistory,
    ConfigWrite,
    Needs,
    PastStep,
    Reads,
    StandaloneStep,
    StepSeen,
    StepSequence,
    When,
    action_kind,
    in_turn,
    needs_permission,
)
from seamark.changes.codec import SecretConfig
from seamark.changes.effect import ChangeKind, Effect
from seamark.changes.environment import Environment
from seamark.changes.images import find_references
from seamark.changes.preconditions import build_stale
from seamark.changes.step import CanNotUndo, ConnectorSubject, Intent, Step, step_kind
from seamark.connect.capability import Capability
from seamark.connect.model import Connector
from seamark.connectors.run_state import AwaitRunning, SetRunState
from seamark.connectors.steps import PLUGIN_TYPES, CreateConnector, DeleteConnector, find_connector, find_locks
from seamark.core.offsets import Offset
from seamark.errors import RefusedError
from seamark.kafka.model import HeldRecord
from seamark.offsets.model import WriteRoute
from seamark.offsets.port import PLANNING
from seamark.offsets.quiesce import ConnectorSnapshot, build_snapshot, require_group_id
from seamark.offsets.semantics.registry import read_meaning
from seamark.offsets.write.action import (
    RUNNING,
    STOPPED,
    Quiesced,
    build_progress,
    check_write,
    find_written,
    read_quiesced,
)
from seamark.offsets.write.guards import CheckStopped, VerifyOffsets, find_quiet_seconds
from seamark.offsets.write.rights import find_offset_rights, find_read_rights
from seamark.offsets.write.steps import CheckNoOtherOffsets, CopyOffsets, VerifyCopied, WriteOffsets
from seamark.policy.permissions import Permission, Right
from seamark.report.words import render_count

if TYPE_CHECKING:
    from seamark.offsets.semantics import OffsetSemantics

Config = Mapping[str, str]


@step_kind("delete-if-stopped")
@dataclass(frozen=True, slots=True)
class DeleteIfStopped(DeleteConnector):
    """Deletes a connector that was created as stopped, unless another process has started or paused it since."""

    def intend(self, world: Environment) -> Intent:
        # `super()` doesn't work in a dataclass with slots.
        intent = DeleteConnector.intend(self, world)
        if intent.before is not None and intent.extra["state"] != STOPPED:
            raise RefusedError(
                f"{self.subject} is not deleted, because another process started it",
                cause=f"it was created as {STOPPED} and is {intent.extra['state']}",
                hint=f"check it with seamark connectors show {self.cluster}/{self.name}",
            )
        return intent


# Not all offsets of a hundred tables are shown; all of them are in the plan's actions.
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class StepView:
    """A step that is shown in a plan, and what it finds."""

    step: StandaloneStep
    seen: StepSeen = field(repr=False)

    def build_effect(self) -> Effect:
        """Build the line of the step."""
        return self.step.build_effect(self.seen)


def view_step(step: StandaloneStep, reads: Reads) -> StepView:
    """Read what a step finds."""
    (seen,) = type(step).inspect([step], reads)
    return StepView(step, seen)


@dataclass(frozen=True, slots=True)
class CreateSeen:
    """What `CreateWithOffsets` reads; nothing about the connector itself, which doesn't exist yet."""

    create: StepView
    connector: Connector = field(repr=False)
    meaning: OffsetSemantics = field(repr=False)
    quiet_seconds: float
    locks: frozenset[str]
    rights: frozenset[Right]
    progress: tuple[Step, ...]


@action_kind("create-with-offsets")
@needs_permission(Permission.CHANGE_CONFIG, Permission.CHANGE_OFFSETS)
@dataclass(frozen=True, slots=True)
class CreateWithOffsets(ConnectorSubject, Action):
    """Create a connector with offsets. It never runs without them.

    With the route REST, it is created STOPPED, gets its offsets, and only then its `state`. With the other routes, the
    offsets are written before it is created, because workers before 3.7 can't create a stopped connector. A connector
    that `is_fresh` starts without offsets: those in `offsets` are None, and no others may exist.

    If its offsets can't be written or verified, a stopped connector is deleted again, because it would later start
    without them. One that another process has created or started meanwhile is kept. One that should run is waited for,
    up to `wait_seconds`; without them there is no wait.
    """

    shown: ClassVar[frozenset[str]] = frozenset({"cluster", "name", "config"})

    config: Annotated[Config, SecretConfig()] = field(repr=False)
    offsets: tuple[Offset, ...]
    state: str = RUNNING
    route: WriteRoute = WriteRoute.REST
    records: tuple[HeldRecord, ...] = ()
    is_fresh: bool = False
    wait_seconds: float = 0.0
    stable_seconds: float = 0.0

    @property
    def is_written_first(self) -> bool:
        """Whether the offsets are written, or found to be none, before the connector is created."""
        return self.route is not WriteRoute.REST or not self.offsets

    def read(self, reads: Reads) -> CreateSeen:
        """Read the plugin's type and the offset semantics.

        Raises:
            UnsupportedError: the workers can't create a stopped connector, and its offsets aren't written first.
        """
        planning = reads.use(PLANNING)
        client = planning.clusters.client(self.cluster)
        if self.is_written_first and self.offsets:
            require_group_id(planning.context, planning.clusters.settings(self.cluster))
        if not self.is_written_first:
            client.read_capabilities().require(
                Capability.INITIAL_STATE, doing=f"create connector {self.name} as {STOPPED}"
            )
        kind = reads.use(PLUGIN_TYPES)(self.cluster, self.config.get("connector.class", ""))
        connector = Connector(self.name, self.cluster, kind, self.config)
        check_write(self._build_write(connector), connector, planning)
        create = view_step(self._create, reads)
        progress = build_progress(
            self.cluster,
            self.name,
            self.offsets,
            (),
            context=planning.context,
            settings=planning.clusters.settings(self.cluster),
        )
        rights: frozenset[Right] = frozenset()
        if self.is_written_first:
            rights = frozenset(find_offset_rights(self._build_write(connector), connector, planning))
        return CreateSeen(
            create,
            connector,
            read_meaning(connector, client),
            find_quiet_seconds(planning.context),
            create.seen.locks,
            rights,
            progress if self.state == RUNNING else (),
        )

    def steps(self, seen: CreateSeen) -> StepSequence:
        """Return the steps: create it stopped, write, verify, start it; or write and verify before the create."""
        write = self._build_write(seen.connector)
        proof = CheckStopped(self.cluster, self.name, quiet_seconds=seen.quiet_seconds, kept=write.kept)
        guard = self._build_guard(write.kept)
        wait = self._build_wait()
        if not self.offsets:
            return in_turn(*guard, seen.create.step, *wait)
        written = (proof, *guard, write, VerifyOffsets(write))
        if self.is_written_first:
            return in_turn(*written, seen.create.step, *wait, *seen.progress)
        start = () if self.state == STOPPED else (SetRunState(self.cluster, self.name, self.state), *wait)
        # A fresh one may have lost old offsets by now, which only an existing connector can get back.
        remove = DeleteIfStopped(self.cluster, self.name, secret=find_references(self.config))
        back = () if self.is_fresh else ((remove, When.FALLBACK),)
        return (*in_turn(seen.create.step, *written), *back, *in_turn(*start, *seen.progress))

    def _build_wait(self) -> tuple[Step, ...]:
        if self.state != RUNNING or not self.wait_seconds:
            return ()
        return (
            AwaitRunning(
                self.cluster, self.name, deadline_seconds=self.wait_seconds, stable_seconds=self.stable_seconds
            ),
        )

    def needs(self, seen: CreateSeen) -> Needs:
        """Return the locks, the ACLs to write the offsets without Connect, and the config for the policy."""
        return Needs(seen.locks, seen.rights, (ConfigWrite(self.cluster, self.name, self.config),))

    def effects(self, seen: CreateSeen) -> tuple[Effect, ...]:
        """Return one line for the connector, with the offsets at which it starts."""
        if self.is_fresh:
            return (self._build_fresh_effect(seen),)
        writes = "write" if self.is_written_first else f"create, {STOPPED}, write"
        words = f"{writes} {render_count(len(self.offsets), 'offset')}, then {self.state}"
        places = [seen.meaning.describe(found.partition, found.offset) for found in self.offsets]
        consequences = [f"starts at {where}: {place}" for where, place in places[:_SHOWN]]
        if len(places) > _SHOWN:
            consequences.append(f"… and {render_count(len(places) - _SHOWN, 'partition')} more")
        return (replace(seen.create.build_effect(), words=words, consequences=tuple(consequences)),)

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the action that deletes the connector and restores the previous offsets of that name."""
        deletes = past.undo_all(CreateConnector, DeleteConnector)
        if any(one.is_good for one in past.find_all(DeleteIfStopped)):
            written = past.find(WriteOffsets)
            if written is None or not written.is_good:
                return None
            # Workers write offsets only for a connector that exists.
            return CanNotUndo(
                f"{self.subject} was deleted again after its offsets were written; find them: seamark offsets orphans"
            )
        writes = past.undo_all(WriteOffsets, WriteOffsets)
        if not deletes and not writes:
            return None
        remove = RemoveConnector(
            self.cluster,
            self.name,
            secret=deletes[0].secret if deletes else (),
            is_created=bool(deletes),
            stops=bool(past.find_all(SetRunState)),
        )
        return remove.restore(writes[0]) if writes else remove

    def _build_fresh_effect(self, seen: CreateSeen) -> Effect:
        words = f"create without offsets, {self.state}"
        if self.offsets:
            words = f"create without offsets ({render_count(len(self.offsets), 'old offset')} deleted), {self.state}"
        wheres = [seen.meaning.describe(found.partition, None)[0] for found in self.offsets]
        consequences = [f"deletes the offset of {where}" for where in wheres[:_SHOWN]]
        if len(wheres) > _SHOWN:
            consequences.append(f"… and of {render_count(len(wheres) - _SHOWN, 'partition')} more")
        return replace(seen.create.build_effect(), words=words, consequences=tuple(consequences))

    def _build_guard(self, kept: ConnectorSnapshot | None) -> tuple[Step, ...]:
        if not self.is_fresh:
            return ()
        return (CheckNoOtherOffsets(self.cluster, self.name, tuple(one.partition for one in self.offsets), kept),)

    @property
    def _create(self) -> CreateConnector:
        return CreateConnector(
            self.cluster, self.name, self.config, state=self.state if self.is_written_first else STOPPED
        )

    def _build_write(self, connector: Connector) -> WriteOffsets:
        kept = build_snapshot(connector) if self.is_written_first else None
        return WriteOffsets(self.cluster, self.name, self.offsets, self.route, self.records, kept)


@dataclass(frozen=True, slots=True)
class RenameSeen:
    """What `RenameConnector` reads: the connector, how its workers create another one, and what the steps find."""

    quiesced: Quiesced
    can_create_stopped: bool
    locks: frozenset[str]
    rights: frozenset[Right]
    views: tuple[StepView, ...]

    @property
    def state(self) -> str:
        """The present state of the connector, which the new one gets."""
        return self.quiesced.state


@action_kind("rename-connector")
@needs_permission(Permission.CHANGE_CONFIG, Permission.CHANGE_OFFSETS, Permission.DELETE)
@dataclass(frozen=True, slots=True)
class RenameConnector(ConnectorSubject, Action):
    """Create a connector named `to` with the config of another one, and delete the other one.

    With `carries`, the new connector gets all offsets that the old one has after it is stopped. If anything fails
    before the new one runs, it is deleted, and the old one continues: nothing is reprocessed.
    """

    to: str
    carries: bool = False

    @property
    def sequence(self) -> str:
        """One sequence for both names: if the new connector can't be created, the old one stays."""
        return f"rename/{self.cluster}/{self.name}"

    def read(self, reads: Reads) -> RenameSeen:
        """Read the connector.

        Raises:
            UnsupportedError: the workers can't create another one in its state.
        """
        quiesced, planning = read_quiesced(self.cluster, self.name, reads), reads.use(PLANNING)
        connector, state = quiesced.connector, quiesced.state
        capabilities = planning.clusters.client(self.cluster).read_capabilities()
        if self.carries or state != RUNNING:
            capabilities.require(Capability.INITIAL_STATE, doing=f"create connector {self.to} as {state}")
        locks = reads.use(LOCKS).find_connector(self.cluster, self.to, [connector.config], kind=connector.type)
        can_create_stopped = capabilities.has(Capability.INITIAL_STATE)
        views = [view_step(step, reads) for step in self._list_steps(quiesced, can_create_stopped=can_create_stopped)]
        return RenameSeen(
            quiesced,
            can_create_stopped,
            quiesced.locks | locks,
            frozenset(find_read_rights(connector, planning.clusters)) if self.carries else frozenset(),
            tuple(views),
        )

    def steps(self, seen: RenameSeen) -> StepSequence:
        """Return the steps: stop the old one, create the new one stopped, copy, verify, start it, delete the old."""
        listed = self._list_steps(seen.quiesced, can_create_stopped=seen.can_create_stopped)
        if not self.carries:
            return in_turn(*listed)
        cluster, old, new, state = self.cluster, self.name, self.to, seen.state
        stop = () if state == STOPPED else listed[:1]
        create, *last = listed[len(stop) :]
        back = () if state == STOPPED else (SetRunState(cluster, old, state),)
        return (
            *in_turn(*stop, seen.quiesced.build_proof(), create),
            *in_turn(
                CheckStopped(cluster, new, quiet_seconds=seen.quiesced.quiet_seconds),
                CopyOffsets(cluster, old, new),
                VerifyCopied(cluster, old, new),
            ),
            *((step, When.FALLBACK) for step in (DeleteConnector(cluster, new), *back)),
            *in_turn(*last),
        )

    def needs(self, seen: RenameSeen) -> Needs:
        """Return the locks of both names, the ACLs to read the offsets, and the config for the policy."""
        return Needs(seen.locks, seen.rights, (ConfigWrite(self.cluster, self.to, _copy(seen.quiesced)),))

    def effects(self, seen: RenameSeen) -> tuple[Effect, ...]:
        """Return one line for each visible step."""
        return tuple(view.build_effect() for view in seen.views)

    def notes(self, seen: RenameSeen) -> tuple[str, ...]:
        """Return notes about what can't be undone."""
        return tuple(note for view in seen.views for note in view.step.notes(view.seen))

    def undo_notes(self, seen: RenameSeen) -> tuple[str, ...]:
        """Return notes about what remains."""
        return tuple(note for view in seen.views for note in view.step.undo_notes(view.seen))

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the action that removes the new connector, and makes the old one continue where it stopped."""
        if refusal := past.find_refusal():
            return refusal
        new, old = f"connector/{self.cluster}/{self.to}", self.subject
        creates = [one for one in past.undo_all(DeleteConnector, CreateConnector) if one.subject == old]
        deletes = past.undo_all(CreateConnector, DeleteConnector)
        runs = _find_unrestored(_pick(past, SetRunState, old))
        if not deletes or any(one.is_good for one in _pick(past, DeleteConnector, new)):
            return SetRunState(self.cluster, self.name, runs) if runs else None
        previous = PreviousConnector(self.name, runs=runs)
        if creates:
            previous = replace(previous, config=creates[0].config, state=creates[0].state)
        remove = RemoveConnector(
            self.cluster,
            self.to,
            secret=deletes[0].secret,
            stops=bool(_pick(past, SetRunState, new)),
            previous=previous,
        )
        writes = past.undo_all(CopyOffsets, WriteOffsets)
        return remove.restore(writes[0]) if writes else remove

    def _list_steps(self, quiesced: Quiesced, *, can_create_stopped: bool) -> list[StandaloneStep]:
        """Return the visible steps, in their order; the guards go between them."""
        cluster, state, delete = self.cluster, quiesced.state, DeleteConnector(self.cluster, self.name)
        first = STOPPED if can_create_stopped else RUNNING
        create = CreateConnector(cluster, self.to, _copy(quiesced), state=first)
        run = [] if first == state else [SetRunState(cluster, self.to, state)]
        if not self.carries:
            return [create, delete, *run]
        return [*([] if state == STOPPED else [quiesced.stop]), create, *run, delete]


@dataclass(frozen=True, slots=True)
class PreviousConnector:
    """The connector that another one has replaced.

    `config` and `state` are used to create it again; without them it still exists. `runs` is its final state, "" if its
    state isn't changed.
    """

    name: str
    config: Annotated[Config | None, SecretConfig()] = field(default=None, repr=False)
    state: str = RUNNING
    runs: str = ""


@dataclass(frozen=True, slots=True)
class RemoveSeen:
    """What `RemoveConnector` reads: the connector, if it exists, and what the steps find."""

    quiesced: Quiesced | None
    quiet_seconds: float
    locks: frozenset[str]
    rights: frozenset[Right]
    views: tuple[StepView, ...]


@action_kind("remove-connector")
@needs_permission(Permission.DELETE, Permission.CHANGE_OFFSETS)
@dataclass(frozen=True, slots=True)
class RemoveConnector(ConnectorSubject, Action):
    """Delete a connector that a change created, and restore the previous offsets of that name. Used for undo.

    `offsets`, `route` and `records` are these offsets; with `kept` they are written after the connector is deleted. It
    is deleted if `is_created`, and stopped first if `stops`. `previous` is the connector that it replaced. `secret` are
    keys of its config that contain secrets although their names don't suggest it.
    """

    offsets: tuple[Offset, ...] = ()
    route: WriteRoute = WriteRoute.REST
    records: tuple[HeldRecord, ...] = ()
    kept: ConnectorSnapshot | None = None
    secret: tuple[str, ...] = ()
    is_created: bool = True
    stops: bool = False
    previous: PreviousConnector | None = None

    def __post_init__(self) -> None:
        if self._is_written and self.kept is None and not self.is_created:
            raise RefusedError(
                f"the offsets of {self.subject} can't be restored while it runs", hint="create a new plan"
            )

    @property
    def sequence(self) -> str:
        """The sequence of the change that is undone."""
        return self.subject if self.previous is None else f"rename/{self.cluster}/{self.previous.name}"

    def restore(self, write: WriteOffsets) -> Self:
        """Return the same action with the offsets that a step restores."""
        return replace(self, offsets=write.offsets, route=write.route, records=write.records, kept=write.kept)

    def read(self, reads: Reads) -> RemoveSeen:
        """Read the connector.

        Raises:
            StalePlanError: another operator has deleted it.
        """
        planning, found = reads.use(PLANNING), find_connector(reads, self.cluster, self.name)
        if self.is_created and found is None:
            raise build_stale([f"{self.subject}#config"])
        quiesced = None if found is None else read_quiesced(self.cluster, self.name, reads)
        locks = find_locks(reads, self.cluster, self.name, found, [self.kept.config] if self.kept else [])
        if self.previous is not None:
            config = self.previous.config
            present = find_connector(reads, self.cluster, self.previous.name)
            locks |= find_locks(reads, self.cluster, self.previous.name, present, [config] if config else [])
        owner = self.kept.as_connector(self.cluster, self.name) if self.kept else found
        if self._is_written and owner:
            check_write(self._write, owner, planning)
        rights = find_offset_rights(self._write, owner, planning) if self._is_written and owner else ()
        return RemoveSeen(
            quiesced,
            find_quiet_seconds(planning.context),
            locks,
            frozenset(rights),
            tuple(view_step(step, reads) for step in self._list_steps(quiesced)),
        )

    def steps(self, seen: RemoveSeen) -> StepSequence:
        """Return the steps: create the previous one, stop this one, restore its offsets, delete it, start the other."""
        listed = self._list_steps(seen.quiesced)
        if not self._is_written:
            return in_turn(*listed)
        guarded = (self._build_proof(seen), self._write, VerifyOffsets(self._write))
        if self.kept is not None:
            return in_turn(*listed, *guarded)
        deletes = [number for number, step in enumerate(listed) if step == self._delete]
        return in_turn(*listed[: deletes[0]], *guarded, *listed[deletes[0] :])

    def needs(self, seen: RemoveSeen) -> Needs:
        """Return the locks of all names, the ACLs to write the offsets, and the restored config for the policy."""
        previous = self.previous
        configs = () if previous is None or previous.config is None else ((previous.name, previous.config),)
        return Needs(seen.locks, seen.rights, tuple(ConfigWrite(self.cluster, *one) for one in configs))

    def effects(self, seen: RemoveSeen) -> tuple[Effect, ...]:
        """Return one line for each visible step, and one for the offsets."""
        lines = [view.build_effect() for view in seen.views]
        if self._is_written:
            deletes = [number for number, view in enumerate(seen.views) if view.step == self._delete]
            place = len(lines) if self.kept is not None else deletes[0]
            lines.insert(place, Effect(ChangeKind.CHANGE, self.subject, self._write.describe()))
        return tuple(lines)

    def undo_notes(self, seen: RemoveSeen) -> tuple[str, ...]:
        """Return notes about what remains."""
        return tuple(note for view in seen.views for note in view.step.undo_notes(view.seen))

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the action that creates or renames the connector again."""
        if refusal := past.find_refusal():
            return refusal
        creates = past.undo_all(DeleteConnector, CreateConnector)
        if self.is_created and not creates:
            return CanNotUndo(f"{self.subject} was not deleted; undo the first change again instead")
        if self.previous is not None:
            return RenameConnector(self.cluster, self.previous.name, self.name, carries=self._is_written)
        stopped = [one.intent.before for one in past.find_all(SetRunState) if one.intent is not None]
        state = str(stopped[0]["state"]) if stopped and stopped[0] else creates[0].state if creates else RUNNING
        writes = past.undo_all(WriteOffsets, WriteOffsets)
        if not creates or not writes:
            return creates[0] if creates else None
        back = writes[0]
        return CreateWithOffsets(
            self.cluster,
            self.name,
            creates[0].config,
            back.offsets,
            state,
            back.route,
            back.records,
            is_fresh=all(one.offset is None for one in find_written(back)),
        )

    @property
    def _is_written(self) -> bool:
        return bool(self.offsets or self.records)

    @property
    def _write(self) -> WriteOffsets:
        return WriteOffsets(self.cluster, self.name, self.offsets, self.route, self.records, self.kept)

    @property
    def _delete(self) -> DeleteConnector:
        return DeleteConnector(self.cluster, self.name, secret=self.secret)

    def _build_proof(self, seen: RemoveSeen) -> CheckStopped:
        if self.kept is None and seen.quiesced is not None:
            return seen.quiesced.build_proof()
        return CheckStopped(self.cluster, self.name, quiet_seconds=seen.quiet_seconds, kept=self.kept)

    def _list_steps(self, quiesced: Quiesced | None) -> list[StandaloneStep]:
        """Return the visible steps, in their order; the guards and the write go between them."""
        must_stop = self._is_written and self.kept is None and quiesced is not None and quiesced.state != STOPPED
        stop = [SetRunState(self.cluster, self.name, STOPPED)] if self.stops or must_stop else []
        delete = [self._delete] if self.is_created else []
        previous = self.previous
        if previous is None:
            return [*stop, *delete]
        create, run = [], []
        if previous.config is not None:
            create = [CreateConnector(self.cluster, previous.name, previous.config, state=previous.state)]
        if previous.runs:
            run = [SetRunState(self.cluster, previous.name, previous.runs)]
        # If offsets are restored, the new connector isn't changed before the old one exists again.
        first = [*create, *stop] if self._is_written else [*stop, *create]
        return [*first, *delete, *run]


def _copy(quiesced: Quiesced) -> dict[str, str]:
    return {key: value for key, value in quiesced.connector.config.items() if key != "name"}


def _pick(past: ActionHistory, kind: type[Step], subject: str) -> list[PastStep]:
    return [one for one in past.find_all(kind) if one.step.subject == subject]


def _find_unrestored(states: Sequence[PastStep]) -> str:
    """Return the state in which a connector was stopped and that isn't known to be restored; "" if there is none."""
    if not states or (len(states) > 1 and states[-1].is_good):
        return ""
    before = states[0].intent.before if states[0].intent is not None else None
    return "" if before is None else str(before["state"])
