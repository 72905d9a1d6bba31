"""Reading one partition: committed records only, up to where it ended when it was asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from seamark.core.time import read_clock
from seamark.errors import DeadlineError, NotFoundError, SeamarkError
from seamark.kafka.clients import ConnectionEvents, open_client
from seamark.kafka.failures import is_passing


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks of one process.

    `now` measures timeouts. `since_boot` also counts while the machine sleeps.
    """

    now: Callable[[], float] = time.monotonic
    since_boot: Callable[[], float] = read_clock
    sleep: Callable[[float], None] = time.sleep


_Found = TypeVar("_Found")

# A new leader for a partition of a broker that died is found within its session (9 s) and an election.
ANSWER_SECONDS = 15.0
POLL_SECONDS = 0.1
# By default librdkafka asks for nothing more of a partition whose queue is full for a whole second, though Python
# empties it in milliseconds: with 5 ms a topic of 2 million records is read in a third of the time.
QUEUE_BACKOFF = {"fetch.queue.backoff.ms": 5}
# No client joins the group of a reader; librdkafka requires a name for it, and looks for its coordinator. Being denied
# that has no effect.
OF_NO_CONCERN = frozenset({"GROUP_AUTHORIZATION_FAILED", "_MAX_POLL_EXCEEDED"})


def build_reader_config(group: str, *, fetch_wait_ms: int, isolation: str) -> dict[str, Any]:
    """The settings of a consumer that reads partitions from one offset to another, and commits nothing."""
    return {
        "group.id": group,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "check.crcs": True,
        "fetch.wait.max.ms": fetch_wait_ms,
        # 8 MiB are a few fetches ahead, whatever the size of the log.
        "queued.max.messages.kbytes": 8192,
        "isolation.level": isolation,
        **QUEUE_BACKOFF,
    }


def ask_until_known(ask: Callable[[], _Found]) -> _Found:
    """Ask about a topic that is there: one that was just made is not known to every broker in the same moment."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            return ask()
        except SeamarkError as error:
            if not (is_passing(error) or isinstance(error, NotFoundError)) or time.monotonic() > deadline:
                raise
        time.sleep(POLL_SECONDS)


# A transaction whose owner died holds the readable end back until the brokers end it: after its own timeout (15 s for
# seamark's) and at their next look (transaction.abort.timed.out.transaction.cleanup.interval.ms, 10 s by default).
# Five more for a slow broker.
DEFAULT_PATIENCE_SECONDS = 30.0
_ANSWER_SECONDS = ANSWER_SECONDS
# A topic that was just made is not known to every broker in the same moment; a few heartbeats are enough.
_NEW_TOPIC_SECONDS = 2.0
_GROUP = "seamark-log-reader"
# Every transaction ends with a marker that is never handed out: the end is only seen at the next, empty fetch.
_FETCH_WAIT_MS = 10


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record of a partition. `timestamp_ms` is the producer's or the broker's time: see `is_append_time`.

    `leader_epoch` changes whenever another broker becomes the leader of the partition, whose clock may differ.
    """

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes] = field(default_factory=dict)
    is_append_time: bool = False
    leader_epoch: int | None = None


