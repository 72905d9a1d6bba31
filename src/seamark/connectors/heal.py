"""Restart failed connectors with exponential backoff until they run or are given up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from seamark.changes.outcome import ChangeResult
from seamark.connect.model import Connector, ConnectorStatus, State, explain_trace
from seamark.core.readings import Reading
from seamark.core.refs import parse_owner
from seamark.errors import AccessError, FencedError, InterruptedRunError, JournalError, SeamarkError, UsageError

# A lost worker keeps its tasks for five minutes (scheduled.rebalance.max.delay.ms); one more minute for the rebalance.
_UNSEEN_SECONDS = 360.0


@dataclass(frozen=True, slots=True)
class HealSettings:
    """The timing of restarts.

    The first restart is immediate. After the n-th, the next one waits `backoff_seconds`, twice as long each time, at
    most `longest_backoff_seconds`. After `max_restarts` a connector is given up. One that has run for `calm_seconds`
    since is healthy, and its history is reset.
    """

    max_restarts: int = 5
    backoff_seconds: float = 30.0
    # A connector that fails for longer needs an operator; every 15 minutes is often enough to check for a repair.
    longest_backoff_seconds: float = 900.0
    calm_seconds: float = 30.0

    def __post_init__(self) -> None:
        """Reject settings that would never end or never begin."""
        if self.max_restarts < 1:
            raise UsageError("max_restarts must be at least 1", hint="use --max-restarts 5")
        for name in ("backoff_seconds", "longest_backoff_seconds", "calm_seconds"):
            if not 0 < getattr(self, name) < float("inf"):
                raise UsageError(f"{name} must be a positive duration", hint="use a duration such as 30s")

    def find_pause(self, restarts: int) -> float:
        """Return how long to wait after this many restarts."""
        if restarts < 1:
            return 0.0
        # After some hundred doublings a float is infinite; the longest pause is reached long before.
        return min(self.backoff_seconds * 2.0 ** min(restarts - 1, 64), self.longest_backoff_seconds)


class RestartDecision(StrEnum):
    """What healing decides for a connector now."""

    WELL = "runs"
    WATCHED = "runs again, watched"
    RESTART = "restart now"
    WAITING = "failed, waiting"
    GIVEN_UP = "given up"
    LEFT_ALONE = "not meant to run"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class RestartHistory:
    """The restart history of one connector. Times are of the caller's clock, in seconds."""

    decision: RestartDecision = RestartDecision.WELL
    restarts: int = 0
    last_at: float | None = None
    # Since when it has been seen without a failure after a restart.
    well_since: float | None = None
    # Since when its status has been unknown.
    unseen_since: float | None = None
    # Why it fails: first lines of traces, or the error of a restart request.
    why: str = ""
    # When the next action is due; None if there is none.
    due_at: float | None = None


_IN_BETWEEN = frozenset({State.UNASSIGNED, State.RESTARTING, State.UNKNOWN})

History = Mapping[str, RestartHistory]
"""Restart histories by owner."""


@dataclass(frozen=True, slots=True)
class HealedConnector:
    """The result for a connector that had failed. `restarts` is how often it was restarted."""

    owner: str
    decision: RestartDecision
    restarts: int = 0
    why: str = ""

    @property
    def is_running(self) -> bool:
        """Return whether it runs."""
        return self.decision in (RestartDecision.WELL, RestartDecision.WATCHED)


@dataclass(frozen=True, slots=True)
class Round:
    """The current decisions: which connectors to restart, and the history of all."""

    history: History = field(default_factory=dict)

    @property
    def restart(self) -> tuple[str, ...]:
        """Return the owners to be restarted now."""
        return self._in(RestartDecision.RESTART)

    @property
    def given_up(self) -> tuple[str, ...]:
        """Return the owners that failed too often."""
        return self._in(RestartDecision.GIVEN_UP)

    @property
    def next_at(self) -> float | None:
        """Return when the next action is due; None if there is nothing to wait for."""
        times = [known.due_at for known in self.history.values() if known.due_at is not None]
        return min(times, default=None)

    @property
    def is_over(self) -> bool:
        """Return whether every connector runs, is given up, or is not meant to run."""
        return all(known.due_at is None for known in self.history.values())

    def _in(self, decision: RestartDecision) -> tuple[str, ...]:
        return tuple(owner for owner, known in self.history.items() if known.decision is decision)


