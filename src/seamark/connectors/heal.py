"""Healing: failed connectors are started again, more and more rarely, until they run or are given up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from seamark.changes.result import ChangeResult
from seamark.connect.connector import Connector, ConnectorStatus
from seamark.connectors.healing import (
    HealedConnector,
    HealSettings,
    Patient,
    RestartDecision,
    Round,
    decide_restarts,
    record_restart,
)
from seamark.core.reading import Reading
from seamark.core.refs import parse_owner
from seamark.errors import AccessError, FencedError, InterruptedRunError, JournalError, SeamarkError, UsageError

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
        return tuple(found for found in self.connectors if found.care is RestartDecision.GIVEN_UP)


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
        for owner, patient in self._round.history.items():
            if owner in self._restarts or patient.care in (
                RestartDecision.GIVEN_UP,
                RestartDecision.RESTART,
                RestartDecision.WAITING,
            ):
                why = patient.why or self._last_why.get(owner, "")
                found.append(HealedConnector(owner, patient.care, self._restarts.get(owner, 0), why))
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

    def _tell_changes(self, before: Mapping[str, Patient]) -> None:
        for owner, patient in self._round.history.items():
            if patient.why:
                self._last_why[owner] = patient.why
            was = before.get(owner, Patient())
            if patient.care is was.care:
                continue
            restarts = self._restarts.get(owner, 0)
            if patient.care is RestartDecision.GIVEN_UP:
                self._tell(f"{owner}: given up after {_count(restarts)}: {patient.why}")
            elif patient.care is RestartDecision.WELL and was.restarts:
                self._tell(f"{owner}: runs again, after {_count(restarts)}")
            elif patient.care is RestartDecision.WAITING and patient.due_at is not None:
                pause = patient.due_at - self._now()
                self._tell(f"{owner}: failed again; the next restart is in {pause:.0f} s: {patient.why}")


def _count(restarts: int) -> str:
    return "1 restart" if restarts == 1 else f"{restarts} restarts"
