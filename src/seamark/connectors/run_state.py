"""Steps that pause, resume, stop or restart a connector, and the wait until it runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from seamark.changes.action import (
    CheckStep,
    StepSeen,
    action_kind,
    needs_permission,
)
from seamark.changes.effect import ChangeKind, Effect, FieldChange
from seamark.changes.environment import Environment
from seamark.changes.step import CanNotUndo, ConnectorSubject, Intent, Observed, Step, step_kind
from seamark.connect.api import CONNECT, STATUSES
from seamark.connect.model import ConnectorStatus, State, fold_trace
from seamark.connectors.heal import describe_failure
from seamark.connectors.read import find_run_state, read_run_state, read_status, tell_run_state
from seamark.connectors.steps import ConnectorAction, say_tasks
from seamark.errors import DeadlineError, NotFoundError, RefusedError, SeamarkError
from seamark.policy.permissions import Permission
from seamark.report.words import render_count

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
    """Waits for a connector and its tasks, until all of them have run for `stable_seconds`.

    If a failure is followed by steps that restore what was there before, `restores` is set: then Connect no longer has
    the trace, and only the journal does.
    """

    aspect: ClassVar[str] = "health"

    deadline_seconds: float = 60.0
    stable_seconds: float = 3.0
    restores: bool = False

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
            clock.sleep(min(_LOOK_SECONDS, self.stable_seconds / 3, watch.find_rest(now)))

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
                hint=self._build_hint(),
                context=_build_context(status),
            )
        needed = self._step.stable_seconds if status is not None and status.tasks else _EMPTY_SECONDS
        return _lasts(self._running_since, now, needed)

    def find_rest(self, now: float) -> float:
        """Return how long it must still run, if it runs now: a look right then ends the wait."""
        rest = math.inf if self._running_since is None else self._running_since + self._step.stable_seconds - now
        return rest if rest > 0 else math.inf

    def _build_hint(self) -> str:
        if self._step.restores:
            return "fix the cause and run the command again; its trace is in seamark journal show CHANGE -o json"
        return f"show the whole trace: seamark connectors show {self._step.cluster}/{self._step.name} -o wide"

    def build_late(self, status: ConnectorStatus | None, trouble: SeamarkError | None) -> SeamarkError:
        """Build the error for the end of the wait."""
        seen = trouble.message if trouble else _say(status)
        return DeadlineError(
            f"{self._step.subject} did not run within {self._step.deadline_seconds:g} s",
            cause=seen,
            hint=f"show its state: seamark connectors show {self._step.cluster}/{self._step.name}",
        )


def _build_context(status: ConnectorStatus) -> dict[str, str]:
    """Return the telling lines of every trace, without secrets: after a rollback Connect has none of them."""
    traces = (status.trace, *(task.trace for task in status.tasks))
    lines = [line for trace in traces for line in fold_trace(trace).lines]
    return {"trace": "\n".join(lines)} if lines else {}


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


@step_kind("restart-failed")
@dataclass(frozen=True, slots=True)
class RestartFailed(ConnectorSubject, Step):
    """Restart a connector's failed parts; running ones are not changed."""

    aspect: ClassVar[str] = "tasks"
    drifts: ClassVar[bool] = True

    def describe(self) -> str:
        return f"restart the failed tasks of {self.subject}"

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
        return None if status is None else _find_failed(status)


def _find_failed(status: ConnectorStatus) -> list[str]:
    parts = ["connector"] if status.state is State.FAILED else []
    return parts + [f"task {task.id}" for task in status.tasks if task.state is State.FAILED]


@step_kind("restart-tasks")
@dataclass(frozen=True, slots=True)
class RestartTasks(ConnectorSubject, Step):
    """Restart a connector's failed parts; without `only_failed` the connector and all its tasks; or one `task`.

    A restarted task looks as before, and one that fails again within milliseconds never shows another state. So the
    answer of Connect is the only evidence, and a request without an answer is repeated: a restart moves no data.
    """

    aspect: ClassVar[str] = "restart"
    drifts: ClassVar[bool] = True
    is_observable: ClassVar[bool] = False

    only_failed: bool = True
    task: int | None = None

    def describe(self) -> str:
        if self.task is not None:
            return f"restart task {self.task} of {self.subject}"
        return f"restart {'the failed tasks of ' if self.only_failed else ''}{self.subject}"

    def intend(self, world: Environment) -> Intent:
        status = read_status(world, self.cluster, self.name)
        if status is None:
            raise NotFoundError(f"{self.subject} has no status", hint="list the connectors: seamark connectors list")
        state = tell_run_state(status, self.subject)
        return Intent(before={"due": self._find_due(status, state)}, after={"due": []}, extra={"state": state})

    def perform(self, world: Environment, intent: Intent) -> None:
        connect = world.use(CONNECT)(self.cluster)
        if self.task is not None:
            connect.restart_task(self.name, self.task)
        else:
            connect.restart(self.name, include_tasks=True, only_failed=self.only_failed)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        return Observed.BETWEEN if read_status(world, self.cluster, self.name) is None else Observed.AFTER

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        # A restarted task leaves nothing to restore.
        return None

    def _find_due(self, status: ConnectorStatus, state: str) -> list[str]:
        if self.task is not None:
            if self.task not in {task.id for task in status.tasks}:
                raise RefusedError(
                    f"{self.subject} has no task {self.task}",
                    cause=f"it is {status.state} and has {render_count(len(status.tasks), 'task')}, numbered from 0",
                    hint=f"list its tasks: seamark connectors show {self.cluster}/{self.name}",
                )
            return [f"task {self.task}"]
        if self.only_failed:
            return _find_failed(status)
        # A paused or stopped connector has nothing that a restart would start.
        return ["connector", *(f"task {task.id}" for task in status.tasks)] if state == "RUNNING" else []
