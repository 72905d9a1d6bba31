"""Healing: failed connectors are started again, more and more rarely, until they run or are given up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from seamark.changes.outcome import ChangeResult
from seamark.connect.model import Connector, ConnectorStatus, State, explain_trace
from seamark.core.readings import Reading
from seamark.core.refs import parse_owner
from seamark.errors import AccessError, FencedError, InterruptedRunError, JournalError, SeamarkError, UsageError

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
class RestartHistory:
    """What healing knows of one connector. Times are of the caller's clock, in seconds."""

    decision: RestartDecision = RestartDecision.WELL
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

History = Mapping[str, RestartHistory]
"""What healing knows, by owner."""


@dataclass(frozen=True, slots=True)
class HealedConnector:
    """What became of a connector that had failed. `restarts` is how often it was started again."""

    owner: str
    decision: RestartDecision
    restarts: int = 0
    why: str = ""

    @property
    def is_mended(self) -> bool:
        """Whether it runs."""
        return self.decision in (RestartDecision.WELL, RestartDecision.WATCHED)


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
        times = [known.due_at for known in self.history.values() if known.due_at is not None]
        return min(times, default=None)

    @property
    def is_over(self) -> bool:
        """Whether everybody runs, is given up, or is not meant to run."""
        return all(known.due_at is None for known in self.history.values())

    def _in(self, decision: RestartDecision) -> tuple[str, ...]:
        return tuple(owner for owner, known in self.history.items() if known.decision is decision)


def decide_restarts(
    history: History, statuses: Mapping[str, ConnectorStatus | None], now: float, settings: HealSettings
) -> Round:
    """What to do about each connector.

    `statuses` are what Connect says now; None where it has no status to tell. An owner of the history that has no
    status here any more is gone, and is forgotten.
    """
    decided = {
        owner: _decide(history.get(owner, RestartHistory()), status, now=now, settings=settings)
        for owner, status in statuses.items()
    }
    return Round(decided)


def record_restart(known: RestartHistory, now: float, *, trouble: str = "") -> RestartHistory:
    """A restart was made, or could not be because of some `trouble`: both count, so that neither goes on for ever."""
    return replace(
        known,
        decision=RestartDecision.WAITING,
        restarts=known.restarts + 1,
        last_at=now,
        well_since=None,
        why=trouble or known.why,
    )


def _decide(
    known: RestartHistory, status: ConnectorStatus | None, *, now: float, settings: HealSettings
) -> RestartHistory:
    if status is None or status.state in _IN_BETWEEN:
        return _decide_unseen(known, "no status" if status is None else status.state.value, now=now)
    if status.state in (State.PAUSED, State.STOPPED, State.DESTROYED):
        return RestartHistory(RestartDecision.LEFT_ALONE)
    why = describe_failure(status)
    if not why and any(task.state in _IN_BETWEEN for task in status.tasks):
        return _decide_unseen(known, "tasks that run nowhere", now=now)
    seen = replace(known, unseen_since=None)
    if why:
        return _decide_failed(replace(seen, well_since=None, why=why), now=now, settings=settings)
    return _decide_well(seen, now=now, settings=settings)


def _decide_unseen(known: RestartHistory, seen: str, *, now: float) -> RestartHistory:
    """A rebalance goes on, or a create. Who was never restarted is none of our business; the others are waited for."""
    if known.decision is RestartDecision.GIVEN_UP or not known.restarts:
        return replace(
            known,
            decision=known.decision if known.decision is RestartDecision.GIVEN_UP else RestartDecision.UNKNOWN,
            due_at=None,
        )
    since = now if known.unseen_since is None else known.unseen_since
    if now - since >= _UNSEEN_SECONDS:
        return replace(known, decision=RestartDecision.GIVEN_UP, why=f"{seen} for {_UNSEEN_SECONDS:.0f} s", due_at=None)
    due_at = since + _UNSEEN_SECONDS
    return replace(known, decision=RestartDecision.UNKNOWN, well_since=None, unseen_since=since, due_at=due_at)


def _decide_failed(known: RestartHistory, *, now: float, settings: HealSettings) -> RestartHistory:
    if known.restarts >= settings.max_restarts:
        return replace(known, decision=RestartDecision.GIVEN_UP, due_at=None)
    due_at = now if known.last_at is None else known.last_at + settings.find_pause(known.restarts)
    return replace(
        known, decision=RestartDecision.RESTART if due_at <= now else RestartDecision.WAITING, due_at=max(due_at, now)
    )


def _decide_well(known: RestartHistory, *, now: float, settings: HealSettings) -> RestartHistory:
    if not known.restarts:
        return RestartHistory(RestartDecision.WELL)
    since = now if known.well_since is None else known.well_since
    calm_at = since + settings.calm_seconds
    if calm_at <= now:
        return RestartHistory(RestartDecision.WELL)
    return replace(known, decision=RestartDecision.WATCHED, well_since=since, due_at=calm_at)


def describe_failure(status: ConnectorStatus) -> str:
    """Every failed part with its trace's first line and innermost cause; "" where nothing has failed."""
    parts = [("connector", status.trace)] if status.state is State.FAILED else []
    parts += [(f"task {task.id}", task.trace) for task in status.tasks if task.state is State.FAILED]
    return "; ".join(f"{name}: {explain_trace(trace)}" for name, trace in parts)


