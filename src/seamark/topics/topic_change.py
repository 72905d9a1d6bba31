"""A topic gets more partitions, or other configs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from seamark.changes.action import StepSeen, action_kind, needs_permission
from seamark.changes.comparison import compare_image
from seamark.changes.effect import Effect, FieldChange, Sign
from seamark.changes.step import CanNotUndo, Intent, Observed, Step, step_kind
from seamark.changes.world import World
from seamark.errors import RefusedError
from seamark.kafka.api import BROKERS
from seamark.kafka.topic import TopicStatus
from seamark.policy.permission import Permission
from seamark.report.words import render_count
from seamark.topics.topic import TopicAction, compare_configs
from seamark.topics.topic_image import build_configs, is_led, pick_configs, read_topic, require_topic


@action_kind("grow-topic")
@needs_permission(Permission.ADMINISTER)
@step_kind("grow-topic")
@dataclass(frozen=True, slots=True)
class GrowTopic(TopicAction):
    """A topic gets more partitions, for good: Kafka takes none away."""

    aspect: ClassVar[str] = "partitions"
    partitions: int

    def describe(self) -> str:
        return f"grow {self.subject} to {self.partitions} partitions, for good"

    def build_effect(self, seen: StepSeen) -> Effect:
        have = int(seen.intent.before["partitions"])
        more = render_count(self.partitions - have, "partition")
        fields = (FieldChange("partitions", str(have), str(self.partitions)),)
        return Effect(Sign.CHANGE, self.subject, f"grow by {more}, for good", fields)

    def intend(self, world: World) -> Intent:
        topic = require_topic(world, self.name)
        after = {"topic_id": topic.topic_id, "partitions": self.partitions}
        return Intent(before=_build_count(topic), after=after)

    def perform(self, world: World, intent: Intent) -> None:
        if intent.before["partitions"] > self.partitions:
            raise RefusedError(
                f"{self.subject} has {intent.before['partitions']} partitions, and Kafka takes none away",
                hint=f"copy it to a topic with {self.partitions} partitions: seamark copy",
            )
        world.use(BROKERS)().grow_topic(self.name, partitions=self.partitions)

    def observe(self, world: World, intent: Intent) -> Observed:
        topic = read_topic(world, self.name)
        if topic is None:
            return Observed.FOREIGN
        seen = compare_image(_build_count(topic), intent)
        return seen if seen is not Observed.AFTER or is_led(topic) else Observed.BETWEEN

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        if intent.before == intent.after:
            return None
        return CanNotUndo("Kafka takes no partition away from a topic")


@action_kind("alter-topic-config")
@needs_permission(Permission.ADMINISTER)
@step_kind("alter-topic-config")
@dataclass(frozen=True, slots=True)
class AlterTopicConfig(TopicAction):
    """Configs of a topic are set; those in `remove` are taken away from it, and the brokers' default counts again.

    A plan has one such step for a topic: their images are only comparable where they show the same keys.
    """

    aspect: ClassVar[str] = "configs"
    values: Mapping[str, str] = field(default_factory=dict)
    remove: tuple[str, ...] = ()

    def describe(self) -> str:
        return f"change the config of {self.subject}: {', '.join(self._keys())}"

    def build_effect(self, seen: StepSeen) -> Effect:
        fields = compare_configs(seen.intent.before["configs"], seen.intent.after["configs"])
        return Effect(Sign.CHANGE, self.subject, f"change {render_count(len(fields), 'config')}", fields)

    def intend(self, world: World) -> Intent:
        topic = require_topic(world, self.name)
        self._refuse_hidden(topic)
        wanted: dict[str, str | None] = {**build_configs(self.values), **dict.fromkeys(self.remove)}
        after = {"topic_id": topic.topic_id, "configs": {key: wanted[key] for key in self._keys()}}
        return Intent(before=self._build_image(topic), after=after)

    def perform(self, world: World, intent: Intent) -> None:
        del intent
        world.use(BROKERS)().alter_topic_config(self.name, values=self.values, remove=self.remove)

    def observe(self, world: World, intent: Intent) -> Observed:
        topic = read_topic(world, self.name)
        return Observed.FOREIGN if topic is None else compare_image(self._build_image(topic), intent)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        before: Mapping[str, str | None] = intent.before["configs"]
        values = {key: value for key, value in before.items() if value is not None}
        return AlterTopicConfig(self.name, values, tuple(key for key in before if key not in values))

    def _keys(self) -> list[str]:
        return sorted({*self.values, *self.remove})

    def _build_image(self, topic: TopicStatus) -> dict[str, Any]:
        return {"topic_id": topic.topic_id, "configs": pick_configs(topic, self._keys())}

    def _refuse_hidden(self, topic: TopicStatus) -> None:
        hidden = [key for key in self._keys() if key in topic.configs and topic.configs[key].is_sensitive]
        if hidden:
            raise RefusedError(
                f"the brokers do not tell the {', '.join(hidden)} of {self.subject}",
                cause="what can't be seen can be neither verified nor undone",
                hint="change it with Kafka's own kafka-configs",
            )


def _build_count(topic: TopicStatus) -> dict[str, Any]:
    return {"topic_id": topic.topic_id, "partitions": len(topic.partitions)}
