"""When a failed connector is started again, and when that is given up. No clock, no server: values in, values out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from seamark.connect.connector import ConnectorStatus, State
from seamark.connect.trace import explain_trace
from seamark.errors import UsageError

# A worker that is lost keeps its tasks for five minutes (scheduled.rebalance.max.delay.ms); a minute for what follows.
_UNSEEN_SECONDS = 360.0


@dataclass(frozen=True, slots=True)
class HealSettings:
    """How patient healing is.

    The first restart comes at once. After the n-th, the next one waits `backoff_seconds`, doubled each time, at most
    `longest_backoff_seconds`. After `max_restarts` a connector is given up. One that has run for `calm_seconds` since
    is well, and what was before is forgotten.
    """

    max_restarts: int = 5
    backoff_seconds: float = 30.0
    # Whatever ails a connector for longer wants a person; a quarter of an hour is often enough to look whether it has.
    longest_backoff_seconds: float = 900.0
    calm_seconds: float = 30.0

    def __post_init__(self) -> None:
        """Refuse what would never end or never begin."""
        if self.max_restarts < 1:
            raise UsageError("healing needs at least one restart", hint="--max-restarts 5")
        for name in ("backoff_seconds", "longest_backoff_seconds", "calm_seconds"):
            if not 0 < getattr(self, name) < float("inf"):
                raise UsageError(f"{name} must be a positive time", hint="such as 30s")

    def find_pause(self, restarts: int) -> float:
        """How long to wait after so many restarts."""
        if restarts < 1:
            return 0.0
        # Beyond some hundred doublings a float is infinite, and the longest pause was reached long before.
        return min(self.backoff_seconds * 2.0 ** min(restarts - 1, 64), self.longest_backoff_seconds)


class RestartDecision(StrEnum):
    """What healing makes of a connector now."""

    WELL = "runs"
    WATCHED = "runs again, watched"
    RESTART = "restart now"
    WAITING = "failed, waiting"
    GIVEN_UP = "given up"
    LEFT_ALONE = "not meant to run"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Patient:
    """What healing knows of one connector. Times are of the caller's clock, in seconds."""

    care: RestartDecision = RestartDecision.WELL
    restarts: int = 0
    last_at: float | None = None
    # Since when it has been seen without a failure after a restart.
    well_since: float | None = None
    # Since when nobody could tell how it is.
    unseen_since: float | None = None
    # Why it fails: first lines of traces, or what was said when a restart could not be made.
    why: str = ""
    # When something is to be done about it; None where nothing is.
    due_at: float | None = None


_IN_BETWEEN = frozenset({State.UNASSIGNED, State.RESTARTING, State.UNKNOWN})

History = Mapping[str, Patient]
"""What healing knows, by owner."""


@dataclass(frozen=True, slots=True)
class HealedConnector:
    """What became of a connector that had failed. `restarts` is how often it was started again."""

    owner: str
    care: RestartDecision
    restarts: int = 0
    why: str = ""

    @property
    def is_mended(self) -> bool:
        """Whether it runs."""
        return self.care in (RestartDecision.WELL, RestartDecision.WATCHED)


@dataclass(frozen=True, slots=True)
class Round:
    """What is to be done now: whom to restart, and what is known of everyone."""

    history: History = field(default_factory=dict)

    @property
    def restart(self) -> tuple[str, ...]:
        """The owners that are to be restarted now."""
        return self._in(RestartDecision.RESTART)

    @property
    def given_up(self) -> tuple[str, ...]:
        """The owners that failed too often."""
        return self._in(RestartDecision.GIVEN_UP)

    @property
    def next_at(self) -> float | None:
        """When the next thing is to be done; None where there is nothing to wait for."""
        times = [patient.due_at for patient in self.history.values() if patient.due_at is not None]
        return min(times, default=None)

    @property
    def is_over(self) -> bool:
        """Whether everybody runs, is given up, or is not meant to run."""
        return all(patient.due_at is None for patient in self.history.values())

    def _in(self, care: RestartDecision) -> tuple[str, ...]:
        return tuple(owner for owner, patient in self.history.items() if patient.care is care)


