"""A sink takes records one by one until it stands at the one that it can't take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from seamark.change.codec import Transient
from seamark.change.record_port import RECORDS, RecordPort
from seamark.change.step import Intent, Observed, step_kind
from seamark.change.steps.look import Look
from seamark.change.steps.read import read_status
from seamark.change.world import CONNECT, World
from seamark.errors import DeadlineError, RefusedError, SeamarkError
from seamark.model.connector import ConnectorStatus, State
from seamark.model.record import Place
from seamark.model.spot import Spot

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
_ROUNDS = 5
_MOST_NAMED = 5


@step_kind("await-poison")
@dataclass(frozen=True, slots=True)
class AwaitPoison(Look):
    """A sink that is lent batches of one record is watched until it fails, and its committed position says at which.

    When a task fails, Connect commits what the batches before it came to: with one record in a batch, that is the place
    of the one that failed. Where `place` is given, it must be that one. Else the place is told to `sightings`: of all
    partitions with a record to come, the one that does not move on from failure to failure.
    """

    aspect: ClassVar[str] = "poison"

    cluster: str
    name: str
    place: Place | None = None
    idle_seconds: float = _IDLE_SECONDS
    # For the process that holds the step; not part of the plan.
    sightings: Annotated[list[Place], Transient()] = field(default_factory=list, compare=False, repr=False)

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    @property
    def settle_seconds(self) -> float:
        return self.idle_seconds

    def describe(self) -> str:
        if self.place is None:
            return f"let {self.subject} take record by record until it stands at the one that fails"
        return f"let {self.subject} deliver all that is before {self.place}"

    def perform(self, world: World, intent: Intent) -> str | None:
        del intent
        port, clock = world.use(RECORDS)(self.cluster, self.name), world.clock
        ends = port.read_ends()
        candidates: Mapping[Spot, Place] | None = None
        last: Mapping[Spot, int] = {}
        moved_at, looked_at, looks = clock.now(), clock.now(), 0
        while True:
            is_idle = clock.now() - moved_at >= self.idle_seconds
            is_failed, positions = self._look(world, port, last, is_idle=is_idle)
            if positions != last:
                last, moved_at = positions, clock.now()
            self._refuse_passed(positions)
            if is_failed:
                looks += 1
                candidates = self._narrow(port.find_next(self._pick(positions)), candidates)
                if self._is_found(candidates, looks=looks):
                    return f"it stands at {self.place or self.sightings[0]}"
                if looks >= _ROUNDS:
                    raise self._build_lost(candidates)
                self._restart(world)
                moved_at = clock.now()
            elif is_idle:
                raise self._build_late(positions)
            elif clock.now() - looked_at >= _END_SECONDS:
                looked_at = clock.now()
                self._refuse_well(port.find_next(self._pick(positions)), ends)
            clock.sleep(_LOOK_SECONDS)

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

    def _is_found(self, candidates: Mapping[Spot, Place], *, looks: int) -> bool:
        if self.place is not None:
            return candidates.get(self.place.spot) == self.place
        # Twice at the same one: a task may have failed for once, and for another reason.
        if len(candidates) == 1 and looks > 1:
            self.sightings[:] = candidates.values()
            return True
        return False

    def _restart(self, world: World) -> None:
        """Start what failed again. Nothing is left behind by it: a crash here needs no settling."""
        world.use(CONNECT)(self.cluster).restart(self.name, include_tasks=True, only_failed=True)
        until = world.clock.now() + _RESTART_SECONDS
        while world.clock.now() < until and _has_failed(read_status(world, self.cluster, self.name)):
            world.clock.sleep(_GLANCE_SECONDS)

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


def _has_failed(status: ConnectorStatus | None) -> bool:
    return status is not None and any(task.state is State.FAILED for task in status.tasks)
