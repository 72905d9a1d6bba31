"""The steps of a cut-over in their order.

What has come to the source is copied first, while everybody goes on. Readers stop before writers, so that what they
have read stands still; then writers, so that the source does. What is left is copied and proven, readers get their
places, everybody is turned over, and writers start last: until they write, all of it can be taken back. After a failure
whatever was turned is turned back, and everybody goes on where they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from seamark.change.steps.await_running import AwaitRunning
from seamark.change.steps.carry_reader import CarryReader, CarryReaderBack
from seamark.change.steps.copy_looks import Approach, CatchUp, ProveCopy, ProveStill
from seamark.change.steps.landing_looks import ProveCarried, ShutOutLanding
from seamark.change.steps.restored import BeginBack, StartRestored, name_back
from seamark.change.steps.run_state import SetRunState
from seamark.change.steps.stopped import ProveStopped
from seamark.change.steps.switch_config import StartSwitched, SwitchConfig
from seamark.change.steps.topic import CreateTopic, DeleteTopic
from seamark.change.steps.topic_change import AlterTopicConfig
from seamark.change.steps.turn_over import TurnOver
from seamark.model.group import is_pipeline

if TYPE_CHECKING:
    from seamark.change.step import Step
    from seamark.model.connector import Connector
    from seamark.model.plan import StepData

STOPPED, RUNNING = "STOPPED", "RUNNING"


class Mark(StrEnum):
    """When a step is done: in its turn, there until it succeeds, in any case, or on the way back after a failure."""

    TURN = "turn"
    INSISTS = "insists"
    ALWAYS = "always"
    FALLBACK = "fallback"


Marked = tuple["Step", Mark]


def build_data(step: Step, mark: Mark, *, lane: str) -> StepData:
    """A marked step as a plan holds it."""
    data = step.to_data(lane=lane, always=mark is Mark.ALWAYS)
    return replace(data, fallback=mark is Mark.FALLBACK, insists=mark is Mark.INSISTS)


@dataclass(frozen=True, slots=True)
class Party:
    """A connector that is turned over: its run state now, its workers, and what of its config changes."""

    connector: Connector
    state: str
    workers: tuple[str, ...]
    values: Mapping[str, str | None]

    @property
    def place(self) -> tuple[str, str]:
        """Its cluster and its name."""
        return self.connector.cluster, self.connector.name

    @property
    def switch(self) -> SwitchConfig:
        """What is so once it is turned over."""
        return SwitchConfig(*self.place, self.values)

    @property
    def switch_back(self) -> SwitchConfig:
        """What turns it back."""
        return SwitchConfig(*self.place, {key: self.connector.config.get(key) for key in self.values})


@dataclass(frozen=True, slots=True)
class Reader:
    """A group that is carried over; a sink's, or anybody's. A landing is the group `pipeline/NAME`."""

    group: str
    sees_debris: bool

    @property
    def is_landing(self) -> bool:
        """Whether it is a landing's ledger."""
        return is_pipeline(self.group)


