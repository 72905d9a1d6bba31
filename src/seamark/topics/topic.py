"""A topic comes and goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self

from seamark.changes.action import Reads, StandaloneStep, StepSeen, action_kind, needs_permission
from seamark.changes.comparison import compare_image
from seamark.changes.effect import Effect, FieldChange, Sign
from seamark.changes.last_look import take_last_look
from seamark.changes.locks import topic_lock
from seamark.changes.step import CanNotUndo, Intent, Observed, Step, step_kind
from seamark.changes.world import World
from seamark.core.ports import Port
from seamark.errors import AlreadyExistsError, RefusedError
from seamark.kafka.api import BROKERS
from seamark.kafka.topic import TopicStatus
from seamark.policy.permission import Permission
from seamark.report.words import render_count
from seamark.topics.topic_image import build_configs, is_led, pick_configs, read_export, read_topic

# The controller's word reaches every broker within a second or two; half a minute is a cluster in trouble.
SETTLE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class TopicAction(StandaloneStep):
    """What every step on one topic shares: it locks the topic, and comes before what uses the topic."""

    settle_seconds: ClassVar[float] = SETTLE_SECONDS

    name: str

    @property
    def subject(self) -> str:
        return f"topic/{self.name}"

    @classmethod
    def find_locks(cls, actions: Sequence[Self], reads: Reads) -> Sequence[frozenset[str]]:
        del reads
        return [frozenset({topic_lock(action.name)}) for action in actions]


class TopicGuard(Protocol):
    """Tells whether a topic may be deleted, and what more partitions do."""

    def check_delete(self, name: str) -> None:
        """Refuse to delete a topic that is internal or in use.

        Raises:
            RefusedError: it must not be deleted.
        """
        ...

    def read_grow_notes(self, topic: TopicStatus) -> tuple[str, ...]:
        """Return which users of a topic are affected if it gets more partitions."""
        ...


TOPIC_GUARD: Port[TopicGuard] = Port("topic guard")


@dataclass(frozen=True, slots=True)
class _NewTopic(TopicAction):
    """What the two steps about a new topic share: its shape. What is None is left to the brokers, and not looked at."""

    aspect: ClassVar[str] = "topic"
    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, str] = field(default_factory=dict)

    def _wanted(self) -> dict[str, Any]:
        return {
            "partitions": self.partitions,
            "replication_factor": self.replication_factor,
            "configs": build_configs(self.configs),
        }

    def _build_image(self, topic: TopicStatus | None) -> dict[str, Any] | None:
        if topic is None:
            return None
        return {
            "partitions": None if self.partitions is None else len(topic.partitions),
            "replication_factor": None if self.replication_factor is None else topic.replication_factor,
            "configs": pick_configs(topic, self.configs),
        }


@action_kind("create-topic")
@needs_permission(Permission.ADMINISTER)
@step_kind("create-topic")
@dataclass(frozen=True, slots=True)
class CreateTopic(_NewTopic):
    """A topic that is not there yet is created. Undoing it deletes it, as long as nobody has written to it."""

    def describe(self) -> str:
        count = f"{self.partitions} partition" + ("s" if self.partitions != 1 else "")
        return f"create {self.subject}" + (f" with {count}" if self.partitions is not None else "")

    def intend(self, world: World) -> Intent:
        return Intent(before=self._build_image(read_topic(world, self.name)), after=self._wanted())

    def perform(self, world: World, intent: Intent) -> None:
        if intent.before is not None:
            raise AlreadyExistsError(
                f"{self.subject} is there already", hint="change it instead of creating it, or choose another name"
            )
        world.use(BROKERS)().create_topic(
            self.name, partitions=self.partitions, replication_factor=self.replication_factor, configs=self.configs
        )

    def build_effect(self, seen: StepSeen) -> Effect:
        copies = self.replication_factor
        partitions = self.partitions
        parts = [
            "the brokers' number of partitions" if partitions is None else render_count(partitions, "partition"),
            "the brokers' replication" if copies is None else f"replication {copies}",
        ]
        configs = compare_configs({}, seen.intent.after["configs"])
        # A new topic has few configs, and whoever reviews it wants to see them.
        told = " ".join(f"{found.key}={found.after}" for found in configs)
        words = f"create: {', '.join(parts)}" + (f" with {told}" if told else "")
        return Effect(Sign.CREATE, self.subject, words, configs)

    def observe(self, world: World, intent: Intent) -> Observed:
        topic = read_topic(world, self.name)
        seen = compare_image(self._build_image(topic), intent)
        # Until somebody leads it, a step after this one could not use it.
        is_usable = topic is None or is_led(topic)
        return seen if seen is not Observed.AFTER or is_usable else Observed.BETWEEN

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        if intent.before is not None:
            return None
        return DeleteNewTopic(self.name, self.partitions, self.replication_factor, dict(self.configs))


@action_kind("delete-new-topic")
@needs_permission(Permission.DELETE)
@step_kind("delete-new-topic")
@dataclass(frozen=True, slots=True)
class DeleteNewTopic(_NewTopic):
    """A topic that was just created goes again. It is refused where it holds or has held a record.

    The brokers give a topic its id, so nobody can know it before: what is compared is its shape.
    """

    def describe(self) -> str:
        return f"delete {self.subject}, if it is still empty"

    def build_effect(self, seen: StepSeen) -> Effect:
        del seen
        return Effect(Sign.DELETE, self.subject, "delete, if it is still empty")

    def intend(self, world: World) -> Intent:
        return Intent(before=self._build_image(read_topic(world, self.name)), after=None)

    def perform(self, world: World, intent: Intent) -> None:
        del intent
        take_last_look(world, self.subject, lambda: self._require_empty(world))
        world.use(BROKERS)().delete_topic(self.name)

    def observe(self, world: World, intent: Intent) -> Observed:
        return compare_image(self._build_image(read_topic(world, self.name)), intent)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        if intent.before is None:
            return None
        return CreateTopic(self.name, self.partitions, self.replication_factor, dict(self.configs))

    def _require_empty(self, world: World) -> None:
        topic = read_topic(world, self.name)
        spots = () if topic is None else topic.spots
        bounds = world.use(BROKERS)().read_bounds(spots).require_complete(what="the bounds")
        written = sorted(number for (_, number), found in bounds.items() if found.latest)
        if written:
            raise RefusedError(
                f"{self.subject} is not empty any more; it was not deleted",
                cause=f"records were written to its partitions {', '.join(map(str, written))}",
                hint=f"if nobody needs them: seamark topics delete {self.name}",
            )


@action_kind("delete-topic")
@needs_permission(Permission.DELETE)
@step_kind("delete-topic")
@dataclass(frozen=True, slots=True)
class DeleteTopic(TopicAction):
    """A topic is deleted with all that is in it, for good. What can be kept of it is written to the journal first."""

    aspect: ClassVar[str] = "topic"

    def describe(self) -> str:
        return f"delete {self.subject} with all its records, for good"

    @classmethod
    def inspect(cls, actions: Sequence[Self], reads: Reads) -> Sequence[StepSeen]:
        for action in actions:
            reads.use(TOPIC_GUARD).check_delete(action.name)
        return super(DeleteTopic, cls).inspect(actions, reads)

    def build_effect(self, seen: StepSeen) -> Effect:
        export = seen.intent.extra or {}
        bounds: Mapping[str, Any] = export.get("bounds", {})
        records = sum(max(0, latest - earliest) for earliest, latest in bounds.values())
        what = f"{render_count(records, 'record')} in {render_count(int(export.get('partitions', 0)), 'partition')}"
        return Effect(Sign.DELETE, self.subject, f"delete: {what}, for good")

    def intend(self, world: World) -> Intent:
        topic = read_topic(world, self.name)
        if topic is None:
            return Intent(before=None, after=None)
        return Intent(before=_build_identity(topic), after=None, extra=read_export(world, topic))

    def perform(self, world: World, intent: Intent) -> None:
        topic = take_last_look(world, self.subject, lambda: read_topic(world, self.name))
        if _build_identity(topic) != intent.before:
            raise RefusedError(f"{self.subject} is another one than a moment ago; nothing was deleted")
        world.use(BROKERS)().delete_topic(self.name)

    def observe(self, world: World, intent: Intent) -> Observed:
        return compare_image(_build_identity(read_topic(world, self.name)), intent)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        if intent.before is None:
            return None
        return CanNotUndo(
            "its records are gone; the journal keeps its configs, its bounds and what groups had committed on it"
        )


def _build_identity(topic: TopicStatus | None) -> dict[str, Any] | None:
    """A topic of the same name that was made anew has another id."""
    return None if topic is None else {"topic_id": topic.topic_id}


def compare_configs(before: Mapping[str, str | None], after: Mapping[str, str | None]) -> tuple[FieldChange, ...]:
    """Return the configs that differ, by key."""
    keys = sorted(before.keys() | after.keys())
    return tuple(FieldChange(key, before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key))
