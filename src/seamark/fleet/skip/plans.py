"""Plans around a poison record: one that finds it by trying, and one that parks and skips it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from seamark.change.locks import topic_lock
from seamark.change.steps.meanwhile import MakeParkingTopic
from seamark.change.steps.poison import AwaitPoison
from seamark.connect.capability import Capability
from seamark.errors import RefusedError, UsageError
from seamark.fleet.planned import Planned
from seamark.fleet.policy import refuse_forbidden_steps
from seamark.fleet.skip.building import SkipBuilder
from seamark.fleet.skip.effect import build_search_effect, build_skip_effect
from seamark.fleet.skip.finding import PoisonFinder
from seamark.fleet.skip.lending import (
    BATCH,
    DEAD_LETTERS,
    Lent,
    choose_lent,
    find_refusal,
    lend_tasks,
    refuse_own_positions,
    tells_truth,
)
from seamark.fleet.skip.poison import FoundBy, Poison
from seamark.fleet.skip.records import SinkRecords, matches_topics
from seamark.model.record import Place

if TYPE_CHECKING:
    from seamark.change.actor import Actor
    from seamark.context import Context
    from seamark.fleet.clusters import Clusters
    from seamark.fleet.connector_life.connectors import Connectors
    from seamark.fleet.world import FleetWorld
    from seamark.model.connector import Connector

# Parked records wait for a person, who may be on holiday.
_KEPT = {"retention.ms": "-1", "cleanup.policy": "delete"}


@dataclass(frozen=True, slots=True)
class Search:
    """A plan that lets a sink stand at its poison record. When it was applied, the record can be read."""

    planned: Planned
    owner: str
    sightings: list[Place]
    is_sure: bool
    finder: PoisonFinder

    def read_poison(self) -> Poison:
        """The record that was found.

        Raises:
            RefusedError: it was not found, or nobody can tell whether it is the one.
        """
        if not self.sightings:
            raise RefusedError(f"the record at which {self.owner} fails was not found; nothing was skipped")
        if not self.is_sure:
            raise RefusedError(
                f"{self.owner} stands at {self.sightings[0]}; nothing was skipped",
                cause="its class is not one of which seamark knows that its position tells how far it came: some sinks "
                "hold records back",
                hint=f"if that is the record: --at {self.sightings[0]}; a sink that writes whole files may be lent "
                "smaller ones: --lend KEY=VALUE",
            )
        return self.finder.confirm(self.sightings[0], FoundBy.STANDING)


class Skips:
    """What can be done about a poison record: find it, search for it by trying, plan to skip it."""

    def __init__(
        self,
        context: Context,
        *,
        clusters: Clusters,
        connectors: Connectors,
        world: Callable[[], FleetWorld],
        actor: Callable[[], Actor],
    ) -> None:
        self._context = context
        self._clusters = clusters
        self._connectors = connectors
        self._world = world
        self._actor = actor

    def find(self, owner: str, *, at: Place | None = None) -> Poison | None:
        """The poison record of a failed sink; None where only trying tells it. `at` names it, where somebody knows.

        Raises:
            RefusedError: it is no sink, or no task of it has failed.
        """
        connector = self._read(owner)
        finder = PoisonFinder(connector, self._records(connector))
        return finder.find() if at is None else finder.confirm(at, FoundBy.OPERATOR)

    def search(self, owner: str, *, lend: Mapping[str, str] | None = None) -> Search:
        """Plan to let a failed sink take record by record until it stands at the one that it can't take."""
        connector = self._read(owner)
        records = self._records(connector)
        finder = PoisonFinder(connector, records)
        lent = lend_tasks(connector, choose_lent(connector, lend or {}), partitions=len(records.read_positions()))
        if refusal := find_refusal(connector, lent, self._clusters.client(connector.cluster)):
            raise RefusedError(
                f"nobody can tell at which record {connector.owner} fails; nothing was changed",
                cause=f"neither its bytes nor its trace tell, and Connect would not let it take one by one: {refusal}",
                hint=f"let connector.client.config.override.policy of the workers allow {BATCH}; where it comes next, "
                "name the record: --at TOPIC-PARTITION@OFFSET",
            )
        waiting = AwaitPoison(connector.cluster, connector.name)
        builder, is_sure = self._open(connector), tells_truth(connector, lent)
        steps = [*builder.deliver(lent, waiting), *builder.restore()]
        refuse_forbidden_steps([step for step, _ in steps], self._clusters, self._context)
        planned = builder.build(f"find the record at which {connector.owner} fails", steps)
        planned = replace(planned, effects=(build_search_effect(connector, lent, is_sure=is_sure),))
        return Search(planned, connector.owner, waiting.sightings, is_sure, finder)

    def plan(
        self,
        owner: str,
        poison: Poison,
        *,
        park: str | None = None,
        lend: Mapping[str, str] | None = None,
        accept_zombies: bool = False,
        show: bool = False,
    ) -> Planned:
        """Plan to deliver all that is before a record, to park it, and to let the sink go on behind it."""
        connector = self._read(owner)
        records = self._records(connector)
        topic = self._choose_topic(connector, park)
        lent = choose_lent(connector, lend or {})
        is_delivering, notes = self._choose_delivery(connector, poison, lent, records)
        builder, place = self._open(connector, accepts_zombies=accept_zombies), poison.place
        steps = (
            builder.deliver(lent, AwaitPoison(connector.cluster, connector.name, place))
            if is_delivering
            else builder.stop()
        )
        refuse_forbidden_steps([step for step, _ in steps], self._clusters, self._context)
        is_new = not self._world().kafka().read_topics([topic]).items
        steps += [(MakeParkingTopic(topic, partitions=1, configs=_KEPT), False)] if is_new else []
        planned = builder.build(
            f"skip {place} of {connector.owner}",
            [*steps, *builder.park_and_go_on(poison, topic)],
            locks=(topic_lock(topic),) if is_new else (),
            notes=(*notes, "an undo puts the position back to the record; the parked copy stays"),
        )
        record = records.read(place) if show else None
        effect = build_skip_effect(
            connector,
            poison,
            topic=f"{topic} (a new topic)" if is_new else topic,
            is_delivering=is_delivering,
            is_parked=not is_new and records.is_parked(topic, place),
            shown=record.value if record is not None else None,
        )
        return replace(planned, effects=(effect,))

    def _choose_delivery(
        self, connector: Connector, poison: Poison, lent: Lent, records: SinkRecords
    ) -> tuple[bool, tuple[str, ...]]:
        """Whether the records before it are delivered one by one. That it fails right there proves it, too."""
        refusal = find_refusal(connector, lent, self._clusters.client(connector.cluster))
        if not refusal:
            return True, ()
        following = records.find_next({poison.place.spot: poison.position})
        if following.get(poison.place.spot) == poison.place:
            return False, (f"nothing has tried that it is this record: Connect does not allow it ({refusal})",)
        raise RefusedError(
            f"the records before {poison.place} can't be delivered without it; nothing was changed",
            cause=f"{connector.owner} has committed {poison.position}, and Connect would not let it take records one "
            f"by one: {refusal}",
            hint=f"let connector.client.config.override.policy of the workers allow {BATCH}",
        )

    def _choose_topic(self, connector: Connector, park: str | None) -> str:
        topic = park or connector.config.get(DEAD_LETTERS, "").strip() or f"{connector.name}-dlq"
        if matches_topics(connector.config, topic):
            raise UsageError(
                f"{connector.owner} reads {topic} itself: a record parked there would come back",
                hint="choose another topic: --park TOPIC",
            )
        return topic

    def _open(self, connector: Connector, *, accepts_zombies: bool = False) -> SkipBuilder:
        return SkipBuilder(
            connector,
            context=self._context,
            settings=self._clusters.settings(connector.cluster),
            world=self._world,
            actor=self._actor,
            accepts_zombies=accepts_zombies,
        )

    def _read(self, owner: str) -> Connector:
        connector = self._connectors.one(owner)
        capabilities = self._clusters.client(connector.cluster).read_capabilities()
        capabilities.require(Capability.WRITE_OFFSETS, doing=f"skip a record of {connector.owner}")
        refuse_own_positions(connector)
        return connector

    def _records(self, connector: Connector) -> SinkRecords:
        return self._world().records(connector.cluster, connector.name)
