"""Everything that the brokers hold, a few calls for all of it: topics, the bounds of their logs, groups, commits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from seamark.errors import NotFoundError, SeamarkError
from seamark.kafka.admin import KafkaAdmin
from seamark.kafka.failures import build_error
from seamark.kafka.values import build_committed, build_listing, build_members, build_topic
from seamark.model.group import Group, GroupListing, GroupOffsets
from seamark.model.reading import Reading
from seamark.model.spot import Bounds, Edge, Spot, SpotReading, Stamp
from seamark.model.topic import TopicStatus

T = TypeVar("T")

# The brokers answer some thousand group requests a second. So many of them end well within one deadline, and the next
# ones get a deadline of their own.
_GROUPS_AT_ONCE = 500


class SurveyAdmin(KafkaAdmin):
    """The brokers, with reads over all that they hold. No call is made for each partition."""

    def read_all_topics(self, *, with_configs: bool = True) -> Reading[TopicStatus]:
        """Every topic, by name. Without configs there is no `min_isr`, and one call less."""
        from confluent_kafka import TopicCollection  # noqa: PLC0415

        names = self._read_topic_names()
        if not names:
            return Reading()
        options = {"include_authorized_operations": True, "request_timeout": self._timeout_seconds}
        futures = self._client.describe_topics(TopicCollection(names), **options)
        found, failures = self._settle(futures, action="read the topic", operation="DESCRIBE")
        if with_configs:
            topics, gone = self._add_configs(found)
        else:
            topics, gone = tuple(build_topic(one, configs={}, configs_error="") for one in found.values()), {}
        return Reading(topics, failures=_without_missing(failures | gone))

    def read_bounds(self, spots: Iterable[Spot]) -> SpotReading[Bounds]:
        """The first and the next offset of many partitions: see `read_log_offsets`, and `TopicStatus.led_spots`."""
        wanted = list(dict.fromkeys(spots))
        earliest = self.read_log_offsets(wanted, at=Edge.EARLIEST)
        latest = self.read_log_offsets(earliest.found, at=Edge.LATEST)
        found = {
            spot: Bounds(earliest=stamp.offset, latest=end.offset)
            for spot, end in latest.found.items()
            if end is not None and (stamp := earliest.found[spot]) is not None
        }
        return SpotReading(found, failures={**earliest.failures, **latest.failures})

    def read_log_offsets(self, spots: Iterable[Spot], *, at: Edge | int) -> SpotReading[Stamp | None]:
        """One offset of many partitions: at an edge, or the first record of a time (ms since the epoch) or later.

        None where there is no such record. A partition that is not there, or that nobody leads, may take all the others
        with it, the latter after the whole deadline. Then those that are well are asked for once more.
        """
        wanted = list(dict.fromkeys(spots))
        reading = self._ask_offsets(wanted, at)
        if reading.is_complete or reading.found:
            return reading
        well = self._find_led(wanted)
        if not well or len(well) == len(wanted):
            return reading
        second = self._ask_offsets(well, at)
        left = {spot: error for spot, error in reading.failures.items() if spot not in well}
        return SpotReading(second.found, failures={**left, **second.failures})

    def _find_led(self, spots: Sequence[Spot]) -> list[Spot]:
        """Those of the partitions that are there and led."""
        from confluent_kafka import TopicCollection  # noqa: PLC0415

        names = list({topic for topic, _ in spots})
        futures = self._client.describe_topics(TopicCollection(names), request_timeout=self._timeout_seconds)
        found, _ = self._settle(futures, action="read the topic", operation="DESCRIBE")
        led = {(name, one.id) for name, topic in found.items() for one in topic.partitions if one.leader is not None}
        return [spot for spot in spots if spot in led]

    def _ask_offsets(self, spots: Sequence[Spot], at: Edge | int) -> SpotReading[Stamp | None]:
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        spec = _build_offset_spec(at)
        request = {TopicPartition(topic, partition): spec for topic, partition in spots}
        if not request:
            return SpotReading()
        futures = self._client.list_offsets(request, request_timeout=self._timeout_seconds)
        named: dict[Spot, Any] = {(spot.topic, spot.partition): future for spot, future in futures.items()}
        results, failures = self._settle(named, action="read the offsets of", operation="DESCRIBE")
        found = {spot: _build_stamp(answer) for spot, answer in results.items()}
        return SpotReading(found, failures=failures)

    def read_consumer_groups(self) -> Reading[GroupListing]:
        """Every classic and consumer group, by name. A broker that did not answer is a failure."""
        future = self._client.list_consumer_groups(request_timeout=self._timeout_seconds)
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
        for names in _chunk(dict.fromkeys(groups), _GROUPS_AT_ONCE):
            futures = self._client.describe_consumer_groups(names, **options)
            results, failed = self._settle(futures, action="read the group", operation="DESCRIBE")
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
        for names in _chunk(groups, _GROUPS_AT_ONCE):
            futures = {
                name: future for name in names if (future := self._ask_committed(name, groups[name], only_stable))
            }
            results, failed = self._settle(futures, action="read the offsets of the group", operation="DESCRIBE")
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

    def _translate(self, failure: BaseException, *, action: str) -> SeamarkError:
        return self._translate_error(failure.args[0], action)

    def _translate_error(self, error: Any, action: str) -> SeamarkError:
        return build_error(
            error, action=action, subject=self._address, operation="DESCRIBE", last_event=self._events.last
        )


def _build_offset_spec(at: Edge | int) -> Any:
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # noqa: PLC0415

    if isinstance(at, Edge):
        edges = {Edge.EARLIEST: "earliest", Edge.LATEST: "latest", Edge.NEWEST: "max_timestamp"}
        return getattr(OffsetSpec, edges[at])()
    return OffsetSpec.for_timestamp(at)


def _build_stamp(answer: Any) -> Stamp | None:
    if answer.offset < 0:
        return None
    return Stamp(offset=answer.offset, timestamp_ms=answer.timestamp if answer.timestamp >= 0 else None)


def _without_missing(failures: Mapping[str, SeamarkError]) -> dict[str, SeamarkError]:
    """A topic that went between two questions is not there, which is no failure."""
    return {name: error for name, error in failures.items() if not isinstance(error, NotFoundError)}


def _chunk(names: Iterable[T], size: int) -> Iterator[list[T]]:
    left = iter(names)
    while chunk := list(islice(left, size)):
        yield chunk
