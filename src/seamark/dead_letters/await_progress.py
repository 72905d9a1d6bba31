"""After a record was skipped: the sink runs, and goes on behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from seamark.changes.look import Look
from seamark.changes.step import Intent, Observed, step_kind
from seamark.changes.world import World
from seamark.connect.connector import ConnectorStatus, State
from seamark.connect.trace import fold_trace
from seamark.connectors.await_running import is_running
from seamark.connectors.read import read_status
from seamark.dead_letters.port import RECORDS
from seamark.errors import DeadlineError, RefusedError, SeamarkError
from seamark.kafka.record import Place

_LOOK_SECONDS = 1.0
# A task that has just been started may still show the failure of the one before it for a moment.
_FAILED_SECONDS = 5.0
_RUNNING_SECONDS = 3.0


@step_kind("await-progress")
@dataclass(frozen=True, slots=True)
class AwaitProgress(Look):
    """A sink is watched until it runs and has committed something behind a place, or nothing is left to read there.

    Sinks commit every `offset.flush.interval.ms`, a minute by default, and some of them only whole files: one that runs
    for `patience_seconds` is well, too.
    """

    aspect: ClassVar[str] = "progress"

    cluster: str
    name: str
    place: Place
    deadline_seconds: float = 120.0
    patience_seconds: float = 75.0

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    @property
    def settle_seconds(self) -> float:
        return self.deadline_seconds

    def describe(self) -> str:
        return f"see {self.subject} run and go on behind {self.place}"

    def perform(self, world: World, intent: Intent) -> None:
        del intent
        clock = world.clock
        deadline = clock.now() + self.deadline_seconds
        running_since: float | None = None
        failed_since: float | None = None
        while True:
            now = clock.now()
            status = self._read_status(world, is_late=now >= deadline)
            runs = status is not None and bool(status.tasks) and is_running(status)
            fails = status is not None and any(task.state is State.FAILED for task in status.tasks)
            running_since = (now if running_since is None else running_since) if runs else None
            failed_since = (now if failed_since is None else failed_since) if fails else None
            if failed_since is not None and now - failed_since >= _FAILED_SECONDS:
                raise self._build_failed(status)
            if running_since is not None and self._is_well(world, now - running_since):
                return
            if now >= deadline:
                raise self._build_late(status)
            clock.sleep(_LOOK_SECONDS)

    def observe(self, world: World, intent: Intent) -> Observed:
        del intent
        status = read_status(world, self.cluster, self.name)
        return Observed.AFTER if status is not None and is_running(status) else Observed.BEFORE

    def _read_status(self, world: World, *, is_late: bool) -> ConnectorStatus | None:
        try:
            return read_status(world, self.cluster, self.name)
        except SeamarkError as error:
            # A rebalance hides it for a while.
            if is_late or not error.retryable:
                raise
            return None

    def _is_well(self, world: World, seconds: float) -> bool:
        if seconds < _RUNNING_SECONDS:
            return False
        if seconds >= self.patience_seconds:
            return True
        port = world.use(RECORDS)(self.cluster, self.name)
        position = port.read_positions().get(self.place.spot, 0)
        if position > self.place.offset + 1:
            return True
        return not port.find_next({self.place.spot: position})

    def _build_failed(self, status: ConnectorStatus | None) -> RefusedError:
        traces = [task.trace for task in (status.tasks if status else ()) if task.state is State.FAILED]
        # The words of a trace may hold what is in a record; its class does not.
        kinds = {fold_trace(trace).root.partition(":")[0] for trace in traces}
        return RefusedError(
            f"{self.place} is skipped, and {self.subject} fails again",
            cause=", ".join(sorted(kinds - {""})) or "its task has no trace",
            hint="where another record is the cause: seamark offsets skip "
            f"{self.cluster}/{self.name}; where its target takes none at all, mend that, and undo this",
        )

    def _build_late(self, status: ConnectorStatus | None) -> DeadlineError:
        seen = "Connect has no status of it" if status is None else f"connector {status.state}"
        tasks = ", ".join(f"task {task.id} {task.state}" for task in (status.tasks if status else ()))
        return DeadlineError(
            f"{self.place} is skipped, and {self.subject} did not run within {self.deadline_seconds:g} s",
            cause=f"{seen}, {tasks or 'no task'}",
            hint=f"seamark connectors show {self.cluster}/{self.name}",
        )
