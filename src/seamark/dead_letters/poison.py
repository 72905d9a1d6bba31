"""Find the record that a sink can't process: watch the sink until it fails, restart its failed tasks, watch again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from seamark.changes.codec import Transient
from seamark.changes.look import Look
from seamark.changes.step import Intent, Observed, Step, step_kind
from seamark.changes.world import World
from seamark.connect.connector import ConnectorStatus, State
from seamark.connectors.read import read_status
from seamark.connectors.run_state import RestartFailed
from seamark.dead_letters.port import RECORDS, RecordPort
from seamark.errors import DeadlineError, RefusedError, SeamarkError
from seamark.kafka.record import Place
from seamark.kafka.spot import Spot

_LOOK_SECONDS = 0.5
# Where the record is the first to come, a task runs for some tenths of a second.
_GLANCE_SECONDS = 0.05
# Without any progress and any failure. A JDBC sink tries a record ten times, three seconds apart, before it fails.
_IDLE_SECONDS = 120.0
# How often a sink that runs is held against the end of its log.
_END_SECONDS = 20.0
# A restart shows within a rebalance; after this a task that looks failed has failed again.
_RESTART_SECONDS = 15.0
# A restart gives the partitions another order. Five are enough where some hundred records wait in the others.
ROUNDS = 5
_MOST_NAMED = 5


@dataclass(slots=True)
class PoisonSearch:
    """What the rounds of one search have seen: how often the sink failed, and the records that may be the cause.

    It belongs to one process. A resume in another process begins with nothing seen.
    """

    failures: int = 0
    candidates: Mapping[Spot, Place] | None = None
    sightings: list[Place] = field(default_factory=list)


@step_kind("await-poison")
@dataclass(frozen=True, slots=True)
class AwaitPoison(Look):
    """Watch a sink with batches of one record until it fails; its committed offset is that of the failing record.

    When a task fails, Connect commits what the batches before it processed: with one record in a batch, the committed
    offset is that of the record that failed. If `place` is given, the record must be that one. Otherwise the record is
    added to the sightings of the search: of all partitions with a next record, the one whose offset stays the same from
    failure to failure. `number` is the round, from 1; each round after the first follows a restart of the failed tasks.
    """

    aspect: ClassVar[str] = "poison"

    cluster: str
    name: str
    place: Place | None = None
    idle_seconds: float = _IDLE_SECONDS
    number: int = 1
    # For the process that has the step; not part of the plan.
    search: Annotated[PoisonSearch, Transient()] = field(default_factory=PoisonSearch, compare=False, repr=False)

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    @property
    def settle_seconds(self) -> float:
        return self.idle_seconds

    def describe(self) -> str:
        again = "" if self.number == 1 else f" (round {self.number})"
        if self.place is None:
            return f"wait until {self.subject} fails at a record{again}"
        return f"wait until {self.subject} has delivered all records before {self.place}{again}"

    def perform(self, world: World, intent: Intent) -> str | None:
        del intent
        if self.search.sightings:
            return None
        if self.number > 1:
            self._await_restart(world)
        port, clock = world.use(RECORDS)(self.cluster, self.name), world.clock
        ends = port.read_ends()
        last: Mapping[Spot, int] = {}
        moved_at, looked_at = clock.now(), clock.now()
        while True:
            is_idle = clock.now() - moved_at >= self.idle_seconds
            is_failed, positions = self._look(world, port, last, is_idle=is_idle)
            if positions != last:
                last, moved_at = positions, clock.now()
            self._refuse_passed(positions)
            if is_failed:
                return self._end_round(port.find_next(self._pick(positions)))
            if is_idle:
                raise self._build_late(positions)
            if clock.now() - looked_at >= _END_SECONDS:
                looked_at = clock.now()
                self._refuse_well(port.find_next(self._pick(positions)), ends)
            clock.sleep(_LOOK_SECONDS)

    def _end_round(self, standing: Mapping[Spot, Place]) -> str:
        """Return what a failure shows.

        Raises:
            RefusedError: this was the last round, and the record isn't found.
        """
        search = self.search
        search.failures += 1
        search.candidates = self._narrow(standing, search.candidates)
        if self._is_found(search.candidates):
            return f"it is at {search.sightings[0]}"
        if self.number >= ROUNDS:
            raise self._build_lost(search.candidates)
        return f"it failed; {len(search.candidates)} records may be the cause"

    def _await_restart(self, world: World) -> None:
        """Wait until the restart shows: a status from before it would count as another failure."""
        until = world.clock.now() + _RESTART_SECONDS
        while world.clock.now() < until and _has_failed(read_status(world, self.cluster, self.name)):
            world.clock.sleep(_GLANCE_SECONDS)

    def _look(
        self, world: World, port: RecordPort, last: Mapping[Spot, int], *, is_idle: bool
    ) -> tuple[bool, Mapping[Spot, int]]:
        """Whether a task has failed, and the positions. The status first: one that is seen failed has committed."""
        try:
            is_failed = _has_failed(read_status(world, self.cluster, self.name))
            return is_failed, port.read_positions()
        except SeamarkError as error:
            # A rebalance or a broker that restarts hides it for a while.
            if is_idle or not error.retryable:
                raise
            return False, last

    def observe(self, world: World, intent: Intent) -> Observed:
        del intent
        return Observed.AFTER if _has_failed(read_status(world, self.cluster, self.name)) else Observed.BEFORE

    def _pick(self, positions: Mapping[Spot, int]) -> Mapping[Spot, int]:
        """The positions that matter: of the partition that is named, or of all."""
        if self.place is None:
            return positions
        return {spot: position for spot, position in positions.items() if spot == self.place.spot}

    def _narrow(self, standing: Mapping[Spot, Place], candidates: Mapping[Spot, Place] | None) -> Mapping[Spot, Place]:
        """Those that stood still since the last look: what moved on did not fail."""
        if candidates is None or self.place is not None:
            return standing
        return {spot: place for spot, place in standing.items() if candidates.get(spot) == place}

    def _is_found(self, candidates: Mapping[Spot, Place]) -> bool:
        if self.place is not None:
            found = candidates.get(self.place.spot) == self.place
        else:
            # Two failures at the same record: a task may have failed once for another reason.
            found = len(candidates) == 1 and self.search.failures > 1
        if found:
            self.search.sightings[:] = [self.place] if self.place is not None else candidates.values()
        return found

    def _refuse_passed(self, positions: Mapping[Spot, int]) -> None:
        if self.place is not None and positions.get(self.place.spot, 0) > self.place.offset:
            raise RefusedError(
                f"{self.subject} took {self.place} this time: nothing is skipped",
                cause=f"it stands at {positions[self.place.spot]} already",
                hint="its config and run state are restored; if it fails again: seamark offsets skip finds the place",
            )

    def _refuse_well(self, following: Mapping[Spot, Place], ends: Mapping[Spot, int]) -> None:
        """A sink that took all that was there when it began does not fail any more; else it would go on for ever."""
        if all(place.offset >= ends.get(spot, 0) for spot, place in following.items()):
            raise RefusedError(
                f"{self.subject} took every record that was there: nothing is skipped",
                cause="what it failed on before does not fail any more",
                hint="its config and run state are restored; it goes on",
            )

    def _build_lost(self, candidates: Mapping[Spot, Place]) -> RefusedError:
        named = ", ".join(str(place) for place in sorted(candidates.values())[:_MOST_NAMED])
        if self.place is not None:
            return RefusedError(
                f"{self.subject} does not get as far as {self.place}: nothing is skipped",
                cause=f"it fails, and its next record is {named or 'none'}; another record fails before, or the sink "
                "commits later than it takes records",
                hint="skip that one first; a sink that writes whole files may need smaller ones: --lend flush.size=1",
            )
        return RefusedError(
            f"nobody can tell at which record {self.subject} fails: nothing is skipped",
            cause=f"it may be one of {named}" if named else "it stands at another place each time",
            hint="its config and run state are restored; if you know the record: --at TOPIC-PARTITION@OFFSET",
        )

    def _build_late(self, positions: Mapping[Spot, int]) -> DeadlineError:
        where = "" if self.place is None else f" It stands at {positions.get(self.place.spot)}."
        return DeadlineError(
            f"{self.subject} did not fail again within {self.idle_seconds:g} s: nothing is skipped",
            cause=f"it runs, and nothing moves.{where}",
            hint="its config and run state are restored; if it runs now, there is nothing to skip",
        )


@step_kind("restart-search")
@dataclass(frozen=True, slots=True)
class RestartSearch(RestartFailed):
    """Restart the failed tasks of a sink for another round of a search, unless the record is found.

    It is a step of its own, so that each restart has its intent in the journal.
    """

    place: Place | None = None
    search: Annotated[PoisonSearch, Transient()] = field(default_factory=PoisonSearch, compare=False, repr=False)

    def intend(self, world: World) -> Intent:
        intent = RestartFailed.intend(self, world)
        return Intent(before=intent.before, after=intent.before) if self._is_over(world) else intent

    def observe(self, world: World, intent: Intent) -> Observed:
        # The task may have failed again already, at the same record: the status can't show whether it was restarted.
        # The next round doesn't depend on it.
        del world, intent
        return Observed.AFTER

    def _is_over(self, world: World) -> bool:
        if self.search.sightings or self.place is None:
            return bool(self.search.sightings)
        port = world.use(RECORDS)(self.cluster, self.name)
        positions = {spot: found for spot, found in port.read_positions().items() if spot == self.place.spot}
        return port.find_next(positions).get(self.place.spot) == self.place


def build_search(cluster: str, name: str, place: Place | None = None) -> Iterator[Step]:
    """Build the steps that find the record at which a sink fails, or that wait until it fails at `place`."""
    search = PoisonSearch()
    yield AwaitPoison(cluster, name, place, search=search)
    for number in range(2, ROUNDS + 1):
        yield RestartSearch(cluster, name, place, search=search)
        yield AwaitPoison(cluster, name, place, number=number, search=search)


def find_sightings(steps: Iterable[Step]) -> list[Place]:
    """Return the list to which the search among these steps adds the record that it finds."""
    return next(step.search.sightings for step in steps if isinstance(step, AwaitPoison))


def _has_failed(status: ConnectorStatus | None) -> bool:
    return status is not None and any(task.state is State.FAILED for task in status.tasks)
