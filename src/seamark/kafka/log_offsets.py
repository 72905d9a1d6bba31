"""Where logs begin and end, and what stands at a time: for many partitions at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from seamark.errors import SeamarkError, UnreachableError
from seamark.kafka.admin import KafkaAdmin
from seamark.kafka.spot import Bounds, Edge, Spot, SpotReading, Stamp


class LogOffsetsAdmin(KafkaAdmin):
    """The brokers, with the offsets of their logs: a request to each leader, none for each partition."""

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
        failures = {**earliest.failures, **latest.failures}
        # Seen while a leader moves: an answer without an offset. Every log has a beginning and an end.
        failures |= {spot: _build_nowhere(spot) for spot in wanted if spot not in found and spot not in failures}
        return SpotReading(found, failures=failures)

    def read_log_offsets(self, spots: Iterable[Spot], *, at: Edge | int) -> SpotReading[Stamp | None]:
        """One offset of many partitions: at an edge, or the first record of a time (ms since the epoch) or later.

        None where there is no such record. A partition that is not there, or that nobody leads, may take all the others
        with it, the latter after the whole deadline. Then those that are well are asked for once more.
        """
        return self._read_offsets(list(dict.fromkeys(spots)), at)

    def read_offsets_at(self, times: Mapping[Spot, int]) -> SpotReading[Stamp | None]:
        """The first record of a time (ms since the epoch) or later, each partition with a time of its own."""
        return self._read_offsets(list(times), times)

    def _read_offsets(self, wanted: Sequence[Spot], at: Edge | int | Mapping[Spot, int]) -> SpotReading[Stamp | None]:
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

    def _ask_offsets(self, spots: Sequence[Spot], at: Edge | int | Mapping[Spot, int]) -> SpotReading[Stamp | None]:
        from confluent_kafka import IsolationLevel, TopicPartition  # noqa: PLC0415

        if not spots:
            return SpotReading()
        shared = None if isinstance(at, Mapping) else _build_offset_spec(at)
        options = {"isolation_level": IsolationLevel.READ_COMMITTED} if at == Edge.STABLE else {}

        def ask(wanted: Sequence[Spot]) -> dict[Spot, Future[Any]]:
            request = {
                TopicPartition(*spot): _build_offset_spec(at[spot]) if isinstance(at, Mapping) else shared
                for spot in wanted
            }
            futures = self._client.list_offsets(request, request_timeout=self._timeout_seconds, **options)
            return {(spot.topic, spot.partition): future for spot, future in futures.items()}

        results, failures = self._ask(spots, ask, action="read the offsets of")
        found = {spot: _build_stamp(answer) for spot, answer in results.items()}
        return SpotReading(found, failures=failures)


def _build_nowhere(spot: Spot) -> SeamarkError:
    return UnreachableError(
        f"could not read where {spot[0]}-{spot[1]} begins and ends just now",
        cause="the brokers answered without an offset",
        hint="try again in a moment",
    )


def _build_offset_spec(at: Edge | int) -> Any:
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # noqa: PLC0415

    if isinstance(at, Edge):
        edges = {Edge.EARLIEST: "earliest", Edge.LATEST: "latest", Edge.STABLE: "latest", Edge.NEWEST: "max_timestamp"}
        return getattr(OffsetSpec, edges[at])()
    return OffsetSpec.for_timestamp(at)


def _build_stamp(answer: Any) -> Stamp | None:
    if answer.offset < 0:
        return None
    return Stamp(
        offset=answer.offset,
        timestamp_ms=answer.timestamp if answer.timestamp >= 0 else None,
        leader_epoch=getattr(answer, "leader_epoch", None),
    )