def decide_restarts(
    history: History, statuses: Mapping[str, ConnectorStatus | None], now: float, settings: HealSettings
) -> Round:
    """What to do about each connector.

    `statuses` are what Connect says now; None where it has no status to tell. An owner of the history that has no
    status here any more is gone, and is forgotten.
    """
    decided = {
        owner: _decide(history.get(owner, Patient()), status, now=now, settings=settings)
        for owner, status in statuses.items()
    }
    return Round(decided)


def record_restart(patient: Patient, now: float, *, trouble: str = "") -> Patient:
    """A restart was made, or could not be because of some `trouble`: both count, so that neither goes on for ever."""
    return replace(
        patient,
        care=RestartDecision.WAITING,
        restarts=patient.restarts + 1,
        last_at=now,
        well_since=None,
        why=trouble or patient.why,
    )


def _decide(patient: Patient, status: ConnectorStatus | None, *, now: float, settings: HealSettings) -> Patient:
    if status is None or status.state in _IN_BETWEEN:
        return _decide_unseen(patient, "no status" if status is None else status.state.value, now=now)
    if status.state in (State.PAUSED, State.STOPPED, State.DESTROYED):
        return Patient(RestartDecision.LEFT_ALONE)
    why = describe_failure(status)
    if not why and any(task.state in _IN_BETWEEN for task in status.tasks):
        return _decide_unseen(patient, "tasks that run nowhere", now=now)
    seen = replace(patient, unseen_since=None)
    if why:
        return _decide_failed(replace(seen, well_since=None, why=why), now=now, settings=settings)
    return _decide_well(seen, now=now, settings=settings)


def _decide_unseen(patient: Patient, seen: str, *, now: float) -> Patient:
    """A rebalance goes on, or a create. Who was never restarted is none of our business; the others are waited for."""
    if patient.care is RestartDecision.GIVEN_UP or not patient.restarts:
        return replace(
            patient,
            care=patient.care if patient.care is RestartDecision.GIVEN_UP else RestartDecision.UNKNOWN,
            due_at=None,
        )
    since = now if patient.unseen_since is None else patient.unseen_since
    if now - since >= _UNSEEN_SECONDS:
        return replace(patient, care=RestartDecision.GIVEN_UP, why=f"{seen} for {_UNSEEN_SECONDS:.0f} s", due_at=None)
    due_at = since + _UNSEEN_SECONDS
    return replace(patient, care=RestartDecision.UNKNOWN, well_since=None, unseen_since=since, due_at=due_at)


def _decide_failed(patient: Patient, *, now: float, settings: HealSettings) -> Patient:
    if patient.restarts >= settings.max_restarts:
        return replace(patient, care=RestartDecision.GIVEN_UP, due_at=None)
    due_at = now if patient.last_at is None else patient.last_at + settings.find_pause(patient.restarts)
    return replace(
        patient, care=RestartDecision.RESTART if due_at <= now else RestartDecision.WAITING, due_at=max(due_at, now)
    )


def _decide_well(patient: Patient, *, now: float, settings: HealSettings) -> Patient:
    if not patient.restarts:
        return Patient(RestartDecision.WELL)
    since = now if patient.well_since is None else patient.well_since
    calm_at = since + settings.calm_seconds
    if calm_at <= now:
        return Patient(RestartDecision.WELL)
    return replace(patient, care=RestartDecision.WATCHED, well_since=since, due_at=calm_at)


def describe_failure(status: ConnectorStatus) -> str:
    """Every failed part with its trace's first line and innermost cause; "" where nothing has failed."""
    parts = [("connector", status.trace)] if status.state is State.FAILED else []
    parts += [(f"task {task.id}", task.trace) for task in status.tasks if task.state is State.FAILED]
    return "; ".join(f"{name}: {explain_trace(trace)}" for name, trace in parts)
