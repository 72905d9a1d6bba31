"""The topics of a spec: what must be created, altered or grown before any connector is touched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seamark.changes.action import Reads, StepSeen, is_met
from seamark.changes.effect import Effect
from seamark.changes.environment import SnapshotWorld, World
from seamark.changes.locks import topic_lock
from seamark.core.refs import build_pipeline_owner, is_pipeline, parse_owner
from seamark.errors import FormatVersionError, RefusedError, SeamarkError, UsageError
from seamark.kafka.model import TopicStatus, normalize_value
from seamark.pipelines.actions import RegisterPipeline, build_body
from seamark.pipelines.declared import DesiredLanding
from seamark.specs.ownership import Claims
from seamark.topics.actions import TOPIC_GUARD, AlterTopicConfig, CreateTopic, GrowTopic, TopicAction, read_topic
from seamark.topics.safety import build_copy_hint
from seamark.topics.service import DesiredTopic


@dataclass(frozen=True, slots=True)
class PipelinePart:
    """What a plan does to pipelines: its actions with what they found, and what the reader must know."""

    steps: tuple[RegisterPipeline, ...] = ()
    seen: tuple[StepSeen, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The lines of the pipelines that change."""
        return tuple(one.build_effect(seen) for one, seen in zip(self.steps, self.seen, strict=True))


def plan_pipelines(
    landings: Iterable[DesiredLanding],
    *,
    claims: Claims,
    read: Callable[[], Mapping[str, Any]],
    reads: Reads,
    adopt: bool,
) -> PipelinePart:
    """Compare every pipeline with what is registered. The journal is not asked where the spec never had one."""
    wanted: dict[str, Any] = {one.name: build_body(one) for one in landings}
    own = {parse_owner(owner).name for owner in claims.own if is_pipeline(owner)}
    if not wanted and not own:
        return PipelinePart()
    try:
        registered = read()
    except FormatVersionError:
        raise
    except SeamarkError as error:
        return PipelinePart(notes=(f"pipelines are checked, and not registered: {error.message}",))
    _refuse_foreign(wanted, registered, claims=claims, adopt=adopt)
    steps = [RegisterPipeline(name, body) for name, body in wanted.items() if registered.get(name) != body]
    others = claims.others()
    gone = sorted(
        name for name in own - wanted.keys() if name in registered and build_pipeline_owner(name) not in others
    )
    steps += [RegisterPipeline(name, None) for name in gone]
    return PipelinePart(tuple(steps), tuple(RegisterPipeline.inspect(steps, reads)))


def _refuse_foreign(wanted: Mapping[str, Any], registered: Mapping[str, Any], *, claims: Claims, adopt: bool) -> None:
    """Refuse to take a pipeline from another spec, where it is not the same in both."""
    changed = [name for name, body in wanted.items() if registered.get(name, body) != body]
    others = claims.others() if changed and not adopt else {}
    if taken := [
        f"{name}: spec {others[build_pipeline_owner(name)].spec}"
        for name in changed
        if build_pipeline_owner(name) in others
    ]:
        raise RefusedError(
            f"another spec has {len(taken)} of these pipelines; nothing was changed",
            cause=", ".join(taken),
            hint="plan the spec that has them, take them out of one of the two, or take them over: --adopt",
        )


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
