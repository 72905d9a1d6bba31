"""A topic comes and goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from seamark.change.step import CanNotUndo, Intent, Observed, Step
from seamark.change.steps.config import compare_image
from seamark.change.steps.last_look import take_last_look
from seamark.change.steps.topic_image import build_configs, is_led, pick_configs, read_export, read_topic
from seamark.change.world import World
from seamark.errors import AlreadyExistsError, RefusedError
from seamark.model.plan import StepData
from seamark.model.topic import TopicStatus

# The controller's word reaches every broker within a second or two; half a minute is a cluster in trouble.
SETTLE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class _NewTopic:
    """What the two steps about a new topic share: its shape. What is None is left to the brokers, and not looked at."""

    aspect: ClassVar[str] = "topic"
    drifts: ClassVar[bool] = False
    acts: ClassVar[bool] = True
    settle_seconds: ClassVar[float] = SETTLE_SECONDS
    kind: ClassVar[str] = ""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        return f"topic/{self.name}"

    def to_data(self, *, lane: str = "", always: bool = False) -> StepData:
        arguments = {
            "name": self.name,
            "partitions": self.partitions,
            "replication_factor": self.replication_factor,
            "configs": dict(self.configs),
        }
        return StepData(self.kind, self.subject, arguments, lane=lane, always=always)

    @classmethod
    def from_data(cls, data: StepData) -> Self:
        return cls(**data.arguments)

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


@dataclass(frozen=True, slots=True)
class CreateTopic(_NewTopic):
    """A topic that is not there yet is created. Undoing it deletes it, as long as nobody has written to it."""

    kind: ClassVar[str] = "create-topic"

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
        world.kafka().create_topic(
            self.name, partitions=self.partitions, replication_factor=self.replication_factor, configs=self.configs
        )

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


@dataclass(frozen=True, slots=True)
class DeleteNewTopic(_NewTopic):
    """A topic that was just created goes again. It is refused where it holds or has held a record.

    The brokers give a topic its id, so nobody can know it before: what is compared is its shape.
    """

    kind: ClassVar[str] = "delete-new-topic"

    def describe(self) -> str:
        return f"delete {self.subject}, if it is still empty"

    def intend(self, world: World) -> Intent:
        return Intent(before=self._build_image(read_topic(world, self.name)), after=None)

    def perform(self, world: World, intent: Intent) -> None:
        del intent
        take_last_look(world, self.subject, lambda: self._require_empty(world))
        world.kafka().delete_topic(self.name)

    def observe(self, world: World, intent: Intent) -> Observed:
        return compare_image(self._build_image(read_topic(world, self.name)), intent)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        if intent.before is None:
            return None
        return CreateTopic(self.name, self.partitions, self.replication_factor, dict(self.configs))

    def _require_empty(self, world: World) -> None:
        topic = read_topic(world, self.name)
        spots = () if topic is None else topic.spots
        bounds = world.kafka().read_bounds(spots).require_complete(what="the bounds")
        written = sorted(number for (_, number), found in bounds.items() if found.latest)
        if written:
            raise RefusedError(
                f"{self.subject} is not empty any more; it was not deleted",
                cause=f"records were written to its partitions {', '.join(map(str, written))}",
                hint=f"if nobody needs them: seamark topics delete {self.name}",
            )


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """A topic is deleted with all that is in it, for good. What can be kept of it is written to the journal first."""

    kind: ClassVar[str] = "delete-topic"
    aspect: ClassVar[str] = "topic"
    drifts: ClassVar[bool] = False
    acts: ClassVar[bool] = True
    settle_seconds: ClassVar[float] = SETTLE_SECONDS

    name: str

    @property
    def subject(self) -> str:
        return f"topic/{self.name}"

    def describe(self) -> str:
        return f"delete {self.subject} with all its records, for good"

    def intend(self, world: World) -> Intent:
        topic = read_topic(world, self.name)
        if topic is None:
            return Intent(before=None, after=None)
        return Intent(before=_build_identity(topic), after=None, extra=read_export(world, topic))

    def perform(self, world: World, intent: Intent) -> None:
        topic = take_last_look(world, self.subject, lambda: read_topic(world, self.name))
        if _build_identity(topic) != intent.before:
            raise RefusedError(f"{self.subject} is another one than a moment ago; nothing was deleted")
        world.kafka().delete_topic(self.name)

    def observe(self, world: World, intent: Intent) -> Observed:
        return compare_image(_build_identity(read_topic(world, self.name)), intent)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        if intent.before is None:
            return None
        return CanNotUndo(
            "its records are gone; the journal keeps its configs, its bounds and what groups had committed on it"
        )

    def to_data(self, *, lane: str = "", always: bool = False) -> StepData:
        return StepData(self.kind, self.subject, {"name": self.name}, lane=lane, always=always)

    @classmethod
    def from_data(cls, data: StepData) -> Self:
        return cls(**data.arguments)


def _build_identity(topic: TopicStatus | None) -> dict[str, Any] | None:
    """A topic of the same name that was made anew has another id."""
    return None if topic is None else {"topic_id": topic.topic_id}
