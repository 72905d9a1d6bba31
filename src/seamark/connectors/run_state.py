"""A connector is paused, resumed, stopped, or its failed tasks are started again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from seamark.changes.action import StepSeen, action_kind, needs_permission
from seamark.changes.effect import Effect, FieldChange, Sign
from seamark.changes.step import CanNotUndo, Intent, Observed, Step, step_kind
from seamark.changes.world import World
from seamark.connect.connector import State
from seamark.connect.ports import CONNECT
from seamark.connectors.connector_action import ConnectorAction, say_tasks
from seamark.connectors.read import find_run_state, read_run_state, read_status
from seamark.errors import NotFoundError, RefusedError
from seamark.policy.permission import Permission

_VERBS = {"RUNNING": "resume", "PAUSED": "pause", "STOPPED": "stop"}


@action_kind("set-run-state")
@needs_permission(Permission.OPERATE)
@step_kind("set-run-state")
@dataclass(frozen=True, slots=True)
class SetRunState(ConnectorAction):
    """A connector runs, pauses, or stops."""

    aspect: ClassVar[str] = "state"
    # A sink may need its task.shutdown.graceful.timeout.ms and a rebalance until its tasks are gone.
    settle_seconds: ClassVar[float] = 60.0

    state: str

    def __post_init__(self) -> None:
        # A state may come from a plan file, by way of the action that restores it.
        if self.state not in _VERBS:
            raise RefusedError(
                f"{self.subject} can't be set to a state other than {', '.join(_VERBS)}", hint="create a new plan"
            )

    def describe(self) -> str:
        effect = {
            "RUNNING": "its tasks start",
            "PAUSED": "its tasks stay and wait",
            "STOPPED": "its tasks end",
        }[self.state]
        return f"{_VERBS[self.state]} {self.subject}: {effect}"

    def build_effect(self, seen: StepSeen) -> Effect:
        words = {
            "RUNNING": f"resume: {say_tasks(seen.tasks, 'runs again', 'run again')}"
            if seen.tasks
            else "resume: its tasks start",
            "PAUSED": f"pause: {say_tasks(seen.tasks, 'stays and waits', 'stay and wait')}",
            "STOPPED": f"stop: {say_tasks(seen.tasks, 'ends', 'end')}",
        }.get(self.state, self.state)
        before = None if seen.intent.before is None else seen.intent.before["state"]
        fields = (FieldChange("state", before, self.state),)
        return Effect(Sign.CHANGE, self.subject, words, fields, tasks=seen.tasks if self.state == "RUNNING" else 0)

    def intend(self, world: World) -> Intent:
        before = read_run_state(world, self.cluster, self.name)
        return Intent(before=None if before is None else {"state": before}, after={"state": self.state})

    def perform(self, world: World, intent: Intent) -> None:
        if intent.before is None:
            raise RefusedError(f"{self.subject} is not there", hint="seamark connectors list shows what is there")
        connect = world.use(CONNECT)(self.cluster)
        {"RUNNING": connect.resume, "PAUSED": connect.pause, "STOPPED": connect.stop}[self.state](self.name)

    def observe(self, world: World, intent: Intent) -> Observed:
        status = read_status(world, self.cluster, self.name)
        if status is None:
            return Observed.FOREIGN
        now = find_run_state(status)
        if now is None:
            return Observed.BETWEEN
        if now == self.state:
            # Connect says STOPPED before the tasks are down.
            return Observed.BETWEEN if self.state == "STOPPED" and status.tasks else Observed.AFTER
        return Observed.BEFORE if intent.before == {"state": now} else Observed.FOREIGN

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        return None if intent.before is None else SetRunState(self.cluster, self.name, intent.before["state"])


@action_kind("restart-failed")
@needs_permission(Permission.OPERATE)
@step_kind("restart-failed")
@dataclass(frozen=True, slots=True)
class RestartFailed(ConnectorAction):
    """A connector's failed parts are started again; the ones that run are left alone."""

    aspect: ClassVar[str] = "tasks"
    drifts: ClassVar[bool] = True

    def describe(self) -> str:
        return f"restart the failed tasks of {self.subject}"

    def build_effect(self, seen: StepSeen) -> Effect:
        failed = seen.intent.before["failed"]
        return Effect(Sign.CHANGE, self.subject, f"restarts {', '.join(failed)}", tasks=len(failed))

    def intend(self, world: World) -> Intent:
        failed = self._read_failed(world)
        if failed is None:
            raise NotFoundError(f"{self.subject} has no status", hint="seamark connectors list shows what is there")
        return Intent(before={"failed": failed}, after={"failed": []})

    def perform(self, world: World, intent: Intent) -> None:
        del intent
        world.use(CONNECT)(self.cluster).restart(self.name, include_tasks=True, only_failed=True)

    def observe(self, world: World, intent: Intent) -> Observed:
        now = self._read_failed(world)
        if not now:
            return Observed.FOREIGN if now is None else Observed.AFTER
        return Observed.BEFORE if now == intent.before["failed"] else Observed.BETWEEN

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        del intent
        # A task that runs again leaves nothing to put back.
        return None

    def _read_failed(self, world: World) -> list[str] | None:
        status = read_status(world, self.cluster, self.name)
        if status is None:
            return None
        parts = ["connector"] if status.state is State.FAILED else []
        return parts + [f"task {task.id}" for task in status.tasks if task.state is State.FAILED]
