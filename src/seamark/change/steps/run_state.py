"""A connector is paused, resumed, stopped, or its failed tasks are started again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from seamark.change.step import CanNotUndo, Intent, Observed, Step
from seamark.change.steps.read import find_run_state, read_run_state, read_status
from seamark.change.world import World
from seamark.errors import NotFoundError, RefusedError
from seamark.model.connector import State
from seamark.model.plan import StepData

_VERBS = {"RUNNING": "resume", "PAUSED": "pause", "STOPPED": "stop"}


@dataclass(frozen=True, slots=True)
class SetRunState:
    """A connector runs, pauses, or stops."""

    kind: ClassVar[str] = "set-run-state"
    aspect: ClassVar[str] = "state"
    drifts: ClassVar[bool] = False
    acts: ClassVar[bool] = True
    # A sink may need its task.shutdown.graceful.timeout.ms and a rebalance until its tasks are gone.
    settle_seconds: ClassVar[float] = 60.0

    cluster: str
    name: str
    state: str

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    def describe(self) -> str:
        effect = {
            "RUNNING": "its tasks start",
            "PAUSED": "its tasks stay and wait",
            "STOPPED": "its tasks end",
        }[self.state]
        return f"{_VERBS[self.state]} {self.subject}: {effect}"

    def intend(self, world: World) -> Intent:
        before = read_run_state(world, self.cluster, self.name)
        return Intent(before=None if before is None else {"state": before}, after={"state": self.state})

    def perform(self, world: World, intent: Intent) -> None:
        if intent.before is None:
            raise RefusedError(f"{self.subject} is not there", hint="seamark connectors list shows what is there")
        connect = world.connect(self.cluster)
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

    def to_data(self, *, lane: str = "", always: bool = False) -> StepData:
        arguments = {"cluster": self.cluster, "name": self.name, "state": self.state}
        return StepData(self.kind, self.subject, arguments, lane=lane, always=always)

    @classmethod
    def from_data(cls, data: StepData) -> Self:
        return cls(**data.arguments)


@dataclass(frozen=True, slots=True)
class RestartFailed:
    """A connector's failed parts are started again; the ones that run are left alone."""

    kind: ClassVar[str] = "restart-failed"
    aspect: ClassVar[str] = "tasks"
    drifts: ClassVar[bool] = True
    acts: ClassVar[bool] = True
    settle_seconds: ClassVar[float] = 60.0

    cluster: str
    name: str

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    def describe(self) -> str:
        return f"restart the failed tasks of {self.subject}"

    def intend(self, world: World) -> Intent:
        failed = self._read_failed(world)
        if failed is None:
            raise NotFoundError(f"{self.subject} has no status", hint="seamark connectors list shows what is there")
        return Intent(before={"failed": failed}, after={"failed": []})

    def perform(self, world: World, intent: Intent) -> None:
        del intent
        world.connect(self.cluster).restart(self.name, include_tasks=True, only_failed=True)

    def observe(self, world: World, intent: Intent) -> Observed:
        now = self._read_failed(world)
        if not now:
            return Observed.FOREIGN if now is None else Observed.AFTER
        return Observed.BEFORE if now == intent.before["failed"] else Observed.BETWEEN

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        del intent
        # A task that runs again leaves nothing to put back.
        return None

    def to_data(self, *, lane: str = "", always: bool = False) -> StepData:
        arguments = {"cluster": self.cluster, "name": self.name}
        return StepData(self.kind, self.subject, arguments, lane=lane, always=always)

    @classmethod
    def from_data(cls, data: StepData) -> Self:
        return cls(**data.arguments)

    def _read_failed(self, world: World) -> list[str] | None:
        status = read_status(world, self.cluster, self.name)
        if status is None:
            return None
        parts = ["connector"] if status.state is State.FAILED else []
        return parts + [f"task {task.id}" for task in status.tasks if task.state is State.FAILED]
