"""The section `topics` of spec files: what must be created, altered or grown before any connector changes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from seamark.changes.action import StepSeen, is_met
from seamark.changes.environment import Environment, SnapshotEnvironment
from seamark.changes.locks import topic_lock
from seamark.changes.spec_kind import (
    CONFIG_SCHEMA,
    CONNECTOR_PHASE,
    NUMBER_SCHEMA,
    SectionKind,
    SectionPlan,
    SectionRequest,
    SpecTable,
    build_table_schema,
    register_spec_kind,
)
from seamark.core.files import FileLocation
from seamark.errors import RefusedError, UsageError
from seamark.kafka.model import TopicStatus, normalize_value
from seamark.topics.actions import TOPIC_GUARD, AlterTopicConfig, CreateTopic, GrowTopic, TopicAction, read_topic
from seamark.topics.safety import build_copy_hint
from seamark.topics.service import DesiredTopic

TOPIC_KEYS: Mapping[str, str] = {
    "partitions": "Number of partitions. Default: the broker's.",
    "replication_factor": "Number of replicas of each partition. Default: the broker's.",
    "config": "The topic's config, with Kafka's keys.",
}
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
# Reading all topics costs about as much as a dozen single requests.
_MANY = 12


class TopicKind(SectionKind[DesiredTopic]):
    """Topics of spec files. A topic that is removed from the files is kept: its records can't be restored."""

    section = "topics"
    noun = "topic"
    summary = "Topics: name: {partitions, replication_factor, config}."
    phase = CONNECTOR_PHASE - 10

    def build_schema(self) -> dict[str, Any]:
        """Return the schema of a topic, which may be null."""
        shapes = {"partitions": NUMBER_SCHEMA, "replication_factor": NUMBER_SCHEMA, "config": CONFIG_SCHEMA}
        return {"anyOf": [{"type": "null"}, build_table_schema(TOPIC_KEYS, shapes)]}

    def read(self, file: SpecTable) -> Iterator[DesiredTopic]:
        """Yield the topics of a file."""
        topics = file.read_table(self.section)
        for key in topics:
            name, place = topics.read_name(key), topics.find_place(key)
            if topics.is_null(key):
                yield DesiredTopic(name, place)
                continue
            table = topics.read_table(key, what=f"topic {name}")
            table.check_keys(TOPIC_KEYS, what="a topic")
            config = table.read_config("config")
            yield DesiredTopic(
                name,
                place,
                partitions=_read_number(table, "partitions"),
                replication_factor=_read_number(table, "replication_factor"),
                config=config,
            )

    def build_from_program(self, name: str, place: FileLocation, fields: Mapping[str, Any]) -> DesiredTopic | None:
        """Return the topic that `topic(…)` declares in a program."""
        config, numbers = fields.get("config"), [fields.get(key, "") for key in ("partitions", "replication_factor")]
        if not isinstance(config, dict) or not all(isinstance(number, int | None) for number in numbers):
            return None
        if not all(value is None or isinstance(value, str) for value in config.values()):
            return None
        given = {key: value for key, value in config.items() if value is not None}
        return DesiredTopic(name, place, fields["partitions"], fields["replication_factor"], given)

    def plan(self, wanted: Sequence[DesiredTopic], request: SectionRequest) -> SectionPlan:
        """Compare each topic with the current one. Nothing is read if the spec declares none."""
        _refuse_twice(wanted)
        reads = request.reads
        world: Environment = SnapshotEnvironment(reads.world) if len(wanted) > _MANY else reads.world
        steps: list[TopicAction] = []
        notes: list[str] = []
        for topic in wanted:
            present = read_topic(world, topic.name)
            steps += _build_steps(topic, present)
            if present is not None and topic.partitions is not None and topic.partitions > len(present.partitions):
                notes += reads.use(TOPIC_GUARD).read_grow_notes(present)
        seen = [StepSeen(step.intend(world), frozenset({topic_lock(step.name)})) for step in steps]
        needed = [(step, one) for step, one in zip(steps, seen, strict=True) if not is_met(one.intent)]
        lasting = [note for step, one in needed for note in step.notes(one)]
        return SectionPlan(tuple(step for step, _ in needed), tuple(one for _, one in needed), (*notes, *lasting))


register_spec_kind(TopicKind())


def _read_number(table: SpecTable, key: str) -> int | None:
    if key not in table:
        return None
    text = table.find_text(key)
    if not _NUMBER.fullmatch(text):
        raise table.build_error(f"{key} must be an integer of 1 or more", key=key)
    return int(text)


def _build_steps(wanted: DesiredTopic, present: TopicStatus | None) -> list[TopicAction]:
    if present is None:
        return [CreateTopic(wanted.name, wanted.partitions, wanted.replication_factor, dict(wanted.config))]
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
            f"can't reduce topic {wanted.name} from {have} to {wanted.partitions} partitions; no changes were made",
            cause=f"Kafka can't remove partitions of a topic, and {wanted.place} has partitions: {wanted.partitions}",
            hint=f"write partitions: {have}, remove partitions from the spec, or {copy}",
        )
    if wanted.replication_factor is not None and wanted.replication_factor != present.replication_factor:
        raise RefusedError(
            f"can't change the replication factor of topic {wanted.name}; no changes were made",
            cause=f"it is {present.replication_factor}, {wanted.place} has {wanted.replication_factor}, and seamark "
            "does not "
            "reassign replicas",
            hint="use kafka-reassign-partitions.sh, or remove replication_factor from the spec",
        )


def _refuse_twice(topics: Sequence[DesiredTopic]) -> None:
    places: dict[str, DesiredTopic] = {}
    for topic in topics:
        if topic.name in places:
            raise UsageError(
                f"topic {topic.name} is defined twice",
                cause=f"{places[topic.name].place} and {topic.place}",
                hint="remove one of the definitions",
            )
        places[topic.name] = topic
