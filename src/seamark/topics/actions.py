"""Actions that create, change and delete topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self

from seamark.changes.action import Reads, StandaloneStep, StepSeen, action_kind, needs_permission, read_within_deadline
from seamark.changes.effect import ChangeKind, Effect, FieldChange
from seamark.changes.environment import Environment
from seamark.changes.locks import topic_lock
from seamark.changes.step import CanNotUndo, Intent, Observed, Step, compare_image, step_kind
from seamark.core.refs import Port
from seamark.errors import AlreadyExistsError, NotFoundError, RefusedError
from seamark.kafka.api import BROKERS
from seamark.kafka.groups import build_commit_image
from seamark.kafka.model import TopicStatus, normalize_value
from seamark.policy.permissions import Permission
from seamark.report.words import render_count


def read_topic(world: Environment, name: str) -> TopicStatus | None:
    """Read the topic with its configs; None if it does not exist."""
    reading = world.use(BROKERS)().read_topics([name])
    for error in reading.failures.values():
        if isinstance(error, NotFoundError):
            return None
        raise error
    (topic,) = reading.items
    if topic.configs_error:
        raise RefusedError(
            f"can't read the configs of topic/{name}; no changes were made",
            cause=topic.configs_error,
            hint=f"grant DESCRIBE_CONFIGS on the topic {name} to the principal of this context",
        )
    return topic


def require_topic(world: Environment, name: str) -> TopicStatus:
    """Return the topic. Raises if it does not exist."""
    topic = read_topic(world, name)
    if topic is None:
        raise NotFoundError(f"topic/{name} does not exist", hint="list topics with seamark topics list")
    return topic


def pick_configs(topic: TopicStatus, keys: Iterable[str]) -> dict[str, str | None]:
    """Return the values that the topic itself sets for some keys; None for the brokers' default."""
    own = topic.own_configs
    return {key: normalize_value(own[key]) if key in own else None for key in sorted(keys)}


def build_configs(values: Mapping[str, str]) -> dict[str, str]:
    """Return configs in the format of an image."""
    return {key: normalize_value(values[key]) for key in sorted(values)}


def read_export(world: Environment, topic: TopicStatus) -> dict[str, Any]:
    """Read what is kept of a topic before its deletion: shape, log offsets, and the committed offsets of groups."""
    kafka = world.use(BROKERS)()
    bounds = kafka.read_bounds(topic.led_spots).found
    groups = [listing.name for listing in kafka.read_consumer_groups() if listing.has_offsets]
    committed = kafka.read_committed(dict.fromkeys(groups, topic.spots))
    return {
        "topic_id": topic.topic_id,
        "partitions": len(topic.partitions),
        "replication_factor": topic.replication_factor,
        "configs": topic.own_configs,
        "bounds": {str(number): [found.earliest, found.latest] for (_, number), found in sorted(bounds.items())},
        "groups": {
            found.group: {
                str(number): build_commit_image(commit) for (_, number), commit in sorted(found.offsets.items())
            }
            for found in committed.items
            if found.offsets
        },
        "groups_not_read": {name: error.message for name, error in committed.failures.items()},
    }


def is_led(topic: TopicStatus) -> bool:
    """Return whether every partition has a leader, so that the topic can be used."""
    return not topic.leaderless


# The controller's change reaches every broker within a second or two; 30 s indicates a Kafka cluster in trouble.
SETTLE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class TopicAction(StandaloneStep):
    """The common part of every step for one topic: it locks the topic, and precedes the steps that use the topic."""

    settle_seconds: ClassVar[float] = SETTLE_SECONDS

    name: str

    @property
    def subject(self) -> str:
        return f"topic/{self.name}"

    @classmethod
    def find_locks(cls, actions: Sequence[Self], reads: Reads) -> Sequence[frozenset[str]]:
        return [frozenset({topic_lock(action.name)}) for action in actions]


class TopicGuard(Protocol):
    """Determines whether a topic may be deleted, and the effects of more partitions."""

    def check_delete(self, name: str) -> None:
        """Raise for a topic that is internal or in use.

        Raises:
            RefusedError: The topic must not be deleted.
        """
        ...

    def read_grow_notes(self, topic: TopicStatus) -> tuple[str, ...]:
        """Return which users of a topic are affected if it gets more partitions."""
        ...


TOPIC_GUARD: Port[TopicGuard] = Port("topic guard")


