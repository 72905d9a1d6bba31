"""Waiting until a connector and its tasks run, and go on running."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from seamark.changes.look import Look
from seamark.changes.step import Intent, Observed, step_kind
from seamark.changes.world import World
from seamark.connect.connector import ConnectorStatus, State
from seamark.connect.ports import STATUSES
from seamark.connectors.healing import describe_failure
from seamark.connectors.read import read_status
from seamark.errors import DeadlineError, RefusedError, SeamarkError

# A look costs a request, or a share in one.
_LOOK_SECONDS = 1.0
# Right behind a change the status is still that of the tasks before it. A rebalance and a restart show within some
# seconds; a failure that lasts longer is that of the new config.
_FAILED_SECONDS = 8.0
# Some connectors have nothing to do, and make no task: that is no failure of theirs.
_EMPTY_SECONDS = 15.0


@step_kind("await-running")
@dataclass(frozen=True, slots=True)
class AwaitRunning(Look):
    """A connector and its tasks are waited for, until all of them have run for `stable_seconds`."""

    aspect: ClassVar[str] = "health"

    cluster: str
    name: str
    deadline_seconds: float = 60.0
    stable_seconds: float = 3.0

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    @property
    def settle_seconds(self) -> float:
        return self.deadline_seconds

    def describe(self) -> str:
        return f"check that {self.subject} and its tasks run"

    def perform(self, world: World, intent: Intent) -> None:
        del intent
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

    def observe(self, world: World, intent: Intent) -> Observed:
        del intent
        status = read_status(world, self.cluster, self.name)
        return Observed.AFTER if status is not None and is_running(status) else Observed.BEFORE


class _Watch:
    """What was seen while waiting: since when all runs, since when something has failed."""

    def __init__(self, step: AwaitRunning, *, began_at: float) -> None:
        self._step = step
        self.began_at = began_at
        self._running_since: float | None = None
        self._failed_since: float | None = None

    def is_over(self, status: ConnectorStatus | None, *, now: float) -> bool:
        """Whether it runs for good. Raises where it has failed for good."""
        runs = status is not None and is_running(status)
        fails = status is not None and describe_failure(status) != ""
        self._running_since = (self._running_since or now) if runs else None
        self._failed_since = (self._failed_since or now) if fails else None
        if status is not None and fails and _lasts(self._failed_since, now, _FAILED_SECONDS):
            raise RefusedError(
                f"{self._step.subject} does not run with this config",
                cause=describe_failure(status),
                hint=f"seamark connectors show {self._step.cluster}/{self._step.name} has the whole trace",
            )
        needed = self._step.stable_seconds if status is not None and status.tasks else _EMPTY_SECONDS
        return _lasts(self._running_since, now, needed)

    def build_late(self, status: ConnectorStatus | None, trouble: SeamarkError | None) -> SeamarkError:
        """What to say when the time is over."""
        seen = trouble.message if trouble else _say(status)
        return DeadlineError(
            f"{self._step.subject} did not run within {self._step.deadline_seconds:g} s",
            cause=seen,
            hint=f"seamark connectors show {self._step.cluster}/{self._step.name}",
        )


def is_running(status: ConnectorStatus) -> bool:
    """Whether the connector and every task of it run."""
    return status.state is State.RUNNING and all(task.state is State.RUNNING for task in status.tasks)


def _lasts(since: float | None, now: float, seconds: float) -> bool:
    return since is not None and now - since >= seconds


def _say(status: ConnectorStatus | None) -> str:
    if status is None:
        return "Connect has no status of it"
    if failure := describe_failure(status):
        return failure
    states = ", ".join(f"task {task.id} {task.state}" for task in status.tasks) or "no task"
    return f"connector {status.state}, {states}"