@dataclass(frozen=True, slots=True)
class InPlace:
    """The topic that is made anew under its own name: the id it has now, its new shape, and what it is made with."""

    topic_id: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cutover:
    """All that a cut-over is about. `configs` are the new topic's from then on; None takes one away from it.

    With `in_place` the target is only for a while: the source is deleted, made anew, and filled from it. Nobody is
    turned then.
    """

    copy: str
    source: str
    target: str
    sinks: tuple[Party, ...]
    sources: tuple[Party, ...]
    readers: tuple[Reader, ...]
    configs: Mapping[str, str | None]
    held: Mapping[str, str | None]
    missing: str = ""
    level: str = "standard"
    quiet_seconds: float = 2.0
    accepts_zombies: bool = False
    in_place: InPlace | None = None

    @property
    def parties(self) -> tuple[Party, ...]:
        """Every connector of it."""
        return (*self.sinks, *self.sources)

    @property
    def landings(self) -> tuple[str, ...]:
        """Every landing that is carried over: `pipeline/NAME`."""
        return tuple(reader.group for reader in self.readers if reader.is_landing)

    def list_steps(self) -> tuple[Marked, ...]:
        """Every step, in order."""
        near = Approach(self.copy, self.source, self.target)
        turn = [near, *self._stand_still(), *self.list_copying(), *self._shut_out()]
        turn += [*self.list_carrying(), *self._prove_carried()]
        on: list[Step] = []
        if self.in_place:
            turn += [self._still, DeleteTopic(self.source)]
            on += self._make_anew(self.in_place)
        else:
            turn += self._turn_over()
        turn += self._try() if not self.in_place else ()
        # Writers last: what they write to the target is what can't be taken back.
        start = [one for party in self.parties for one in self._start(party)]
        steps = ((Mark.TURN, turn), (Mark.INSISTS, on), (Mark.FALLBACK, self._turn_back()), (Mark.ALWAYS, start))
        return tuple((step, mark) for mark, marked in steps for step in marked)

    def _stand_still(self) -> Iterator[Step]:
        for parties in (self.sinks, self.sources):
            yield from (SetRunState(*party.place, STOPPED) for party in parties if party.state != STOPPED)
            yield from (
                ProveStopped(
                    *party.place, party.workers, quiet_seconds=self.quiet_seconds, accepts_zombies=self.accepts_zombies
                )
                for party in parties
            )

    def list_copying(self) -> Iterator[Step]:
        """What is left is copied and proven."""
        named = (self.copy, self.source, self.target)
        yield CatchUp(*named)
        yield ProveCopy(*named, level=self.level)
        yield self._still

    @property
    def _still(self) -> ProveStill:
        return ProveStill(self.copy, self.source, self.target, quiet_seconds=self.quiet_seconds)

    def list_carrying(self, kind: type[CarryReader] = CarryReader) -> Iterator[Step]:
        """Every reader gets its places."""
        groups = tuple(reader.group for reader in self.readers)
        for reader in self.readers:
            yield kind(
                reader.group,
                self.copy,
                source=self.source,
                target=self.target,
                readers=groups,
                missing=self.missing,
                sees_debris=reader.sees_debris,
            )

    def _shut_out(self) -> Iterator[Step]:
        """Landings go on until the last moment: there is nothing to start again for those that were not under way."""
        for owner in self.landings:
            yield ShutOutLanding(owner, self.source, quiet_seconds=self.quiet_seconds)

    def _prove_carried(self) -> Iterator[Step]:
        groups = tuple(reader.group for reader in self.readers)
        for owner in self.landings:
            yield ProveCarried(self.copy, self.source, self.target, owner, readers=groups, missing=self.missing)

    def _turn_over(self) -> Iterator[Step]:
        if self.configs:
            yield _alter(self.target, self.configs)
        yield self._still
        for party in self.parties:
            yield TurnOver(*party.place, party.values, self.copy, self.source, self.target)

    def _make_anew(self, new: InPlace) -> Iterator[Step]:
        """The source, which is deleted by now, gives way to a new one of its name. The way leads forward only."""
        yield CreateTopic(self.source, new.partitions, new.replication_factor, new.configs)
        yield BeginBack(self.copy, self.source, self.target)
        back = replace(self, copy=name_back(self.copy), source=self.target, target=self.source)
        yield from back.list_copying()
        yield from back.list_carrying(CarryReaderBack)
        if self.configs:
            yield _alter(self.source, self.configs)

    def _try(self) -> Iterator[Step]:
        """Readers start, and must run, before a writer does."""
        for party in self.sinks:
            yield from self._start(party)
            if party.state == RUNNING:
                yield AwaitRunning(*party.place)

    def _turn_back(self) -> Iterator[Step]:
        if self.in_place:
            # Nobody was turned, and what was deleted does not come back.
            return
        yield from (SetRunState(*party.place, STOPPED) for party in self.sinks if party.state != STOPPED)
        yield from (party.switch_back for party in reversed(self.parties))
        if self.configs:
            yield _alter(self.target, self.held)

    def _start(self, party: Party) -> Iterator[Step]:
        if party.state == STOPPED:
            return
        if self.in_place:
            groups = tuple(reader.group for reader in self.readers)
            yield StartRestored(*party.place, party.state, self.copy, self.source, self.in_place.topic_id, groups)
        else:
            yield StartSwitched(*party.place, party.state, tuple(one.switch for one in self.parties))


def _alter(topic: str, configs: Mapping[str, str | None]) -> AlterTopicConfig:
    values = {key: value for key, value in configs.items() if value is not None}
    return AlterTopicConfig(topic, values, tuple(key for key in configs if key not in values))
