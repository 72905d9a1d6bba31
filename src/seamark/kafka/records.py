"""Reading single records with all that is in them, headers too, as a sink's consumer would get them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from seamark.errors import DeadlineError, NotFoundError
from seamark.kafka.clients import ConnectionEvents, open_client
from seamark.kafka.log import ANSWER_SECONDS, OF_NO_CONCERN, POLL_SECONDS, ask_until_known, build_reader_config
from seamark.kafka.model import RecordLocation, TopicPartition, WholeRecord

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

    Committed records only: aborted records were never visible to consumers.
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
    from confluent_kafka import TopicPartition as ConfluentTopicPartition  # noqa: PLC0415

    if not want.left:
        return
    spots = [ConfluentTopicPartition(topic, partition, want.starts[partition]) for partition in sorted(want.left)]
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
            consumer.pause([ConfluentTopicPartition(topic, partition) for partition in done])


def _take_event(message: Any, want: _Round, topic: str, events: ConnectionEvents) -> None:
    error = message.error()
    if error.name() == "_PARTITION_EOF":
        want.left.discard(message.partition())
    elif error.name() not in OF_NO_CONCERN:
        raise events.build_read_error(error, topic)


_SIZES_GROUP = "seamark-record-sizes"
_MOST_RECORDS = 500
_MOST_PARTITIONS = 8
_LOOK_SECONDS = 2.0


def read_record_bytes(
    config: Mapping[str, str],
    topic: str,
    *,
    begins: Mapping[int, int],
    build_consumer: Callable[[dict[str, Any]], Any] | None = None,
) -> int:
    """The average bytes of key and value of some hundred records from these offsets on; 0 where none came in time."""
    from confluent_kafka import Consumer  # noqa: PLC0415
    from confluent_kafka import TopicPartition as ConfluentTopicPartition  # noqa: PLC0415

    ours = build_reader_config(_SIZES_GROUP, fetch_wait_ms=10, isolation="read_committed")
    ours |= {"auto.offset.reset": "earliest", "fetch.message.max.bytes": 64 << 10}
    consumer = open_client(config, ours, build=build_consumer or Consumer, on_error=ConnectionEvents().record)
    some = sorted(begins.items())[:_MOST_PARTITIONS]
    records = total = 0
    deadline = time.monotonic() + _LOOK_SECONDS
    try:
        consumer.assign([ConfluentTopicPartition(topic, partition, begin) for partition, begin in some])
        while records < _MOST_RECORDS and time.monotonic() < deadline:
            for message in consumer.consume(_MOST_RECORDS, 0.1):
                if message.error() is None:
                    records += 1
                    total += len(message.key() or b"") + len(message.value() or b"")
            if records and records < _MOST_RECORDS:
                # There are no more, or they come slowly: these will do.
                break
    finally:
        consumer.close()
    return -(-total // records) if records else 0


_ANSWER_SECONDS = ANSWER_SECONDS
_READ_BATCH = 500
_READER_GROUP = "seamark-record-reader"
_FETCH_WAIT_MS = 50


class RecordReader:
    """Reads records by their places. For one thread; every call ends, with its result or with a sentence."""

    def __init__(
        self,
        config: Mapping[str, str],
        *,
        committed: bool = False,
        build_consumer: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        """Open a reader. With `committed` it omits aborted records, as a sink's consumer does if configured so."""
        from confluent_kafka import Consumer  # noqa: PLC0415

        self._events = ConnectionEvents()
        isolation = "read_committed" if committed else "read_uncommitted"
        ours = build_reader_config(_READER_GROUP, fetch_wait_ms=_FETCH_WAIT_MS, isolation=isolation)
        self._consumer = open_client(config, ours, build=build_consumer or Consumer, on_error=self._events.record)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._consumer.close()

    def read_partitions(self, topic: str) -> tuple[int, ...]:
        """The partitions of a topic; none where it is not there."""
        found = self._ask(lambda: self._consumer.list_topics(topic, timeout=_ANSWER_SECONDS), topic).topics.get(topic)
        return () if found is None or found.error is not None else tuple(sorted(found.partitions))

    def read(self, spot: TopicPartition, start: int | None = None) -> Iterator[WholeRecord]:
        """Records from `start` on, or all of them, to where the log ends now. Where records are missing, the next."""
        from confluent_kafka import TopicPartition as ConfluentTopicPartition  # noqa: PLC0415

        topic, partition = spot
        low, end = self._read_watermarks(spot)
        reached = low if start is None else max(start, low)
        if reached >= end:
            return
        self._events.start_call()
        self._consumer.assign([ConfluentTopicPartition(topic, partition, reached)])
        deadline = time.monotonic() + _ANSWER_SECONDS
        while reached < end:
            batch = self._consumer.consume(_READ_BATCH, POLL_SECONDS)
            if not batch:
                self._check_hope(topic, deadline=deadline)
                continue
            deadline = time.monotonic() + _ANSWER_SECONDS
            for message in batch:
                error = message.error()
                if error is None:
                    if message.offset() >= end:
                        return
                    reached = message.offset() + 1
                    yield _build_record(message)
                elif error.name() == "_PARTITION_EOF":
                    # For a reader of committed records the log ends where an open transaction begins.
                    return
                elif error.name() not in OF_NO_CONCERN:
                    raise self._events.build_read_error(error, topic)
        self._events.end_call(is_answered=True)

    def _read_watermarks(self, spot: TopicPartition) -> tuple[int, int]:
        from confluent_kafka import TopicPartition as ConfluentTopicPartition  # noqa: PLC0415

        topic, partition = spot

        def ask() -> tuple[int, int]:
            wanted = ConfluentTopicPartition(topic, partition)
            low, high = self._ask(lambda: self._consumer.get_watermark_offsets(wanted, timeout=_ANSWER_SECONDS), topic)
            return int(low), int(high)

        try:
            return ask()
        except NotFoundError:
            # The metadata of one broker can name a new partition before its leader knows that it leads it: seen on
            # three busy brokers, right after the topic was created.
            if partition not in self.read_partitions(topic):
                raise
            return ask_until_known(ask)

    def _ask(self, question: Callable[[], Any], topic: str) -> Any:
        from confluent_kafka import KafkaException  # noqa: PLC0415

        try:
            return question()
        except KafkaException as failure:
            # Errors of the connections are delivered only by a poll.
            self._consumer.poll(0)
            raise self._events.build_read_error(failure.args[0], topic) from None

    def _check_hope(self, topic: str, *, deadline: float) -> None:
        self._events.check_readable(topic)
        if time.monotonic() > deadline:
            raise DeadlineError(
                f"could not read the topic {topic}: no records arrived for {_ANSWER_SECONDS:g} s",
                hint="check that the brokers run, and try again",
                context={"subject": topic},
            )


def _build_record(message: Any) -> WholeRecord:
    return WholeRecord(
        place=RecordLocation(message.topic(), message.partition(), message.offset()),
        timestamp_ms=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
    )
