"""Everything that the brokers hold, a few calls for all of it: topics, the bounds of their logs, groups, commits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from seamark.core.readings import Reading
from seamark.errors import NotFoundError, SeamarkError, UnreachableError
from seamark.kafka.admin import KafkaAdmin
from seamark.kafka.failures import build_error
from seamark.kafka.groups import Group, GroupListing, GroupOffsets
from seamark.kafka.kafka_python import KafkaPythonClient, load
from seamark.kafka.model import (
    LogOffsets,
    OffsetAndTimestamp,
    OffsetSpec,
    OpenTransaction,
    PartitionReading,
    TopicPartition,
    TopicStatus,
)
from seamark.kafka.values import build_committed, build_listing, build_members, build_topic


class LogOffsetsAdmin(KafkaAdmin):
    """The brokers, with the offsets of their logs: a request to each leader, none for each partition."""

    def read_bounds(self, spots: Iterable[TopicPartition]) -> PartitionReading[LogOffsets]:
        """The first and the next offset of many partitions: see `read_log_offsets`, and `TopicStatus.led_spots`."""
        wanted = list(dict.fromkeys(spots))
        earliest = self.read_log_offsets(wanted, at=OffsetSpec.EARLIEST)
        latest = self.read_log_offsets(earliest.found, at=OffsetSpec.LATEST)
        found = {
            spot: LogOffsets(earliest=stamp.offset, latest=end.offset)
            for spot, end in latest.found.items()
            if end is not None and (stamp := earliest.found[spot]) is not None
        }
        failures = {**earliest.failures, **latest.failures}
        # Seen while a leader moves: an answer without an offset. Every log has a beginning and an end.
        failures |= {spot: _build_nowhere(spot) for spot in wanted if spot not in found and spot not in failures}
        return PartitionReading(found, failures=failures)

    def read_log_offsets(
        self, spots: Iterable[TopicPartition], *, at: OffsetSpec | int
    ) -> PartitionReading[OffsetAndTimestamp | None]:
        """One offset of many partitions: at an edge, or the first record of a time (ms since the epoch) or later.

        None where there is no such record. A partition that doesn't exist, or has no leader, may fail all the others
        too, the latter after the whole deadline. Then the healthy partitions are requested once more.
        """
        return self._read_offsets(list(dict.fromkeys(spots)), at)

    def read_offsets_at(self, times: Mapping[TopicPartition, int]) -> PartitionReading[OffsetAndTimestamp | None]:
        """The first record of a time (ms since the epoch) or later, each partition with a time of its own."""
        return self._read_offsets(list(times), times)

    def _read_offsets(
        self, wanted: Sequence[TopicPartition], at: OffsetSpec | int | Mapping[TopicPartition, int]
    ) -> PartitionReading[OffsetAndTimestamp | None]:
        reading = self._ask_offsets(wanted, at)
        if reading.is_complete or reading.found:
            return reading
        well, failed = self._find_led(wanted)
        # Without brokers librdkafka says "No leaders found", as for an unknown topic (_NOENT, seen with 2.16).
        left = {spot: failed.get(spot[0], error) for spot, error in reading.failures.items() if spot not in well}
        if not well:
            return PartitionReading({}, failures=left)
        second = self._ask_offsets(well, at)
        return PartitionReading(second.found, failures={**left, **second.failures})

    def _find_led(self, spots: Sequence[TopicPartition]) -> tuple[list[TopicPartition], Mapping[str, SeamarkError]]:
        """Those of the partitions that exist and have a leader, and the topics that could not be read."""
        from confluent_kafka import TopicCollection  # noqa: PLC0415

        names = list({topic for topic, _ in spots})
        futures = self._client.describe_topics(TopicCollection(names), request_timeout=self._timeout_seconds)
        found, failed = self._settle(futures, action="read the topic", operation="DESCRIBE")
        led = {(name, one.id) for name, topic in found.items() for one in topic.partitions if one.leader is not None}
        return [spot for spot in spots if spot in led], failed

    def _ask_offsets(
        self, spots: Sequence[TopicPartition], at: OffsetSpec | int | Mapping[TopicPartition, int]
    ) -> PartitionReading[OffsetAndTimestamp | None]:
        from confluent_kafka import IsolationLevel  # noqa: PLC0415
        from confluent_kafka import TopicPartition as ConfluentTopicPartition  # noqa: PLC0415

        if not spots:
            return PartitionReading()
        shared = None if isinstance(at, Mapping) else _build_offset_spec(at)
        options = {"isolation_level": IsolationLevel.READ_COMMITTED} if at == OffsetSpec.STABLE else {}

        def ask(wanted: Sequence[TopicPartition]) -> dict[TopicPartition, Future[Any]]:
            request = {
                ConfluentTopicPartition(*spot): _build_offset_spec(at[spot]) if isinstance(at, Mapping) else shared
                for spot in wanted
            }
            futures = self._client.list_offsets(request, request_timeout=self._timeout_seconds, **options)
            return {(spot.topic, spot.partition): future for spot, future in futures.items()}

        results, failures = self._ask(spots, ask, action="read the offsets of")
        found = {spot: _build_stamp(answer) for spot, answer in results.items()}
        return PartitionReading(found, failures=failures)


def _build_nowhere(spot: TopicPartition) -> SeamarkError:
    return UnreachableError(
        f"could not read the first and last offset of {spot[0]}-{spot[1]}",
        cause="the brokers answered without an offset",
        hint="try again in a moment",
    )


def _build_offset_spec(at: OffsetSpec | int) -> Any:
    from confluent_kafka.admin import OffsetSpec as ConfluentOffsetSpec  # type: ignore[attr-defined]  # noqa: PLC0415

    if isinstance(at, OffsetSpec):
        edges = {
            OffsetSpec.EARLIEST: "earliest",
            OffsetSpec.LATEST: "latest",
            OffsetSpec.STABLE: "latest",
            OffsetSpec.NEWEST: "max_timestamp",
        }
        return getattr(ConfluentOffsetSpec, edges[at])()
    return ConfluentOffsetSpec.for_timestamp(at)


def _build_stamp(answer: Any) -> OffsetAndTimestamp | None:
    if answer.offset < 0:
        return None
    return OffsetAndTimestamp(
        offset=answer.offset,
        timestamp_ms=answer.timestamp if answer.timestamp >= 0 else None,
        leader_epoch=getattr(answer, "leader_epoch", None),
    )


T = TypeVar("T")

# The brokers answer some thousand group requests a second. So many of them end well within one deadline, and the next
# ones get a deadline of their own.
_GROUPS_AT_ONCE = 500
# The configs of 2,000 topics took 2 s here, and 15 s on a machine that did much else. A quarter of that keeps within
# one deadline.
_TOPICS_AT_ONCE = 500

_AskedTopics = tuple[Mapping[str, Future[Any]], Mapping[str, Future[Any]] | None]


class BulkReadAdmin(LogOffsetsAdmin):
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
        """Read groups with their members, in the order asked. A group that never had a member is DEAD."""
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
        self, groups: Mapping[str, Collection[TopicPartition] | None], *, only_stable: bool = False
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

    def _ask_committed(self, group: str, spots: Collection[TopicPartition] | None, only_stable: bool) -> Any:
        """The future of one group's commits; None where nothing is asked for."""
        from confluent_kafka import ConsumerGroupTopicPartitions  # noqa: PLC0415
        from confluent_kafka import TopicPartition as ConfluentTopicPartition  # noqa: PLC0415

        if spots is not None and not spots:
            return None
        partitions = (
            None if spots is None else [ConfluentTopicPartition(topic, partition) for topic, partition in spots]
        )
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
    """Drop the topics that were deleted between two requests, because that is not a failure."""
    return {name: error for name, error in failures.items() if not isinstance(error, NotFoundError)}


