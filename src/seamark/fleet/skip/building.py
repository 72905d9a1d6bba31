"""The steps of a skip in their order, and the plan around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from seamark.change.steps.await_progress import AwaitProgress
from seamark.change.steps.meanwhile import LendConfig, RunMeanwhile
from seamark.change.steps.offsets import WriteOffsets
from seamark.change.steps.park import ParkRecord
from seamark.change.steps.poison import AwaitPoison
from seamark.change.steps.run_state import SetRunState
from seamark.change.steps.stopped import ProveStopped, VerifyOffsets
from seamark.fleet.lock_names import build_lock_notes, build_locks, find_group
from seamark.fleet.moving.guards import find_quiet_seconds, find_workers
from seamark.fleet.plan_draft import build_plan
from seamark.fleet.planned import Planned
from seamark.fleet.skip.lending import Lent, build_return
from seamark.fleet.skip.poison import Poison
from seamark.model.offset import Offset
from seamark.offsets.meaning.sink import OFFSET, build_partition

if TYPE_CHECKING:
    from seamark.change.actor import Actor
    from seamark.change.step import Step
    from seamark.context import ConnectSettings, Context
    from seamark.fleet.world import FleetWorld
    from seamark.model.connector import Connector

Steps = list[tuple["Step", bool]]
"""Steps, each with whether it is done in any case once something was begun."""


class SkipBuilder:
    """Builds the plans for one sink."""

    def __init__(
        self,
        connector: Connector,
        *,
        context: Context,
        settings: ConnectSettings,
        world: Callable[[], FleetWorld],
        actor: Callable[[], Actor],
        accepts_zombies: bool = False,
    ) -> None:
        self._connector = connector
        self._cluster, self._name = connector.cluster, connector.name
        self._context = context
        self._settings = settings
        self._world = world
        self._actor = actor
        self._accepts_zombies = accepts_zombies

    def stop(self) -> Steps:
        """Stopped, and proven to be."""
        return [(SetRunState(self._cluster, self._name, "STOPPED"), False), (self._prove(), False)]

    def deliver(self, lent: Lent, waiting: AwaitPoison) -> Steps:
        """Record by record, until it stands at the one that fails; then stopped, with its config back.

        It is stopped for each change of the config: before 3.9 running tasks did not hear of a consumer's override.
        """
        cluster, name = self._cluster, self._name
        return [
            *self.stop(),
            (LendConfig(cluster, name, lent), False),
            (RunMeanwhile(cluster, name, "RUNNING"), False),
            (waiting, False),
            (RunMeanwhile(cluster, name, "STOPPED"), True),
            (LendConfig(cluster, name, build_return(self._connector, lent), returns=True), True),
            (self._prove(), False),
        ]

    def restore(self) -> Steps:
        """Running, as a failed sink is meant to."""
        return [(SetRunState(self._cluster, self._name, "RUNNING"), True)]

    def park_and_go_on(self, poison: Poison, topic: str) -> Steps:
        """The record parked, the position behind it, and the sink seen to go on."""
        cluster, name, place = self._cluster, self._name, poison.place
        write = WriteOffsets(cluster, name, (Offset(build_partition(place.spot), {OFFSET: place.offset + 1}),))
        return [
            (ParkRecord(cluster, name, place, topic, poison.failure), False),
            (write, False),
            (VerifyOffsets(write), False),
            *self.restore(),
            (AwaitProgress(cluster, name, place), False),
        ]

    def build(
        self,
        title: str,
        steps: Steps,
        *,
        locks: Sequence[str] = (),
        notes: Sequence[str] = (),
    ) -> Planned:
        """The plan: one lane, the locks of the sink, and what must still be so."""
        connector, settings = self._connector, self._settings
        bare = tuple(step for step, _ in steps)
        own = build_locks(connector.name, [connector.config], kind=connector.type, settings=settings)
        plan = build_plan(
            title,
            bare,
            context=self._context.name,
            world=self._world(),
            actor=self._actor(),
            lane=lambda _: f"connector/{connector.owner}",
            always=[always for _, always in steps],
            locks=(*own, *locks),
            notes=(*notes, *self._find_shared(), *build_lock_notes(settings, kinds=[connector.type])),
        )
        return Planned(plan, steps=bare)

    def _prove(self) -> ProveStopped:
        return ProveStopped(
            self._cluster,
            self._name,
            find_workers(self._connector),
            quiet_seconds=find_quiet_seconds(self._context),
            accepts_zombies=self._accepts_zombies,
        )

    def _find_shared(self) -> tuple[str, ...]:
        shared = self._settings.consumer_group_id
        if shared is None or find_group(self._name, self._connector.config, self._settings) != shared:
            return ()
        return (f"group {shared} is that of every sink of {self._cluster}: they skip the record too",)
