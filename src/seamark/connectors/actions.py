"""Actions that must leave a connector running: change its config, resume it, restart it.

They have one mechanism: the step that changes something, the wait until connector and tasks run, and the steps that
restore what was there if they don't (`build_awaited`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Annotated, ClassVar

from seamark.changes.action import (
    LOCKS,
    Action,
    ActionHistory,
    ConfigWrite,
    Needs,
    NewName,
    Reads,
    StepSeen,
    StepSequence,
    When,
    action_kind,
    in_turn,
    is_met,
    needs_permission,
)
from seamark.changes.codec import SecretConfig
from seamark.changes.effect import ChangeKind, Effect
from seamark.changes.images import find_references, find_typed, reveal_config, split_secrets
from seamark.changes.step import CanNotUndo, ConnectorSubject, Intent, Step
from seamark.connect.model import Connector, State
from seamark.connectors.run_state import AwaitRunning, RestartFailed, RestartTasks, SetRunState, is_running
from seamark.connectors.steps import (
    LEFTOVERS,
    CreateConnector,
    DeleteConnector,
    PutConfig,
    build_config_fields,
    find_connector,
    find_locks,
    say_tasks,
)
from seamark.policy.permissions import Permission
from seamark.report.words import render_count

RUNNING = "RUNNING"
_AT_REST = frozenset({State.PAUSED, State.STOPPED})
# Most invalid configs fail at once; some fail when the first rows are read.
STABLE_SECONDS = 3.0
# A task that is restarted shows RUNNING until it has ended: `task.shutdown.graceful.timeout.ms` is 5 s by default.
RESTART_STABLE_SECONDS = STABLE_SECONDS + 5.0
# No real request completes within this time. A context with such a limit has simulated servers and a simulated clock.
_MADE_UP_SECONDS = 1.0


def find_stable_seconds(in_flight_seconds: float, *, usual: float = STABLE_SECONDS) -> float:
    """Return how long a connector has to run before it counts as running."""
    return usual if in_flight_seconds >= _MADE_UP_SECONDS else in_flight_seconds / 10


class OnFailure(StrEnum):
    """What happens to a new connector that does not run."""

    KEEP = "keep"
    STOP = "stop"
    # Where Connect is too old to stop a connector.
    PAUSE = "pause"
    DELETE = "delete"


def build_awaited(first: Step, wait: AwaitRunning, *back: Step) -> StepSequence:
    """Return a step, the wait until its connector runs, and the steps that restore what was there if it doesn't."""
    waiting = replace(wait, restores=bool(back))
    return (*in_turn(first, waiting), *((step, When.FALLBACK) for step in back))


@dataclass(frozen=True, slots=True)
class ConnectorSeen:
    """The current connector, what the first step expects, and the config with its references resolved."""

    present: Connector | None = field(repr=False)
    intent: Intent = field(repr=False)
    locks: frozenset[str]
    cluster_lock: str
    revealed: Mapping[str, str] = field(default_factory=dict, repr=False)
    typed: frozenset[str] = frozenset()
    read_leftovers: Callable[[], tuple[str, ...]] = field(default=tuple, repr=False, compare=False)

    @property
    def tasks(self) -> int:
        """Return the number of tasks that run now."""
        status = self.present.status if self.present else None
        return len(status.tasks) if status else 0


