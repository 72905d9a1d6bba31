"""Steps that pause, resume or stop a connector, or restart its failed tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from seamark.changes.action import (
    Action,
    ActionHistory,
    CheckStep,
    Needs,
    Reads,
    StepSeen,
    StepSequence,
    When,
    action_kind,
    in_turn,
    is_met,
    needs_permission,
)
from seamark.changes.effect import ChangeKind, Effect, FieldChange
from seamark.changes.environment import Environment
from seamark.changes.step import CanNotUndo, ConnectorSubject, Intent, Observed, Step, step_kind
from seamark.connect.api import CONNECT, STATUSES
from seamark.connect.model import ConnectorStatus, State
from seamark.connectors.heal import describe_failure
from seamark.connectors.read import find_run_state, read_run_state, read_status
from seamark.connectors.steps import ConnectorAction, say_tasks
from seamark.errors import DeadlineError, NotFoundError, RefusedError, SeamarkError
from seamark.policy.permissions import Permission

# A check costs a request, or a share of a bulk request.
_LOOK_SECONDS = 1.0
# Directly after a change the status is still that of the previous tasks. A rebalance and a restart show within some
# seconds; a failure that lasts longer is due to the new config.
_FAILED_SECONDS = 8.0
# Some connectors have nothing to do and create no task, which is not a failure.
_EMPTY_SECONDS = 15.0


@step_kind("await-running")
@dataclass(frozen=True, slots=True)
class AwaitRunning(ConnectorSubject, CheckStep):
    """Waits for a connector and its tasks, until all of them have run for `stable_seconds`."""

    aspect: ClassVar[str] = "health"

    deadline_seconds: float = 60.0
    stable_seconds: float = 3.0

    @property
    def settle_seconds(self) -> float:
        return self.deadline_seconds

    def describe(self) -> str:
        return f"check that {self.subject} and its tasks run"

    def perform(self, world: Environment, intent: Intent) -> None:
        clock = world.clock
        watch = _Watch(self, began_at=clock.now())
        while True:
            now = clock.now()
            try:
                status, trouble = world.use(STATUSES)(self.cluster, self.name), None
            except SeamarkError as error:
                if not error.retryable and now - watch.began_at > _FAILED_SECONDS:
                    raise
                status, trouble = None, error
            if watch.is_over(status, now=now):
                return
            if now >= watch.began_at + self.deadline_seconds:
                raise watch.build_late(status, trouble)
            clock.sleep(min(_LOOK_SECONDS, self.stable_seconds / 3))

    def observe(self, world: Environment, intent: Intent) -> Observed:
        status = read_status(world, self.cluster, self.name)
        return Observed.AFTER if status is not None and is_running(status) else Observed.BEFORE


class _Watch:
    """What was seen while waiting: since when everything runs, since when something has failed."""

    def __init__(self, step: AwaitRunning, *, began_at: float) -> None:
        self._step = step
        self.began_at = began_at
        self._running_since: float | None = None
        self._failed_since: float | None = None

    def is_over(self, status: ConnectorStatus | None, *, now: float) -> bool:
        """Return whether it runs stably. Raises if it has failed permanently."""
        runs = status is not None and is_running(status)
        fails = status is not None and describe_failure(status) != ""
        self._running_since = (self._running_since or now) if runs else None
        self._failed_since = (self._failed_since or now) if fails else None
        if status is not None and fails and _lasts(self._failed_since, now, _FAILED_SECONDS):
            raise RefusedError(
                f"{self._step.subject} does not run with this config",
                cause=describe_failure(status),
                hint=f"show the whole trace: seamark connectors show {self._step.cluster}/{self._step.name} -o wide",
            )
        needed = self._step.stable_seconds if status is not None and status.tasks else _EMPTY_SECONDS
        return _lasts(self._running_since, now, needed)

    def build_late(self, status: ConnectorStatus | None, trouble: SeamarkError | None) -> SeamarkError:
        """Build the error for the end of the wait."""
        seen = trouble.message if trouble else _say(status)
        return DeadlineError(
            f"{self._step.subject} did not run within {self._step.deadline_seconds:g} s",
            cause=seen,
            hint=f"show its state: seamark connectors show {self._step.cluster}/{self._step.name}",
        )


def is_running(status: ConnectorStatus) -> bool:
    """Return whether the connector and all its tasks run."""
    return status.state is State.RUNNING and all(task.state is State.RUNNING for task in status.tasks)


def _lasts(since: float | None, now: float, seconds: float) -> bool:
    return since is not None and now - since >= seconds


def _say(status: ConnectorStatus | None) -> str:
    if status is None:
        return "Connect reports no status of it"
    if failure := describe_failure(status):
        return failure
    states = ", ".join(f"task {task.id} {task.state}" for task in status.tasks) or "no task"
    return f"connector {status.state}, {states}"


_VERBS = {"RUNNING": "resume", "PAUSED": "pause", "STOPPED": "stop"}


@action_kind("set-run-state")
@needs_permission(Permission.OPERATE)
@step_kind("set-run-state")
@dataclass(frozen=True, slots=True)
class SetRunState(ConnectorAction):
    """Run, pause or stop a connector."""

    aspect: ClassVar[str] = "state"
    # A sink may need its task.shutdown.graceful.timeout.ms and a rebalance until its tasks have ended.
    settle_seconds: ClassVar[float] = 60.0

    state: str

    def __post_init__(self) -> None:
        # A state may come from a plan file, through the action that restores it.
        if self.state not in _VERBS:
            raise RefusedError(
                f"{self.subject} can't be set to a state other than {', '.join(_VERBS)}", hint="create a new plan"
            )

    def describe(self) -> str:
        effect = {
            "RUNNING": "its tasks start",
            "PAUSED": "its tasks stay assigned",
            "STOPPED": "its tasks end",
        }[self.state]
        return f"{_VERBS[self.state]} {self.subject}: {effect}"

    def build_effect(self, seen: StepSeen) -> Effect:
        words = {
            "RUNNING": f"resume: {say_tasks(seen.tasks, 'runs again', 'run again')}"
            if seen.tasks
            else "resume: its tasks start",
            "PAUSED": f"pause: {say_tasks(seen.tasks, 'stays assigned', 'stay assigned')}",
            "STOPPED": f"stop: {say_tasks(seen.tasks, 'ends', 'end')}",
        }.get(self.state, self.state)
        before = None if seen.intent.before is None else seen.intent.before["state"]
        fields = (FieldChange("state", before, self.state),)
        return Effect(
            ChangeKind.CHANGE, self.subject, words, fields, tasks=seen.tasks if self.state == "RUNNING" else 0
        )

    def intend(self, world: Environment) -> Intent:
        before = read_run_state(world, self.cluster, self.name)
        return Intent(before=None if before is None else {"state": before}, after={"state": self.state})

    def perform(self, world: Environment, intent: Intent) -> None:
        if intent.before is None:
            raise RefusedError(f"{self.subject} doesn't exist", hint="list the connectors: seamark connectors list")
        connect = world.use(CONNECT)(self.cluster)
        {"RUNNING": connect.resume, "PAUSED": connect.pause, "STOPPED": connect.stop}[self.state](self.name)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        status = read_status(world, self.cluster, self.name)
        if status is None:
            return Observed.FOREIGN
        now = find_run_state(status)
        if now is None:
            return Observed.BETWEEN
        if now == self.state:
            # Connect shows STOPPED before the tasks have ended.
            return Observed.BETWEEN if self.state == "STOPPED" and status.tasks else Observed.AFTER
        return Observed.BEFORE if intent.before == {"state": now} else Observed.FOREIGN

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        return None if intent.before is None else SetRunState(self.cluster, self.name, intent.before["state"])


@action_kind("set-declared-state")
@needs_permission(Permission.OPERATE)
@dataclass(frozen=True, slots=True)
class SetDeclaredState(ConnectorSubject, Action):
    """Run, pause or stop an existing connector as its spec declares.

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
        before = seen.intent.before
        if self.state != "RUNNING" or not self.wait_seconds or before is None:
            return in_turn(self._step)
        wait = AwaitRunning(
            self.cluster, self.name, deadline_seconds=self.wait_seconds, stable_seconds=self.stable_seconds
        )
        back = SetRunState(self.cluster, self.name, before["state"])
        return (*in_turn(self._step, wait), (back, When.FALLBACK))

    def needs(self, seen: StepSeen) -> Needs:
        """Return the locks of the connector."""
        return Needs(seen.locks)

    def effects(self, seen: StepSeen) -> tuple[Effect, ...]:
        """Return the line of the state, unless it is as declared."""
        return self._step.effects(seen)

    def find_intents(self, seen: StepSeen) -> Mapping[str, Intent]:
        """Return the present and the declared state."""
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


