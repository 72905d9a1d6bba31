"""The topics of a spec: what must be created, altered or grown before any connector is touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seamark.changes.action import Reads, StepSeen, is_met
from seamark.changes.effect import Effect
from seamark.changes.locks import topic_lock
from seamark.changes.snapshot import SnapshotWorld
from seamark.changes.world import World
from seamark.errors import RefusedError, UsageError
from seamark.kafka.topic import TopicStatus
from seamark.kafka.topic_config import normalize_value
from seamark.topics.safety import build_copy_hint
from seamark.topics.spec import DesiredTopic
from seamark.topics.topic import TOPIC_GUARD, CreateTopic, TopicAction
from seamark.topics.topic_change import AlterTopicConfig, GrowTopic
from seamark.topics.topic_image import read_topic

# Reading all topics costs about as much as a dozen single looks.
_MANY = 12


@dataclass(frozen=True, slots=True)
class TopicPart:
    """What a plan does to topics: its actions with what they found, and what the reader must know."""

    steps: tuple[TopicAction, ...] = ()
    seen: tuple[StepSeen, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The lines of the topics that change."""
        return tuple(one.build_effect(seen) for one, seen in zip(self.steps, self.seen, strict=True))


def plan_topics(topics: Sequence[DesiredTopic], *, reads: Reads) -> TopicPart:
    """Compare every topic with what is there. Nothing is asked where the spec names none."""
    _refuse_twice(topics)
    world = reads.world
    looking: World = SnapshotWorld(world) if len(topics) > _MANY else world
    steps: list[TopicAction] = []
    notes: list[str] = []
    for wanted in topics:
        present = read_topic(looking, wanted.name)
        steps += _build_steps(wanted, present)
        if present is not None and wanted.partitions is not None and wanted.partitions > len(present.partitions):
            notes += reads.use(TOPIC_GUARD).read_grow_notes(present)
    seen = [StepSeen(step.intend(looking), frozenset({topic_lock(step.name)})) for step in steps]
    needed = [(step, one) for step, one in zip(steps, seen, strict=True) if not is_met(one.intent)]
    lasting = [note for step, one in needed for note in step.notes(one)]
    return TopicPart(tuple(step for step, _ in needed), tuple(one for _, one in needed), (*notes, *lasting))


def _build_steps(wanted: DesiredTopic, present: TopicStatus | None) -> list[TopicAction]:
    if present is None:
        return [CreateTopic(wanted.name, wanted.partitions, wanted.replication, dict(wanted.config))]
    _refuse_impossible(wanted, present)
    steps: list[TopicAction] = []
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
