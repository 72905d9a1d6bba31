"""Reading single records with all that is in them, headers too, as a sink's consumer would get them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from seamark.errors import DeadlineError
from seamark.kafka.opening import open_client
from seamark.kafka.reading import ANSWER_SECONDS, OF_NO_CONCERN, POLL_SECONDS, build_reader_config
from seamark.kafka.record import Place, WholeRecord
from seamark.kafka.spot import Spot
from seamark.kafka.wait import ConnectionEvents

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
        """With `committed` only what a transaction did not take back, as the consumer of a sink is told to."""
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

    def read(self, spot: Spot, start: int | None = None) -> Iterator[WholeRecord]:
        """Records from `start` on, or all of them, to where the log ends now. Where records are missing, the next."""
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        topic, partition = spot
        low, end = self._ask(
            lambda: self._consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_ANSWER_SECONDS),
            topic,
        )
        reached = low if start is None else max(start, low)
        if reached >= end:
            return
        self._events.start_call()
        self._consumer.assign([TopicPartition(topic, partition, reached)])
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

    def _ask(self, question: Callable[[], Any], topic: str) -> Any:
        from confluent_kafka import KafkaException  # noqa: PLC0415

        try:
            return question()
        except KafkaException as failure:
            # What the connections said comes only when somebody polls.
            self._consumer.poll(0)
            raise self._events.build_read_error(failure.args[0], topic) from None

    def _check_hope(self, topic: str, *, deadline: float) -> None:
        self._events.check_readable(topic)
        if time.monotonic() > deadline:
            raise DeadlineError(
                f"could not read the topic {topic}: nothing came for {_ANSWER_SECONDS:g} s",
                hint="check that the brokers run, and try again",
                context={"subject": topic},
            )


def _build_record(message: Any) -> WholeRecord:
    return WholeRecord(
        place=Place(message.topic(), message.partition(), message.offset()),
        timestamp_ms=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
    )