@action_kind("restart-failed")
@needs_permission(Permission.OPERATE)
@step_kind("restart-failed")
@dataclass(frozen=True, slots=True)
class RestartFailed(ConnectorAction):
    """Restart a connector's failed parts; running ones are not changed."""

    aspect: ClassVar[str] = "tasks"
    drifts: ClassVar[bool] = True

    def describe(self) -> str:
        return f"restart the failed tasks of {self.subject}"

    def build_effect(self, seen: StepSeen) -> Effect:
        failed = seen.intent.before["failed"]
        return Effect(ChangeKind.CHANGE, self.subject, f"restarts {', '.join(failed)}", tasks=len(failed))

    def intend(self, world: Environment) -> Intent:
        failed = self._read_failed(world)
        if failed is None:
            raise NotFoundError(f"{self.subject} has no status", hint="list the connectors: seamark connectors list")
        return Intent(before={"failed": failed}, after={"failed": []})

    def perform(self, world: Environment, intent: Intent) -> None:
        world.use(CONNECT)(self.cluster).restart(self.name, include_tasks=True, only_failed=True)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        now = self._read_failed(world)
        if not now:
            return Observed.FOREIGN if now is None else Observed.AFTER
        return Observed.BEFORE if now == intent.before["failed"] else Observed.BETWEEN

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        # A task that runs again leaves nothing to restore.
        return None

    def _read_failed(self, world: Environment) -> list[str] | None:
        status = read_status(world, self.cluster, self.name)
        if status is None:
            return None
        parts = ["connector"] if status.state is State.FAILED else []
        return parts + [f"task {task.id}" for task in status.tasks if task.state is State.FAILED]