@action_kind("apply-connector")
@needs_permission(Permission.CHANGE_CONFIG)
@dataclass(frozen=True, slots=True)
class ApplyConnector(ConnectorSubject, Action):
    """Create a connector, replace its config, or delete it if `config` is None.

    The values of the keys `keep` stay as Connect has them. `secret` are keys that contain secrets although their names
    don't indicate it. `state` is the initial state of a new connector. If the connector should run, the action waits
    for it, up to `wait_seconds`; if it ran before and does not run then, its previous config is restored. Without
    `wait_seconds` there is no wait. `on_failure` is what happens to a new connector that does not run.
    """

    shown: ClassVar[frozenset[str]] = frozenset({"cluster", "name", "config"})

    config: Annotated[Mapping[str, str] | None, SecretConfig()] = field(repr=False)
    keep: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()
    state: str = RUNNING
    wait_seconds: float = 0.0
    stable_seconds: float = 0.0
    on_failure: OnFailure = OnFailure.KEEP

    def find_permissions(self) -> frozenset[Permission]:
        """Return what a role must allow: deleting a connector is another permission than changing its config."""
        if self.config is None:
            return frozenset({Permission.DELETE})
        return self.permissions | ({Permission.DELETE} if self.on_failure is OnFailure.DELETE else set())

    def read(self, reads: Reads) -> ConnectorSeen:
        """Read the current connector."""
        return self.see(reads, find_connector(reads, self.cluster, self.name))

    def see(self, reads: Reads, present: Connector | None) -> ConnectorSeen:
        """Return what the action needs to know; `present` is the connector that was read, None if there is none."""
        configs = [] if self.config is None else [self.config]
        revealed = {} if self.config is None else reveal_config(self.config, reads.world)
        return ConnectorSeen(
            present,
            self.build_first(present).intend(reads.world),
            find_locks(reads, self.cluster, self.name, present, configs),
            reads.use(LOCKS).find_cluster(self.cluster),
            revealed,
            find_typed(reads.world, self.cluster, None if present is None else present.config, revealed or None),
            partial(reads.use(LEFTOVERS), self.cluster, self.name) if self.config is None else tuple,
        )

    def build_first(self, present: Connector | None) -> Step:
        """Return the step that changes the config; the other steps expect its result."""
        if self.config is None:
            return DeleteConnector(self.cluster, self.name, secret=self.secret)
        if present is None:
            return CreateConnector(self.cluster, self.name, dict(self.config), state=self.state, secret=self.secret)
        return PutConfig(self.cluster, self.name, self.config, keep=self.keep, secret=self.secret)

    def steps(self, seen: ConnectorSeen) -> StepSequence:
        """Return the steps: change the config, wait until the connector runs, else restore the previous config."""
        if is_met(seen.intent):
            return ()
        first = self.build_first(seen.present)
        wait = AwaitRunning(
            self.cluster, self.name, deadline_seconds=self.wait_seconds, stable_seconds=self.stable_seconds
        )
        if self.config is None or not self.wait_seconds:
            return in_turn(first)
        if seen.present is None:
            return build_awaited(first, wait, *self._build_end()) if self.state == RUNNING else in_turn(first)
        status = seen.present.status
        if status is None or status.state in _AT_REST:
            return in_turn(first)
        if not is_running(status):
            # A config that did not run before is not restored.
            return in_turn(first, wait)
        back = self._build_back(seen.present, seen)
        return build_awaited(first, wait, back, wait)

    def _build_end(self) -> tuple[Step, ...]:
        """Return the step that ends a new connector which does not run."""
        if self.on_failure is OnFailure.KEEP:
            return ()
        if self.on_failure is OnFailure.DELETE:
            secret = (*self.secret, *find_references(self.config or {}))
            return (DeleteConnector(self.cluster, self.name, secret=secret),)
        return (SetRunState(self.cluster, self.name, "STOPPED" if self.on_failure is OnFailure.STOP else "PAUSED"),)

    def _build_back(self, present: Connector, seen: ConnectorSeen) -> PutConfig:
        held = {key: value for key, value in present.config.items() if key != "name"}
        # After the change Connect has the kept secrets still, so that the step needn't contain them.
        present_then = {**(seen.revealed or self.config or {}), **{key: held[key] for key in self.keep if key in held}}
        # A kept key is a secret even if only the new config's class types it, and that config doesn't contain it.
        typed = seen.typed.union(self.keep)
        shown, kept = split_secrets(held, present_then, typed)
        # If the config has a reference, the value that Connect has may be a secret as well.
        secret = (*self.secret, *find_references(self.config or {}), *sorted(typed.intersection(shown)))
        back = PutConfig(self.cluster, self.name, shown, keep=kept, secret=secret)
        return replace(back, hidden=tuple(key for key in secret if key in shown))

    def needs(self, seen: ConnectorSeen) -> Needs:
        """Return the connector's locks, or its Connect cluster's if several change, and the configs for the policy."""
        configs = () if self.config is None else (ConfigWrite(self.cluster, self.name, self.config, self.keep),)
        return Needs(seen.locks, configs=configs, wide_lock=seen.cluster_lock)

    def effects(self, seen: ConnectorSeen) -> tuple[Effect, ...]:
        """Return one line for the connector."""
        if is_met(seen.intent):
            return ()
        fields = build_config_fields(seen.intent)
        if self.config is None:
            return (Effect(ChangeKind.DELETE, self.subject, f"delete: {say_tasks(seen.tasks, 'ends', 'end')}"),)
        if seen.present is None:
            return (Effect(ChangeKind.CREATE, self.subject, f"create, {self.state}", fields),)
        words = f"restarts {render_count(seen.tasks, 'task')}" if seen.tasks else "no task runs now"
        return (Effect(ChangeKind.CHANGE, self.subject, words, fields, tasks=seen.tasks),)

    def undo_notes(self, seen: ConnectorSeen) -> tuple[str, ...]:
        """Return notes on what remains if the connector is deleted."""
        return seen.read_leftovers()

    def find_intents(self, seen: ConnectorSeen) -> Mapping[str, Intent]:
        """Return the expected values of the first step."""
        first = self.build_first(seen.present)
        return {f"{first.subject}#{first.aspect}": seen.intent}

    def find_new_names(self) -> tuple[NewName, ...]:
        """Return the connector, if none of that name exists."""
        return () if self.config is None else (NewName(self.cluster, self.name, is_certain=False),)

    def find_obstacle(self, seen: ConnectorSeen) -> str:
        """Return why the change of an existing connector could not be undone; "" if it could."""
        if seen.intent.before is None:
            return ""
        back = self.build_first(seen.present).undo(seen.intent)
        return back.because if isinstance(back, CanNotUndo) else ""

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the action that restores the previous config."""
        # Later steps only waited, or restored.
        first = next(one for one in past.steps if one.may_have_acted)
        back = None if first.intent is None else first.step.undo(first.intent)
        return _from_step(back) if isinstance(back, Step) else back


def _from_step(step: Step) -> ApplyConnector:
    if isinstance(step, DeleteConnector):
        return ApplyConnector(step.cluster, step.name, None, secret=step.secret)
    if isinstance(step, CreateConnector):
        return ApplyConnector(step.cluster, step.name, step.config, secret=step.secret, state=step.state)
    if isinstance(step, PutConfig):
        return ApplyConnector(step.cluster, step.name, step.config, keep=step.keep, secret=step.secret)
    raise TypeError(f"{type(step).__name__} doesn't restore a connector")


@action_kind("set-connector-state")
@needs_permission(Permission.OPERATE)
@dataclass(frozen=True, slots=True)
class SetConnectorState(ConnectorSubject, Action):
    """Run, pause or stop an existing connector.

    If it should run, the action waits for it, up to `wait_seconds`; if it does not run then, its previous state is
    restored. Without `wait_seconds` there is no wait.
    """

    state: str
    wait_seconds: float = 0.0
    stable_seconds: float = 0.0

    def read(self, reads: Reads) -> StepSeen:
        """Read the present state and the locks of the connector."""
        return self._step.see(reads)

    def steps(self, seen: StepSeen) -> StepSequence:
        """Return the steps: set the state, wait until the connector runs, else restore the previous state."""
        if is_met(seen.intent):
            return ()
        if self.state != RUNNING or not self.wait_seconds:
            return in_turn(self._step)
        back = self._step.undo(seen.intent)
        wait = AwaitRunning(
            self.cluster, self.name, deadline_seconds=self.wait_seconds, stable_seconds=self.stable_seconds
        )
        return build_awaited(self._step, wait, *([back] if isinstance(back, Step) else []))

    def needs(self, seen: StepSeen) -> Needs:
        """Return the locks of the connector."""
        return Needs(seen.locks)

    def effects(self, seen: StepSeen) -> tuple[Effect, ...]:
        """Return the line of the state, unless the connector has it."""
        return self._step.effects(seen)

    def find_intents(self, seen: StepSeen) -> Mapping[str, Intent]:
        """Return the present and the wanted state."""
        return self._step.find_intents(seen)

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the action that restores the previous state, unless a fallback has done so."""
        states = past.find_all(SetRunState)
        if not states or (len(states) > 1 and states[-1].is_good):
            return None
        intent = states[0].intent
        back = None if intent is None else states[0].step.undo(intent)
        return back if isinstance(back, SetRunState) else None

    @property
    def _step(self) -> SetRunState:
        return SetRunState(self.cluster, self.name, self.state)