class PartitionLog:
    """One partition of one topic. For one thread; every call ends, with its result or with a sentence."""

    def __init__(
        self,
        config: Mapping[str, str],
        topic: str,
        *,
        partition: int = 0,
        patience_seconds: float = DEFAULT_PATIENCE_SECONDS,
        build_consumer: Callable[[dict[str, Any]], Any] | None = None,
        clocks: Clocks | None = None,
    ) -> None:
        from confluent_kafka import Consumer  # noqa: PLC0415

        self.topic = topic
        self.partition = partition
        self._patience_seconds = patience_seconds
        self._events = ConnectionEvents()
        self._clocks = clocks or Clocks()
        build = build_consumer or Consumer
        # The end for a reader of committed records is where the oldest open transaction begins. Only a reader of
        # uncommitted records gets the true end.
        self._edge = self._open(config, "read_uncommitted", build)
        self._reader = self._open(config, "read_committed", build)
        self._is_connected = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._edge.close()
        self._reader.close()

    def read_bounds(self) -> tuple[int, int]:
        """The first offset, and the one behind the last record that is on enough replicas, open transactions too."""
        low, high = self._ask(lambda: self._edge.get_watermark_offsets(self._spot(), timeout=_ANSWER_SECONDS))
        return int(low), int(high)

    def find_offset(self, at: float) -> int | None:
        """The first offset with a record of that time (seconds since the epoch) or later; None if there is none."""
        spot = self._spot(int(at * 1000))
        found = self._ask(lambda: self._edge.offsets_for_times([spot], timeout=_ANSWER_SECONDS))[0]
        return int(found.offset) if found.offset >= 0 else None

    def read(self, start: int | None = None, end: int | None = None) -> Iterator[LogRecord]:
        """Records from `start` to before `end`, by default all there are now.

        It waits for the end of transactions that stand before `end`: whatever was acknowledged before is seen.
        """
        if start is None or end is None:
            low, high = self.read_bounds()
            start, end = low if start is None else start, high if end is None else end
        if start >= end:
            return
        self._connect()
        self._events.start_call()
        self._reader.assign([self._spot(start)])
        try:
            yield from self._read_on(start, end)
        finally:
            # Else the client would ask for what comes next, again and again.
            self._reader.unassign()
        self._events.end_call(is_answered=True)

    def _read_on(self, reached: int, end: int) -> Iterator[LogRecord]:
        deadline = self._clocks.now() + self._patience_seconds
        while reached < end:
            message = self._reader.poll(POLL_SECONDS)
            if message is None:
                self._check_hope(reached, end=end, deadline=deadline)
                continue
            if (error := message.error()) is not None:
                if error.name() == "_PARTITION_EOF":
                    reached = max(reached, message.offset())
                elif error.name() not in OF_NO_CONCERN:
                    raise self._events.build_read_error(error, self.topic)
                continue
            if message.offset() >= end:
                break
            reached, deadline = message.offset() + 1, self._clocks.now() + self._patience_seconds
            yield _build_record(message)

    def _open(self, config: Mapping[str, str], isolation: str, build: Callable[[dict[str, Any]], Any]) -> Any:
        ours = build_reader_config(_GROUP, fetch_wait_ms=_FETCH_WAIT_MS, isolation=isolation)
        return open_client(config, ours, build=build, on_error=self._events.record)

    def _spot(self, offset: int = 0) -> Any:
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        return TopicPartition(self.topic, self.partition, offset)

    def _ask(self, question: Callable[[], Any]) -> Any:
        from confluent_kafka import KafkaException  # noqa: PLC0415

        self._connect()
        began_at = self._clocks.now()
        while True:
            try:
                return question()
            except KafkaException as failure:
                # Errors of the connections are delivered only by a poll.
                self._edge.poll(0)
                error = self._events.build_read_error(failure.args[0], self.topic)
                patience = _NEW_TOPIC_SECONDS if isinstance(error, NotFoundError) else _ANSWER_SECONDS
                may_pass = isinstance(error, NotFoundError) or is_passing(error)
                if not may_pass or self._clocks.now() - began_at > patience:
                    raise error from None
                self._clocks.sleep(POLL_SECONDS)

    def _connect(self) -> None:
        """Have both clients learn who leads the topic, one after the other.

        A client that is asked while it still exchanges its bootstrap connections for real ones asks again later. Seen
        on three brokers: every tenth first read took 0.7 s without this, and none took more than 0.15 s with it.
        """
        if not self._is_connected:
            self._is_connected = True
            for client in (self._edge, self._reader):
                self._ask(partial(client.list_topics, self.topic, timeout=_ANSWER_SECONDS))

    def _check_hope(self, reached: int, *, end: int, deadline: float) -> None:
        self._events.check_readable(self.topic)
        if self._clocks.now() > deadline:
            raise DeadlineError(
                f"could not read the topic {self.topic} to its end: no records arrived for "
                f"{self._patience_seconds:g} s",
                cause=f"offset {reached} of {end} was reached; an open transaction hides the records after it",
                hint="check that all brokers run, and try again: they abort such a transaction after some seconds",
                context={"subject": self.topic, "offset": str(reached), "end": str(end)},
            )


def _build_record(message: Any) -> LogRecord:
    from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME  # noqa: PLC0415

    # A header may stand twice; the last one counts, as for Kafka's own `lastHeader`.
    headers = {name: value or b"" for name, value in message.headers() or ()}
    kind, timestamp_ms = message.timestamp()
    return LogRecord(
        offset=message.offset(),
        timestamp_ms=timestamp_ms,
        key=message.key(),
        value=message.value(),
        headers=headers,
        is_append_time=kind == TIMESTAMP_LOG_APPEND_TIME,
        leader_epoch=message.leader_epoch(),
    )
