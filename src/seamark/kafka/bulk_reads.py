"""Everything that the brokers hold, a few calls for all of it: topics, the bounds of their logs, groups, commits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from seamark.core.reading import Reading
from seamark.errors import NotFoundError, SeamarkError
from seamark.kafka.failures import build_error
from seamark.kafka.groups import Group, GroupListing, GroupOffsets
from seamark.kafka.log_offsets import LogOffsetsAdmin
from seamark.kafka.spot import Spot
from seamark.kafka.topic import TopicStatus
from seamark.kafka.values import build_committed, build_listing, build_members, build_topic

T = TypeVar("T")

# The brokers answer some thousand group requests a second. So many of them end well within one deadline, and the next
# ones get a deadline of their own.
_GROUPS_AT_ONCE = 500
# The configs of 2,000 topics took 2 s here, and 15 s on a machine that did much else. A quarter of that keeps within
# one deadline.
_TOPICS_AT_ONCE = 500

_AskedTopics = tuple[Mapping[str, Future[Any]], Mapping[str, Future[Any]] | None]


class SurveyAdmin(LogOffsetsAdmin):
    """The brokers, with reads over all that they hold. No call is made for each partition."""

    def read_all_topics(self, *, with_configs: bool = True) -> Reading[TopicStatus]:
        """Every topic, by name. Without configs there is no `min_isr`, and one call less."""
        topics: list[TopicStatus] = []
        failures: dict[str, SeamarkError] = {}
        portions = list(_chunk(self._read_topic_names(), _TOPICS_AT_ONCE))
        following = self._ask_topics(portions[0], with_configs) if portions else None
        for number in range(1, len(portions) + 1):
            futures, configs = following or ({}, None)
            # The brokers answer the next one while this one is unpacked.
            following = self._ask_topics(portions[number], with_configs) if number < len(portions) else None
            found, failed = self._settle(futures, action="read the topic", operation="DESCRIBE")
            if configs is not None:
                some, gone = self._add_configs(found, configs)
            else:
                some, gone = tuple(build_topic(one, configs={}, configs_error="") for one in found.values()), {}
            topics += some
            failures |= _without_missing(failed | gone)
        return Reading(tuple(topics), failures=failures)

    def _ask_topics(self, names: list[str], with_configs: bool) -> _AskedTopics:
        """Ask what topics are and, at the same time, for their configs."""
        from confluent_kafka import TopicCollection  # noqa: PLC0415

        # What we may do to each topic is asked for by `read_topics` alone: here it would cost a fifth of the time.
        futures = self._client.describe_topics(TopicCollection(names), request_timeout=self._timeout_seconds)
        return futures, self._ask_configs(names) if with_configs else None

    def read_broker_setting(self, key: str) -> str:
        """A config of the brokers; the smallest one where they differ and it is a number. "" where none tells it."""
        from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]  # noqa: PLC0415

        named: dict[str, Future[Any]] = {}
        for broker in self.read_cluster().brokers:
            # The client takes one broker a call; the answers are waited for together.
            resource = ConfigResource(ResourceType.BROKER, str(broker.id))
            futures = self._client.describe_configs([resource], request_timeout=self._timeout_seconds)
            named[str(broker.id)] = next(iter(futures.values()))
        results, failures = self._settle(named, action="read the configs of broker", operation="DESCRIBE_CONFIGS")
        values = [entries[key].value for entries in results.values() if key in entries and entries[key].value]
        if not results:
            raise next(iter(failures.values()))
        return min(values, key=lambda value: (len(value), value)) if values else ""

    def read_consumer_groups(self) -> Reading[GroupListing]:
        """Every classic and consumer group, by name. A broker that did not answer is a failure."""
        return self._settle_listing(self._ask_listing())

    def _ask_listing(self) -> Future[Any]:
        asked: Future[Any] = self._client.list_consumer_groups(request_timeout=self._timeout_seconds)
        return asked

    def _settle_listing(self, future: Future[Any]) -> Reading[GroupListing]:
        results, failures = self._settle({self._address: future}, action="list the groups", operation="DESCRIBE")
        for error in failures.values():
            raise error
        answer = results[self._address]
        listings = sorted((build_listing(listing) for listing in answer.valid or ()), key=lambda found: found.name)
        problems = [self._translate(failure, action="list the groups") for failure in answer.errors or ()]
        return Reading(tuple(listings), failures={f"broker {n}": error for n, error in enumerate(problems, start=1)})

    def read_members(self, groups: Sequence[str]) -> Reading[Group]:
        """Groups with their members, in the order asked. One that nobody ever joined is DEAD."""
        found: dict[str, Any] = {}
        failures: dict[str, SeamarkError] = {}
        options = {"include_authorized_operations": True, "request_timeout": self._timeout_seconds}
        ask = partial(self._client.describe_consumer_groups, **options)
        for names in _chunk(dict.fromkeys(groups), _GROUPS_AT_ONCE):
            results, failed = self._ask(names, ask, action="read the group")
            found |= results
            failures |= failed
        items = tuple(build_members(found[name]) for name in dict.fromkeys(groups) if name in found)
        return Reading(items, failures=failures)

    def read_committed(
        self, groups: Mapping[str, Collection[Spot] | None], *, only_stable: bool = False
    ) -> Reading[GroupOffsets]:
        """What groups have committed, for the given partitions of each, or for all of them where that is None.

        With `only_stable` a commit that waits for the end of its transaction is a failure of that group.
        """
        items: list[GroupOffsets] = []
        failures: dict[str, SeamarkError] = {}

        def ask(names: Sequence[str]) -> dict[str, Future[Any]]:
            asked = ((name, self._ask_committed(name, groups[name], only_stable)) for name in names)
            return {name: future for name, future in asked if future is not None}

        for names in _chunk(groups, _GROUPS_AT_ONCE):
            results, failed = self._ask(names, ask, action="read the offsets of the group")
            failures |= failed
            for name in names:
                if name in failed:
                    continue
                partitions = results[name].topic_partitions if name in results else ()
                if trouble := next((found for found in partitions if found.error is not None), None):
                    spot = f"{trouble.topic}-{trouble.partition}"
                    failures[name] = self._translate_error(trouble.error, f"read the offset of group {name} of {spot}")
                    continue
                items.append(GroupOffsets(name, build_committed(partitions)))
        return Reading(tuple(items), failures=failures)

    def _ask_committed(self, group: str, spots: Collection[Spot] | None, only_stable: bool) -> Any:
        """The future of one group's commits; None where nothing is asked for."""
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition  # noqa: PLC0415

        if spots is not None and not spots:
            return None
        partitions = None if spots is None else [TopicPartition(topic, partition) for topic, partition in spots]
        # The client takes one group a call; the answers are waited for together.
        futures = self._client.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, partitions)],
            require_stable=only_stable,
            request_timeout=self._timeout_seconds,
        )
        return futures[group]

    def _read_topic_names(self) -> list[str]:
        from confluent_kafka import KafkaException  # noqa: PLC0415

        # The list of all can't be waited for with an eye on the connections. This one can, and ends at once where
        # there is no hope.
        self.read_cluster()
        try:
            return sorted(self._client.list_topics(timeout=self._timeout_seconds).topics)
        except KafkaException as failure:
            raise self._translate(failure, action=f"list the topics of {self._address}") from None

    def _translate(self, failure: Any, *, action: str) -> SeamarkError:
        # confluent_kafka documents exceptions for a list of groups, and gives bare errors (seen with 2.16).
        error = failure.args[0] if isinstance(failure, BaseException) else failure
        return self._translate_error(error, action)

    def _translate_error(self, error: Any, action: str) -> SeamarkError:
        return build_error(
            error, action=action, subject=self._address, operation="DESCRIBE", last_event=self._events.last
        )


def _without_missing(failures: Mapping[str, SeamarkError]) -> dict[str, SeamarkError]:
    """A topic that went between two questions is not there, which is no failure."""
    return {name: error for name, error in failures.items() if not isinstance(error, NotFoundError)}


def _chunk(names: Iterable[T], size: int) -> Iterator[list[T]]:
    left = iter(names)
    while chunk := list(islice(left, size)):
        yield chunk