@action_kind("restart-connector")
@needs_permission(Permission.OPERATE)
@dataclass(frozen=True, slots=True)
class RestartConnector(ConnectorSubject, Action):
    """Restart parts of a connector (`RestartTasks`), and wait until connector and tasks run, up to `wait_seconds`.

    With `pace`, so many connectors of the plan restart at once, and the first that does not run stops the rest.
    """

    only_failed: bool = True
    task: int | None = None
    pace: int = 0
    wait_seconds: float = 0.0
    stable_seconds: float = 0.0

    @property
    def _first(self) -> RestartTasks:
        return RestartTasks(self.cluster, self.name, self.only_failed, self.task)

    def read(self, reads: Reads) -> StepSeen:
        """Read which parts are to be restarted."""
        found = find_connector(reads, self.cluster, self.name)
        return StepSeen(self._first.intend(reads.world), find_locks(reads, self.cluster, self.name, found, []))

    def steps(self, seen: StepSeen) -> StepSequence:
        """Return the steps: restart, and wait until everything runs if it is meant to."""
        if is_met(seen.intent):
            return ()
        if not self.wait_seconds and self.only_failed and self.task is None:
            # Without a wait, the step itself observes that nothing is failed any more.
            return in_turn(RestartFailed(self.cluster, self.name))
        if not self.wait_seconds or seen.intent.extra["state"] != RUNNING:
            return in_turn(self._first)
        wait = AwaitRunning(
            self.cluster, self.name, deadline_seconds=self.wait_seconds, stable_seconds=self.stable_seconds
        )
        return build_awaited(self._first, wait)

    def find_pace(self) -> int:
        """Return how many connectors may restart at once."""
        return self.pace

    def needs(self, seen: StepSeen) -> Needs:
        """Return the connector's locks."""
        return Needs(seen.locks)

    def effects(self, seen: StepSeen) -> tuple[Effect, ...]:
        """Return one line for the connector."""
        if is_met(seen.intent):
            return ()
        due = seen.intent.before["due"]
        if self.only_failed:
            return (Effect(ChangeKind.CHANGE, self.subject, f"restarts {', '.join(due)}", tasks=len(due)),)
        tasks = len(due) - 1
        words = f"restarts it and {render_count(tasks, 'task')}"
        return (Effect(ChangeKind.CHANGE, self.subject, words, tasks=tasks),)

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return None: a restart leaves nothing to restore."""
        del past
        return None
