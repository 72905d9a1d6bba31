"""The public API for topics: read them, and plan changes."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from seamark.changes.action import Action
from seamark.changes.plan import PlannedChange
from seamark.changes.planner import Planner
from seamark.connect.clusters import Clusters
from seamark.core.files import FileLocation
from seamark.core.readings import Reading
from seamark.errors import AlreadyExistsError, NotFoundError, SeamarkError, UsageError
from seamark.kafka.model import LogOffsets, TopicPartition, TopicSize, TopicStatus
from seamark.topics.actions import AlterTopicConfig, CreateTopic, DeleteTopic, GrowTopic
from seamark.topics.safety import build_delete_notes, build_grow_notes, refuse_own, refuse_shrink, refuse_used
from seamark.topics.users import TopicReport, read_users

if TYPE_CHECKING:
    from seamark.changes.environment import Clock
    from seamark.context import Context
    from seamark.kafka.api import BrokersPort
    from seamark.topics.health_model import TopicHealth


_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Topics:
    """The topics of a context. Each change is a plan, which `fleet.apply` applies."""

    def __init__(
        self,
        context: Context,
        *,
        clusters: Clusters,
        kafka: Callable[[], BrokersPort],
        clock: Clock,
        planner: Callable[[], Planner],
    ) -> None:
        self._context = context
        self._clusters = clusters
        self._open_kafka = kafka
        self._clock = clock
        self._planner = planner

    def list(self, *, sizes: bool = False) -> Reading[TopicReport]:
        """Return every topic, by name. With `sizes` also the records and the bytes of each."""
        kafka = self._kafka
        reading = kafka.read_all_topics()
        if not sizes:
            return Reading(tuple(TopicReport(found) for found in reading.items), failures=reading.failures)
        bounds = kafka.read_bounds(spot for found in reading.items for spot in found.led_spots)
        if gone := self._find_gone(bounds.failures):
            reading = Reading(
                tuple(found for found in reading.items if found.name not in gone), failures=reading.failures
            )
        measured = kafka.read_sizes(_number_partitions(reading.items))
        by_topic: dict[str, dict[int, LogOffsets]] = {}
        for (name, number), found in bounds.found.items():
            by_topic.setdefault(name, {})[number] = found
        known = {found.name: found for found in measured.items}
        # A topic with unknown partitions would appear smaller than it is.
        partial = {name for name, _ in bounds.failures} | {found.name for found in reading.items if found.leaderless}
        reports = (
            TopicReport(
                topic,
                bounds=None if topic.name in partial else by_topic.get(topic.name, {}),
                size=known.get(topic.name),
            )
            for topic in reading.items
        )
        troubles = {f"{name}-{number}": error for (name, number), error in bounds.failures.items() if name not in gone}
        return Reading(tuple(reports), failures={**reading.failures, **troubles, **measured.failures})

    def _find_gone(self, failures: Mapping[TopicPartition, SeamarkError]) -> set[str]:
        """Find the topics that were deleted after they were listed."""
        unknown = {name for (name, _), error in failures.items() if isinstance(error, NotFoundError)}
        if not unknown:
            return set()
        again = self._kafka.read_topics(sorted(unknown))
        return {name for name in unknown if isinstance(again.failures.get(name), NotFoundError)}

    def get(self, name: str) -> TopicReport:
        """Return one topic with its log offsets, its bytes, and its users. What can't be determined becomes a note."""
        topic = self._read(name)
        kafka = self._kafka
        notes: list[str] = []
        bounds = kafka.read_bounds(topic.led_spots)
        notes += [f"partition {number}: {error.message}" for (_, number), error in bounds.failures.items()]
        sizes = self._try(lambda: kafka.read_sizes(_number_partitions([topic])), notes)
        notes += [f"{where}: {error.message}" for where, error in (sizes.failures.items() if sizes else ())]
        users = read_users(topic, clusters=self._clusters, kafka=kafka)
        notes += [
            f"some users of the topic are unknown: {where}: {error.message}" for where, error in users.failures.items()
        ]
        return TopicReport(
            topic,
            bounds={number: found for (_, number), found in bounds.found.items()},
            size=next(iter(sizes.items), None) if sizes else None,
            users=users.found,
            notes=(*notes, *users.notes),
        )

    def health(self) -> TopicHealth:
        """Return what is wrong or about to go wrong with topics and their consumers, worst first.

        It takes a few requests for everything; what could not be read is in `failures`.
        """
        from seamark.topics.health import read_topic_health  # noqa: PLC0415

        now = self._clock.now()
        return read_topic_health(self._context, kafka=self._kafka, clusters=self._clusters, now=now)

    def create(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
    ) -> PlannedChange:
        """Plan a new topic. Values that are not given are left to the brokers."""
        check_name(name)
        _check_positive(partitions=partitions, replication_factor=replication_factor)
        if self._find(name) is not None:
            raise AlreadyExistsError(
                f"topic {name} already exists",
                hint="use seamark topics update or seamark topics add-partitions",
            )
        step = CreateTopic(
            name, partitions, replication_factor, {key: _text(value) for key, value in (config or {}).items()}
        )
        return self._build(f"create topic {name}", step)

    def delete(self, name: str) -> PlannedChange:
        """Plan to delete a topic with all its records. Raises while a connector or a group uses it."""
        topic = self._read(name)
        refuse_own(topic, self._context)
        users = read_users(topic, clusters=self._clusters, kafka=self._kafka)
        refuse_used(topic, users)
        return self._build(f"delete topic {name}", DeleteTopic(name), notes=build_delete_notes(users))

    def add_partitions(self, name: str, *, total: int) -> PlannedChange:
        """Plan more partitions. It can't be undone; the notes name the affected consumers."""
        _check_positive(partitions=total)
        topic = self._read(name)
        refuse_own(topic, self._context)
        refuse_shrink(topic, to=total)
        if total == len(topic.partitions):
            return self._build(f"add partitions to topic {name}", GrowTopic(name, total))
        users = read_users(topic, clusters=self._clusters, kafka=self._kafka)
        return self._build(
            f"increase topic {name} to {total} partitions", GrowTopic(name, total), notes=build_grow_notes(topic, users)
        )

    def update(
        self,
        name: str,
        *,
        set: Mapping[str, object] | None = None,  # noqa: A002 - the name in Kafka's own tools
        unset: Collection[str] = (),
    ) -> PlannedChange:
        """Plan other configs: those in `set` get a value, those in `unset` the brokers' default again."""
        values = {key: _text(value) for key, value in (set or {}).items()}
        if not values and not unset:
            raise UsageError(f"no config to change of topic {name}", hint="pass --config KEY=VALUE or --unset KEY")
        if both := sorted(values.keys() & {*unset}):
            raise UsageError(f"{', '.join(both)} can't be set and unset at once")
        refuse_own(self._read(name), self._context, only_internal=True)
        return self._build(f"update topic {name}", AlterTopicConfig(name, values, tuple(sorted({*unset}))))

    @property
    def _kafka(self) -> BrokersPort:
        return self._open_kafka()

    def _build(self, title: str, step: Action, *, notes: tuple[str, ...] = ()) -> PlannedChange:
        return self._planner().plan(title, [step], notes=notes)

    def _read(self, name: str) -> TopicStatus:
        topic = self._find(name)
        if topic is None:
            raise NotFoundError(
                f"topic {name} does not exist", hint="list topics with seamark topics list", context={"topic": name}
            )
        return topic

    def _find(self, name: str) -> TopicStatus | None:
        reading = self._kafka.read_topics([name])
        for error in reading.failures.values():
            if isinstance(error, NotFoundError):
                return None
            raise error
        return reading.items[0]

    def _try(self, read: Callable[[], Reading[TopicSize]], notes: builtins.list[str]) -> Reading[TopicSize] | None:
        try:
            return read()
        except SeamarkError as error:
            notes.append(f"size unknown: {error.message}")
            return None


def check_name(name: str) -> None:
    """Raise for a name that no broker accepts."""
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise UsageError(
            f"invalid topic name {name!r}", hint="use letters, digits, '.', '_' and '-', at most 249 characters"
        )


def _check_positive(**numbers: int | None) -> None:
    for what, number in numbers.items():
        if number is not None and number < 1:
            raise UsageError(f"invalid {what} {number}: expected 1 or more")


def _text(value: object) -> str:
    # As Kafka writes it: Python's True would be rejected.
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number_partitions(topics: Collection[TopicStatus]) -> dict[str, list[int]]:
    return {topic.name: [partition.id for partition in topic.partitions] for topic in topics}


@dataclass(frozen=True, slots=True)
class DesiredTopic:
    """A declared topic. A value of None is left to the broker, or stays unchanged."""

    name: str
    place: FileLocation
    partitions: int | None = None
    replication_factor: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)