def _chunk(names: Iterable[T], size: int) -> Iterator[list[T]]:
    left = iter(names)
    while chunk := list(islice(left, size)):
        yield chunk


class TransactionsClient(KafkaPythonClient):
    """The calls of kafka-python for transactions; librdkafka has none of them."""

    def read_open(self, spots: Sequence[TopicPartition]) -> tuple[OpenTransaction, ...]:
        """The open transactions of these partitions, the oldest of each first. Brokers 2.8 and later tell them."""
        if not spots:
            return ()
        return self._read(lambda client: _read_open(client, spots), "list the open transactions")


def _read_open(client: Any, spots: Sequence[TopicPartition]) -> tuple[OpenTransaction, ...]:
    build = load("kafka.structs").TopicPartition
    answers = client.describe_producers([build(*spot) for spot in spots])
    found = [
        (spot, producer)
        for spot, answer in answers.items()
        for producer in answer.active_producers
        if producer.current_transaction_start_offset >= 0
    ]
    known = _read_known(client, sorted({producer.producer_id for _, producer in found}))
    built = [_build(spot, producer, known) for spot, producer in found]
    return tuple(sorted(built, key=lambda one: (one.topic, one.partition, one.start_offset)))


def _read_known(client: Any, producers: Sequence[int]) -> Mapping[int, tuple[str, Any]]:
    """Read what the coordinators know of these producers: their transactional IDs and current transactions."""
    if not producers:
        return {}
    listed = client.list_transactions(producer_id_filters=list(producers))
    names = [one.transactional_id for listings in listed.values() for one in listings]
    return {described.producer_id: (name, described) for name, described in _describe(client, names)}


def _describe(client: Any, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    gone = load("kafka.errors").TransactionalIdNotFoundError
    for name in names:
        try:
            yield from client.describe_transactions([name]).items()
        except gone:
            # It ended and was forgotten between the two calls.
            continue


def _build(spot: Any, producer: Any, known: Mapping[int, tuple[str, Any]]) -> OpenTransaction:
    name, described = known.get(producer.producer_id, ("", None))
    # A coordinator may know the producer, and a later transaction of it, which is not the one that is open here.
    is_its = described is not None and spot in described.topic_partitions
    return OpenTransaction(
        spot.topic,
        spot.partition,
        producer.current_transaction_start_offset,
        producer.producer_id,
        producer.producer_epoch,
        wrote_ms=producer.last_timestamp if producer.last_timestamp >= 0 else None,
        transactional_id=name,
        state=str(described.state.value) if is_its else "",
        began_ms=described.transaction_start_time_ms if is_its and described.transaction_start_time_ms >= 0 else None,
        timeout_ms=described.transaction_timeout_ms if described is not None else None,
    )