@dataclass(frozen=True, slots=True)
class _NewTopic(TopicAction):
    """The common part of the two steps about a new topic: its shape. None is left to the brokers, and not compared."""

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
    """Create a topic that does not exist yet. An undo deletes it, as long as it never had a record."""

    def describe(self) -> str:
        count = f"{self.partitions} partition" + ("s" if self.partitions != 1 else "")
        return f"create {self.subject}" + (f" with {count}" if self.partitions is not None else "")

    def intend(self, world: Environment) -> Intent:
        return Intent(before=self._build_image(read_topic(world, self.name)), after=self._wanted())

    def perform(self, world: Environment, intent: Intent) -> None:
        if intent.before is not None:
            raise AlreadyExistsError(
                f"{self.subject} already exists", hint="use seamark topics update, or choose another name"
            )
        world.use(BROKERS)().create_topic(
            self.name, partitions=self.partitions, replication_factor=self.replication_factor, configs=self.configs
        )

    def build_effect(self, seen: StepSeen) -> Effect:
        copies = self.replication_factor
        partitions = self.partitions
        parts = [
            "default partitions of the brokers" if partitions is None else render_count(partitions, "partition"),
            "default replication factor of the brokers" if copies is None else f"replication factor {copies}",
        ]
        configs = compare_configs({}, seen.intent.after["configs"])
        # A new topic has few configs, so they are shown for review.
        shown = " ".join(f"{found.key}={found.after}" for found in configs)
        words = f"create: {', '.join(parts)}" + (f" with {shown}" if shown else "")
        return Effect(ChangeKind.CREATE, self.subject, words, configs)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        topic = read_topic(world, self.name)
        seen = compare_image(self._build_image(topic), intent)
        # Until it has leaders, a later step could not use it.
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
    """Delete a topic that was just created. It fails if the topic has or had a record.

    The brokers generate the topic ID, so it can't be known beforehand: the shape is compared instead.
    """

    def describe(self) -> str:
        return f"delete {self.subject}, if it is still empty"

    def build_effect(self, seen: StepSeen) -> Effect:
        return Effect(ChangeKind.DELETE, self.subject, "delete, if it is still empty")

    def intend(self, world: Environment) -> Intent:
        return Intent(before=self._build_image(read_topic(world, self.name)), after=None)

    def perform(self, world: Environment, intent: Intent) -> None:
        read_within_deadline(world, self.subject, lambda: self._require_empty(world))
        world.use(BROKERS)().delete_topic(self.name)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        return compare_image(self._build_image(read_topic(world, self.name)), intent)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        if intent.before is None:
            return None
        return CreateTopic(self.name, self.partitions, self.replication_factor, dict(self.configs))

    def _require_empty(self, world: Environment) -> None:
        topic = read_topic(world, self.name)
        spots = () if topic is None else topic.spots
        bounds = world.use(BROKERS)().read_bounds(spots).require_complete(what="the bounds")
        written = sorted(number for (_, number), found in bounds.items() if found.latest)
        if written:
            raise RefusedError(
                f"{self.subject} is not empty; it was not deleted",
                cause=f"records were written to its partitions {', '.join(map(str, written))}",
                hint=f"if the records are not needed: seamark topics delete {self.name}",
            )


@action_kind("delete-topic")
@needs_permission(Permission.DELETE)
@step_kind("delete-topic")
@dataclass(frozen=True, slots=True)
class DeleteTopic(TopicAction):
    """Delete a topic with all its records, permanently. What can be kept of it is written to the journal first."""

    aspect: ClassVar[str] = "topic"

    def describe(self) -> str:
        return f"delete {self.subject} with all its records, permanently"

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
        return Effect(ChangeKind.DELETE, self.subject, f"delete: {what}, permanently")

    def intend(self, world: Environment) -> Intent:
        topic = read_topic(world, self.name)
        if topic is None:
            return Intent(before=None, after=None)
        return Intent(before=_build_identity(topic), after=None, extra=read_export(world, topic))

    def perform(self, world: Environment, intent: Intent) -> None:
        topic = read_within_deadline(world, self.subject, lambda: read_topic(world, self.name))
        if _build_identity(topic) != intent.before:
            raise RefusedError(f"{self.subject} was recreated meanwhile; it was not deleted")
        world.use(BROKERS)().delete_topic(self.name)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        return compare_image(_build_identity(read_topic(world, self.name)), intent)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        if intent.before is None:
            return None
        return CanNotUndo(
            "its records are deleted; the journal keeps its configs, its log offsets and the committed offsets of "
            "groups"
        )


