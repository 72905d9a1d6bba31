"""Samples of a topic: keys of old and of new records of every partition, by one consumer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from seamark.kafka.opening import open_client
from seamark.kafka.reading import OF_NO_CONCERN, build_reader_config
from seamark.kafka.wait import ConnectionEvents

_SAMPLES_GROUP = "seamark-key-samples"
_SAMPLE_BATCH = 1000
_WAIT_SECONDS = 0.2
# A sample is as good with fewer records: what has not come by then is done without.
_PATIENCE_SECONDS = 20.0
# Topics of pictures exist; a sample need not fetch gigabytes of them.
_MOST_BYTES = 256 << 20
_FETCH_BYTES = 256 << 10

Sample = tuple[int, bytes | None]
"""A partition, and the key of a record of it."""


@dataclass(slots=True)
class _Round:
    """One pass: from where to where each partition is read, and how many records of it."""

    starts: Mapping[int, int]
    ends: Mapping[int, int]
    most: int
    left: set[int] = field(default_factory=set)
    taken: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.left = {partition for partition, start in self.starts.items() if start < self.ends[partition]}

    def take(self, partition: int, offset: int) -> bool:
        """Whether a record is part of the sample; a partition that has enough is not read on."""
        if partition not in self.left:
            return False
        is_wanted = offset < self.ends[partition]
        if is_wanted:
            self.taken[partition] = self.taken.get(partition, 0) + 1
        if offset + 1 >= self.ends[partition] or self.taken.get(partition, 0) >= self.most:
            self.left.discard(partition)
        return is_wanted


def read_key_samples(
    config: Mapping[str, str],
    topic: str,
    *,
    ranges: Mapping[int, tuple[int, int]],
    most: int,
    build_consumer: Callable[[dict[str, Any]], Any] | None = None,
) -> Iterator[Sample]:
    """Up to `most` of the oldest and `most` of the newest keys of each partition, within its range of offsets.

    Committed records only: what was taken back was never anybody's.
    """
    from confluent_kafka import Consumer  # noqa: PLC0415

    events = ConnectionEvents()
    ours = build_reader_config(_SAMPLES_GROUP, fetch_wait_ms=10, isolation="read_committed")
    ours |= {"auto.offset.reset": "earliest", "fetch.message.max.bytes": _FETCH_BYTES}
    consumer = open_client(config, ours, build=build_consumer or Consumer, on_error=events.record)
    begins = {partition: begin for partition, (begin, _) in ranges.items()}
    ends = {partition: end for partition, (_, end) in ranges.items()}
    # Where the two would overlap, the second begins where the first has ended.
    late = {p: max(begins[p] + most, ends[p] - most) for p in ranges}
    try:
        for starts in (begins, late):
            yield from _read_round(consumer, topic, _Round(starts, ends, most), events)
    finally:
        consumer.close()


def _read_round(consumer: Any, topic: str, want: _Round, events: ConnectionEvents) -> Iterator[Sample]:
    from confluent_kafka import TopicPartition  # noqa: PLC0415

    if not want.left:
        return
    spots = [TopicPartition(topic, partition, want.starts[partition]) for partition in sorted(want.left)]
    consumer.assign(spots)
    # What was paused in the round before stays so.
    consumer.resume(spots)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    spent = 0
    while want.left and time.monotonic() < deadline and spent < _MOST_BYTES:
        batch = consumer.consume(_SAMPLE_BATCH, _WAIT_SECONDS)
        before = set(want.left)
        for message in batch:
            if message.error() is not None:
                _take_event(message, want, topic, events)
                continue
            spent += len(message)
            if want.take(message.partition(), message.offset()):
                yield message.partition(), message.key()
        if not batch:
            events.check_readable(topic)
        if done := before - want.left:
            consumer.pause([TopicPartition(topic, partition) for partition in done])


def _take_event(message: Any, want: _Round, topic: str, events: ConnectionEvents) -> None:
    error = message.error()
    if error.name() == "_PARTITION_EOF":
        want.left.discard(message.partition())
    elif error.name() not in OF_NO_CONCERN:
        raise events.build_read_error(error, topic)