def decide_restarts(
    history: History, statuses: Mapping[str, ConnectorStatus | None], now: float, settings: HealSettings
) -> Round:
    """Decide what to do with each connector.

    `statuses` are the current ones of Connect; None if it has no status. An owner of the history without a status here
    no longer exists, and its history is dropped.
    """
    decided = {
        owner: _decide(history.get(owner, RestartHistory()), status, now=now, settings=settings)
        for owner, status in statuses.items()
    }
    return Round(decided)


def record_restart(known: RestartHistory, now: float, *, trouble: str = "") -> RestartHistory:
    """Record a restart, or the `trouble` that prevented it: both count, so that neither repeats endlessly."""
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
        return _decide_unseen(known, "unassigned tasks", now=now)
    seen = replace(known, unseen_since=None)
    if why:
        return _decide_failed(replace(seen, well_since=None, why=why), now=now, settings=settings)
    return _decide_well(seen, now=now, settings=settings)


def _decide_unseen(known: RestartHistory, seen: str, *, now: float) -> RestartHistory:
    """Decide during a rebalance or a create: wait for connectors that were restarted, and ignore the others."""
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
    """Return every failed part with the first line and the innermost cause of its trace; "" if nothing failed."""
    parts = [("connector", status.trace)] if status.state is State.FAILED else []
    parts += [(f"task {task.id}", task.trace) for task in status.tasks if task.state is State.FAILED]
    return "; ".join(f"{name}: {explain_trace(trace)}" for name, trace in parts)


# One check is one request to each Connect cluster.
_LOOK_SECONDS = 5.0
_SHORTEST_SECONDS = 0.5
# A task that can't start fails within its first seconds; a single round need not wait longer.
_ONCE_CALM_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class HealReport:
    """The result for every connector that had failed, and the Connect clusters that did not respond in the end."""

    connectors: tuple[HealedConnector, ...] = ()
    failures: Mapping[str, SeamarkError] | None = None

    @property
    def given_up(self) -> tuple[HealedConnector, ...]:
        """Return the connectors that do not run and are not retried."""
        return tuple(found for found in self.connectors if found.decision is RestartDecision.GIVEN_UP)


class Healer:
    """Reads, decides, restarts, and reads again.

    `read` returns all connectors and `pick` the selected ones; `restart` makes one change for some of them. `tell`
    receives progress messages. The clock is the caller's.
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
        # Owners in the order of first detection: an owner stays selected, whatever its later state.
        self._known: dict[str, None] = {}
        self._restarts: dict[str, int] = {}
        self._last_why: dict[str, str] = {}
        self._round = Round()
        self._failures: Mapping[str, SeamarkError] = {}

    def run(self, *, once: bool = False, watch: bool = False) -> HealReport:
        """Heal until all connectors run or are given up; with `once` restart each at most once; with `watch` forever.

        Raises:
            JournalError, FencedError: No further change is possible.
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
        """Read and decide, without an action. `failing` then returns the connectors that would be restarted."""
        reading = self._read()
        self._known |= dict.fromkeys(connector.owner for connector in self._pick(reading))
        self._failures = reading.failures
        statuses: dict[str, ConnectorStatus | None] = {
            connector.owner: connector.status for connector in reading.items if connector.owner in self._known
        }
        # The state of these is unknown, which does not mean that they no longer exist.
        silent = {owner: None for owner in self._known if parse_owner(owner).cluster in reading.failures}
        before = self._round.history
        self._round = decide_restarts(before, {**silent, **statuses}, self._now(), self._settings)
        self._tell_changes(before)
        return reading

    def failing(self, reading: Reading[Connector]) -> tuple[Connector, ...]:
        """Return the connectors of a reading that are to be restarted now."""
        due = set(self._round.restart)
        return tuple(connector for connector in reading.items if connector.owner in due)

    def report(self) -> HealReport:
        """Return the results so far for connectors that had failed."""
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
            # Another process changes one of them, or a Connect cluster is unavailable: a failed attempt, but no reason
            # to end.
            self._tell(f"no restart in this round: {error.message}")
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