def _build_identity(topic: TopicStatus | None) -> dict[str, Any] | None:
    """Return the identity of a topic: a recreated topic of the same name has another ID."""
    return None if topic is None else {"topic_id": topic.topic_id}


def compare_configs(before: Mapping[str, str | None], after: Mapping[str, str | None]) -> tuple[FieldChange, ...]:
    """Return the configs that differ, by key."""
    keys = sorted(before.keys() | after.keys())
    return tuple(FieldChange(key, before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key))


@action_kind("grow-topic")
@needs_permission(Permission.ADMINISTER)
@step_kind("grow-topic")
@dataclass(frozen=True, slots=True)
class GrowTopic(TopicAction):
    """Add partitions to a topic, permanently: Kafka can't remove any."""

    aspect: ClassVar[str] = "partitions"
    partitions: int

    def describe(self) -> str:
        return f"increase {self.subject} to {self.partitions} partitions, permanently"

    def build_effect(self, seen: StepSeen) -> Effect:
        have = int(seen.intent.before["partitions"])
        more = render_count(self.partitions - have, "partition")
        fields = (FieldChange("partitions", str(have), str(self.partitions)),)
        return Effect(ChangeKind.CHANGE, self.subject, f"add {more}, permanently", fields)

    def intend(self, world: Environment) -> Intent:
        topic = require_topic(world, self.name)
        after = {"topic_id": topic.topic_id, "partitions": self.partitions}
        return Intent(before=_build_count(topic), after=after)

    def perform(self, world: Environment, intent: Intent) -> None:
        if intent.before["partitions"] > self.partitions:
            raise RefusedError(
                f"can't reduce {self.subject} from {intent.before['partitions']} to {self.partitions} partitions",
                cause="Kafka can't remove partitions of a topic",
                hint=f"copy the topic: seamark copies plan {self.name} --partitions "
                f"{intent.before['partitions']}:{self.partitions}",
            )
        world.use(BROKERS)().grow_topic(self.name, partitions=self.partitions)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        topic = read_topic(world, self.name)
        if topic is None:
            return Observed.FOREIGN
        seen = compare_image(_build_count(topic), intent)
        return seen if seen is not Observed.AFTER or is_led(topic) else Observed.BETWEEN

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        if intent.before == intent.after:
            return None
        return CanNotUndo("Kafka can't remove partitions of a topic")


@action_kind("alter-topic-config")
@needs_permission(Permission.ADMINISTER)
@step_kind("alter-topic-config")
@dataclass(frozen=True, slots=True)
class AlterTopicConfig(TopicAction):
    """Set configs of a topic; those in `remove` are deleted from it, so that the brokers' default applies again.

    A plan has one such step per topic: images can only be compared if they have the same keys.
    """

    aspect: ClassVar[str] = "configs"
    values: Mapping[str, str] = field(default_factory=dict)
    remove: tuple[str, ...] = ()

    def describe(self) -> str:
        return f"change the config of {self.subject}: {', '.join(self._keys())}"

    def build_effect(self, seen: StepSeen) -> Effect:
        fields = compare_configs(seen.intent.before["configs"], seen.intent.after["configs"])
        return Effect(ChangeKind.CHANGE, self.subject, f"change {render_count(len(fields), 'config')}", fields)

    def intend(self, world: Environment) -> Intent:
        topic = require_topic(world, self.name)
        self._refuse_hidden(topic)
        wanted: dict[str, str | None] = {**build_configs(self.values), **dict.fromkeys(self.remove)}
        after = {"topic_id": topic.topic_id, "configs": {key: wanted[key] for key in self._keys()}}
        return Intent(before=self._build_image(topic), after=after)

    def perform(self, world: Environment, intent: Intent) -> None:
        world.use(BROKERS)().alter_topic_config(self.name, values=self.values, remove=self.remove)

    def observe(self, world: Environment, intent: Intent) -> Observed:
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
                f"can't change the sensitive config {', '.join(hidden)} of {self.subject}; no changes were made",
                cause="the brokers don't return its value, so a change can be neither verified nor undone",
                hint="use kafka-configs.sh",
            )


def _build_count(topic: TopicStatus) -> dict[str, Any]:
    return {"topic_id": topic.topic_id, "partitions": len(topic.partitions)}
