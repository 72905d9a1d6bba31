"""The topics of a spec: what must be created, altered or grown before any connector is touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seamark.change.locks import topic_lock
from seamark.change.snapshot import SnapshotWorld
from seamark.change.step import Step
from seamark.change.steps.topic import CreateTopic
from seamark.change.steps.topic_change import AlterTopicConfig, GrowTopic
from seamark.change.steps.topic_image import read_topic
from seamark.change.world import World
from seamark.errors import RefusedError, UsageError
from seamark.fleet.brokers.topic_safety import build_copy_hint, build_grow_notes
from seamark.fleet.brokers.topic_users import read_users
from seamark.fleet.clusters import Clusters
from seamark.fleet.effects import Look
from seamark.fleet.planner import build_undo_notes
from seamark.fleet.world import FleetWorld
from seamark.model.spec import DesiredTopic
from seamark.model.topic import TopicStatus
from seamark.model.topic_config import normalize_value

# Reading all topics costs about as much as a dozen single looks.
_MANY = 12


@dataclass(frozen=True, slots=True)
class TopicPart:
    """What a plan does to topics: its steps with what they found, and what the reader must know."""

    looks: tuple[Look, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def locks(self) -> frozenset[str]:
        """The locks of the topics that change."""
        return frozenset(topic_lock(look.step.subject.removeprefix("topic/")) for look in self.looks)


def plan_topics(topics: Sequence[DesiredTopic], *, world: World, clusters: Clusters) -> TopicPart:
    """Compare every topic with what is there. Nothing is asked where the spec names none."""
    _refuse_twice(topics)
    looking: World = SnapshotWorld(world) if len(topics) > _MANY else world
    steps: list[Step] = []
    notes: list[str] = []
    for wanted in topics:
        present = read_topic(looking, wanted.name)
        found = _build_steps(wanted, present)
        steps += found
        if present is not None and any(isinstance(step, GrowTopic) for step in found):
            notes += _read_grow_notes(present, world, clusters)
    looks = tuple(Look(step, step.intend(looking)) for step in steps)
    needed = tuple(look for look in looks if look.is_needed)
    return TopicPart(needed, (*notes, *build_undo_notes(needed)))


def _build_steps(wanted: DesiredTopic, present: TopicStatus | None) -> list[Step]:
    if present is None:
        return [CreateTopic(wanted.name, wanted.partitions, wanted.replication, dict(wanted.config))]
    _refuse_impossible(wanted, present)
    steps: list[Step] = []
    if wanted.partitions is not None and wanted.partitions > len(present.partitions):
        steps.append(GrowTopic(wanted.name, wanted.partitions))
    own = present.own_configs
    changed = {
        key: value
        for key, value in wanted.config.items()
        if key not in own or normalize_value(own[key]) != normalize_value(value)
    }
    if changed:
        steps.append(AlterTopicConfig(wanted.name, changed))
    return steps


def _refuse_impossible(wanted: DesiredTopic, present: TopicStatus) -> None:
    have = len(present.partitions)
    if wanted.partitions is not None and wanted.partitions < have:
        copy = build_copy_hint(present, to=wanted.partitions)
        raise RefusedError(
            f"topic {wanted.name} has {have} partitions, and Kafka takes none away; nothing was changed",
            cause=f"{wanted.place} wants {wanted.partitions}",
            hint=f"write partitions: {have}, or take it out of the spec; {copy}",
        )
    if wanted.replication is not None and wanted.replication != present.replication_factor:
        raise RefusedError(
            f"topic {wanted.name} has replication {present.replication_factor}; nothing was changed",
            cause=f"{wanted.place} wants {wanted.replication}, and seamark moves no copies between brokers",
            hint="change it with Kafka's own kafka-reassign-partitions, or take replication out of the spec",
        )


def _refuse_twice(topics: Sequence[DesiredTopic]) -> None:
    places: dict[str, DesiredTopic] = {}
    for topic in topics:
        if topic.name in places:
            raise UsageError(
                f"topic {topic.name} is defined twice",
                cause=f"{places[topic.name].place} and {topic.place}",
                hint="take one of them out",
            )
        places[topic.name] = topic


def _read_grow_notes(topic: TopicStatus, world: World, clusters: Clusters) -> tuple[str, ...]:
    if not isinstance(world, FleetWorld):
        return ()
    return build_grow_notes(topic, read_users(topic, clusters=clusters, kafka=world.kafka()))