# One look is one request to each cluster.
_LOOK_SECONDS = 5.0
_SHORTEST_SECONDS = 0.5
# A task that can't start says so within its first seconds; one round alone need not wait for longer.
_ONCE_CALM_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class HealReport:
    """What became of every connector that had failed, and which clusters did not answer at last."""

    connectors: tuple[HealedConnector, ...] = ()
    failures: Mapping[str, SeamarkError] | None = None

    @property
    def given_up(self) -> tuple[HealedConnector, ...]:
        """Those that do not run and are not tried any more."""
        return tuple(found for found in self.connectors if found.decision is RestartDecision.GIVEN_UP)


class Healer:
    """Looks, decides, restarts, and looks again.

    `read` gives all connectors and `pick` those that are meant; `restart` carries out one change for some of them.
    `tell` is told what happens, in sentences. The clock is the caller's.
    """

    def __init__(
        self,
        *,
        read: Callable[[], Reading[Connector]],
        pick: Callable[[Reading[Connector]], Sequence[Connector]],
        restart: Callable[[tuple[Connector, ...]], ChangeResult],
        now: Callable[[], float],
        sleep: Callable[[float], None],
        tell: Callable[[str], None] = lambda _sentence: None,
        settings: HealSettings | None = None,
    ) -> None:
        self._read = read
        self._pick = pick
        self._restart = restart
        self._now = now
        self._sleep = sleep
        self._tell = tell
        self._settings = settings or HealSettings()
        # Owners in the order they were first seen: an owner stays meant, whatever state it is in later.
        self._known: dict[str, None] = {}
        self._restarts: dict[str, int] = {}
        self._last_why: dict[str, str] = {}
        self._round = Round()
        self._failures: Mapping[str, SeamarkError] = {}

    def run(self, *, once: bool = False, watch: bool = False) -> HealReport:
        """Heal until everyone runs or is given up; with `once` each is restarted once at most; with `watch` for ever.

        Raises:
            JournalError, FencedError: nothing can be changed any more.
        """
        if once:
            calm = min(self._settings.calm_seconds, _ONCE_CALM_SECONDS)
            self._settings = replace(self._settings, max_restarts=1, calm_seconds=calm)
        while True:
            reading = self.look()
            if self._round.restart:
                self._act(reading)
            elif self._round.is_over and not watch:
                return self.report()
            self._wait()

    def look(self) -> Reading[Connector]:
        """Read and decide, without doing anything. `failing` then says who would be restarted."""
        reading = self._read()
        self._known |= dict.fromkeys(connector.owner for connector in self._pick(reading))
        self._failures = reading.failures
        statuses: dict[str, ConnectorStatus | None] = {
            connector.owner: connector.status for connector in reading.items if connector.owner in self._known
        }
        # Nobody tells how these are; that is not the same as gone.
        silent = {owner: None for owner in self._known if parse_owner(owner).cluster in reading.failures}
        before = self._round.history
        self._round = decide_restarts(before, {**silent, **statuses}, self._now(), self._settings)
        self._tell_changes(before)
        return reading

    def failing(self, reading: Reading[Connector]) -> tuple[Connector, ...]:
        """The connectors of a reading that are to be restarted now."""
        due = set(self._round.restart)
        return tuple(connector for connector in reading.items if connector.owner in due)

    def report(self) -> HealReport:
        """What became of everyone so far that had failed."""
        found = []
        for owner, known in self._round.history.items():
            if owner in self._restarts or known.decision in (
                RestartDecision.GIVEN_UP,
                RestartDecision.RESTART,
                RestartDecision.WAITING,
            ):
                why = known.why or self._last_why.get(owner, "")
                found.append(HealedConnector(owner, known.decision, self._restarts.get(owner, 0), why))
        return HealReport(tuple(found), self._failures)

    def _act(self, reading: Reading[Connector]) -> None:
        chosen = self.failing(reading)
        try:
            result = self._restart(chosen)
            troubles = {subject: error.message for subject, error in result.failures.items()}
        except (JournalError, FencedError, UsageError, InterruptedRunError, AccessError):
            raise
        except SeamarkError as error:
            # Somebody else is at work on one of them, or a cluster is away: a try that failed, no reason to end.
            self._tell(f"no restart this time: {error.message}")
            troubles = {f"connector/{connector.owner}": error.message for connector in chosen}
        history = dict(self._round.history)
        for connector in chosen:
            trouble = troubles.get(f"connector/{connector.owner}", "")
            self._restarts[connector.owner] = self._restarts.get(connector.owner, 0) + 1
            history[connector.owner] = record_restart(history[connector.owner], self._now(), trouble=trouble)
        self._round = Round(history)

    def _wait(self) -> None:
        next_at = self._round.next_at
        delay = _LOOK_SECONDS if next_at is None else next_at - self._now()
        self._sleep(min(max(delay, _SHORTEST_SECONDS), _LOOK_SECONDS))

    def _tell_changes(self, before: Mapping[str, RestartHistory]) -> None:
        for owner, known in self._round.history.items():
            if known.why:
                self._last_why[owner] = known.why
            was = before.get(owner, RestartHistory())
            if known.decision is was.decision:
                continue
            restarts = self._restarts.get(owner, 0)
            if known.decision is RestartDecision.GIVEN_UP:
                self._tell(f"{owner}: given up after {_count(restarts)}: {known.why}")
            elif known.decision is RestartDecision.WELL and was.restarts:
                self._tell(f"{owner}: runs again, after {_count(restarts)}")
            elif known.decision is RestartDecision.WAITING and known.due_at is not None:
                pause = known.due_at - self._now()
                self._tell(f"{owner}: failed again; the next restart is in {pause:.0f} s: {known.why}")


def _count(restarts: int) -> str:
    return "1 restart" if restarts == 1 else f"{restarts} restarts"
