"""The steps of a cut-over in their order.

Readers stop first, so that what they have read stands still; then writers, so that the source does. What is left is
copied and proven, readers get their places, everybody is turned over, and writers start last: until they write, all of
it can be taken back. After a failure whatever was turned is turned back, and everybody goes on where they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from seamark.change.steps.await_running import AwaitRunning
from seamark.change.steps.carry_reader import CarryReader
from seamark.change.steps.copy_looks import CatchUp, ProveCopy, ProveStill
from seamark.change.steps.run_state import SetRunState
from seamark.change.steps.stopped import ProveStopped
from seamark.change.steps.switch_config import StartSwitched, SwitchConfig
from seamark.change.steps.topic_change import AlterTopicConfig

if TYPE_CHECKING:
    from seamark.change.step import Step
    from seamark.model.connector import Connector

STOPPED, RUNNING = "STOPPED", "RUNNING"


class Mark(StrEnum):
    """When a step is done: in its turn, in any case, or on the way back after a failure."""

    TURN = "turn"
    ALWAYS = "always"
    FALLBACK = "fallback"


Marked = tuple["Step", Mark]


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
        """What turns it over."""
        return SwitchConfig(*self.place, self.values)

    @property
    def switch_back(self) -> SwitchConfig:
        """What turns it back."""
        return SwitchConfig(*self.place, {key: self.connector.config.get(key) for key in self.values})


@dataclass(frozen=True, slots=True)
class Reader:
    """A group that is carried over; a sink's, or anybody's."""

    group: str
    sees_debris: bool


@dataclass(frozen=True, slots=True)
class Cutover:
    """All that a cut-over is about. `configs` are the target's from then on; None takes one away from it."""

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

    @property
    def parties(self) -> tuple[Party, ...]:
        """Every connector of it."""
        return (*self.sinks, *self.sources)

    def list_steps(self) -> tuple[Marked, ...]:
        """Every step, in order."""
        turn = [*self._stand_still(), *self._copy(), *self._carry(), *self._turn_over(), *self._try()]
        back = [(step, Mark.FALLBACK) for step in self._turn_back()]
        # Writers last: what they write to the target is what can't be taken back.
        start = [(one, Mark.ALWAYS) for party in self.parties for one in self._start(party)]
        return (*((step, Mark.TURN) for step in turn), *back, *start)

    def _stand_still(self) -> Iterator[Step]:
        for parties in (self.sinks, self.sources):
            yield from (SetRunState(*party.place, STOPPED) for party in parties if party.state != STOPPED)
            yield from (
                ProveStopped(
                    *party.place, party.workers, quiet_seconds=self.quiet_seconds, accepts_zombies=self.accepts_zombies
                )
                for party in parties
            )

    def _copy(self) -> Iterator[Step]:
        named = (self.copy, self.source, self.target)
        yield CatchUp(*named)
        yield ProveCopy(*named, level=self.level)
        yield self._still

    @property
    def _still(self) -> ProveStill:
        return ProveStill(self.copy, self.source, self.target, quiet_seconds=self.quiet_seconds)

    def _carry(self) -> Iterator[Step]:
        groups = tuple(reader.group for reader in self.readers)
        for reader in self.readers:
            yield CarryReader(
                reader.group,
                self.copy,
                source=self.source,
                target=self.target,
                readers=groups,
                missing=self.missing,
                sees_debris=reader.sees_debris,
            )

    def _turn_over(self) -> Iterator[Step]:
        if self.configs:
            yield _alter(self.target, self.configs)
        yield self._still
        yield from (party.switch for party in self.parties)

    def _try(self) -> Iterator[Step]:
        """Readers start, and must run, before a writer does."""
        for party in self.sinks:
            yield from self._start(party)
            if party.state == RUNNING:
                yield AwaitRunning(*party.place)

    def _turn_back(self) -> Iterator[Step]:
        yield from (SetRunState(*party.place, STOPPED) for party in self.sinks if party.state != STOPPED)
        yield from (party.switch_back for party in reversed(self.parties))
        if self.configs:
            yield _alter(self.target, self.held)

    def _start(self, party: Party) -> Iterator[Step]:
        if party.state != STOPPED:
            switches = tuple(one.switch for one in self.parties)
            yield StartSwitched(*party.place, party.state, switches)


def _alter(topic: str, configs: Mapping[str, str | None]) -> AlterTopicConfig:
    values = {key: value for key, value in configs.items() if value is not None}
    return AlterTopicConfig(topic, values, tuple(key for key in configs if key not in values))
