"""Kafka brokers in memory, with the clients of librdkafka that the journal uses: transactions, epochs and markers.

`transaction_suite.py` has the cases that hold them to real brokers. As there:

- InitProducerId raises the epoch of a transactional ID and aborts the transaction that the previous holder left open.
- A producer with an old epoch is refused. Its client learns of it by the answer to a produce request, which is an
  abortable error, or by the answer to EndTxn, which is fatal.
- A transaction that is open for longer than its timeout is aborted by the coordinator, at its next look, with a new
  epoch. The client that held it may continue after its own abort (KIP-588), unless another one took the ID.
- A reader of committed records gets nothing from the first offset of the oldest open transaction on, and no aborted
  record. Each transaction ends with a marker, which takes an offset and is never handed out.
- The records of a LogAppendTime topic have the time of the partition's leader. A CreateTime topic may refuse times in
  the future (`message.timestamp.after.max.ms`).
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    KafkaError,
    KafkaException,
    TopicPartition,
)

# transaction.abort.timed.out.transaction.cleanup.interval.ms
CLEANUP_SECONDS = 10.0
_IDLE_SECONDS = 0.01


class Request(StrEnum):
    """What a client asks of the brokers."""

    METADATA = "metadata"
    OFFSETS = "list offsets"
    FETCH = "fetch"
    PRODUCE = "produce"
    INIT = "init producer id"
    COMMIT = "commit"
    ABORT = "abort"


class NoAnswer(Exception):  # noqa: N818 - it is no error of the fake
    """The time of a request is over. Whether it was carried out, the client doesn't know."""


class Refused(Exception):  # noqa: N818 - an answer
    """The brokers refused a request."""

    def __init__(self, code: int) -> None:
        super().__init__(KafkaError(code).name())
        self.code = code


class Line:
    """The connection of one client to the brokers."""

    owner = ""

    def send(self, request: Request, act: Callable[[], Any], *, timeout: float) -> Any:
        """Send a request and return its answer; NoAnswer if there was none in time."""
        del request, timeout
        return act()

    def cut(self, records: list[Message]) -> list[Message]:
        """Return the part of the records that one answer to a fetch has."""
        return records

    def wait(self, seconds: float) -> None:
        """Wait for new records."""
        time.sleep(min(seconds, _IDLE_SECONDS))


@dataclass(slots=True)
class Transaction:
    """One transaction of a transactional ID."""

    expires_at: float
    owner: str
    is_open: bool = True
    is_aborted: bool = False
    # The first offset of it in each topic.
    first: dict[str, int] = field(default_factory=dict)
    records: list[tuple[str, Message]] = field(default_factory=list)


@dataclass(slots=True)
class Holder:
    """The state of a transactional ID. `is_expired`: the newest epoch is the coordinator's own, after a timeout."""

    epoch: int = -1
    is_expired: bool = False
    transaction: Transaction | None = None


class Message:
    """A record of a partition, as `confluent_kafka.Message` gives it. `appended_at` is the true time."""

    __slots__ = (
        "_error",
        "_headers",
        "_key",
        "_leader_epoch",
        "_offset",
        "_timestamp",
        "_value",
        "appended_at",
        "transaction",
    )

    def __init__(
        self,
        offset: int,
        *,
        timestamp: tuple[int, int] = (TIMESTAMP_CREATE_TIME, 0),
        key: bytes | None = None,
        value: bytes | None = None,
        headers: list[tuple[str, bytes]] | None = None,
        leader_epoch: int = 0,
        transaction: Transaction | None = None,
        appended_at: float = 0.0,
        error: KafkaError | None = None,
    ) -> None:
        self._offset = offset
        self._timestamp = timestamp
        self._key = key
        self._value = value
        self._headers = headers
        self._leader_epoch = leader_epoch
        self._error = error
        self.transaction = transaction
        self.appended_at = appended_at

    def error(self) -> KafkaError | None:
        """The error of an event."""
        return self._error

    def offset(self) -> int:
        """Its offset."""
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        """The type and the milliseconds."""
        return self._timestamp

    def key(self) -> bytes | None:
        """Its key."""
        return self._key

    def value(self) -> bytes | None:
        """Its value."""
        return self._value

    def headers(self) -> list[tuple[str, bytes]] | None:
        """Its headers."""
        return self._headers

    def leader_epoch(self) -> int:
        """The epoch of the leader that appended it."""
        return self._leader_epoch


@dataclass(frozen=True, slots=True)
class Sent:
    """A record on its way to the brokers."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]
    timestamp_ms: int


class MemoryBrokers:
    """What the brokers store: one partition for each topic.

    `now` is the true time. `append_time` are the topics of the type LogAppendTime. `future_seconds` is how far ahead
    the time of a producer may be; None is no limit. `on_commit` is called with the owner and the records of each
    transaction that becomes durable.
    """

    def __init__(
        self,
        *,
        now: Callable[[], float] = time.time,
        append_time: Sequence[str] = (),
        future_seconds: float | None = None,
        cleanup_seconds: float = CLEANUP_SECONDS,
        on_commit: Callable[[str, Sequence[tuple[str, Message]]], None] | None = None,
    ) -> None:
        self.mutex = threading.RLock()
        self.leader_epoch = 0
        # How far the clock of the leader is ahead.
        self.clock_offset = 0.0
        self.now = now
        self._append_time = frozenset(append_time)
        self._future_seconds = future_seconds
        self._cleanup_seconds = cleanup_seconds
        self._on_commit = on_commit or (lambda owner, records: None)
        # A marker is None.
        self._logs: defaultdict[str, list[Message | None]] = defaultdict(list)
        # When each marker was appended, by topic and offset.
        self._marked_ms: dict[tuple[str, int], int] = {}
        self._holders: defaultdict[str, Holder] = defaultdict(Holder)
        self._open: list[Transaction] = []

    # --- the coordinator of transactions

    def init_producer(self, transactional_id: str) -> int:
        """InitProducerId: fence the previous holder and abort what it left open. Returns the new epoch."""
        with self.mutex:
            self._expire()
            holder = self._holders[transactional_id]
            if holder.transaction is not None:
                self._end(holder, is_aborted=True)
            holder.epoch += 1
            holder.is_expired = False
            return holder.epoch

    def recover_producer(self, transactional_id: str, epoch: int) -> int:
        """InitProducerId of a client that still has its epoch, after the coordinator aborted its transaction."""
        with self.mutex:
            holder = self._holders[transactional_id]
            if not (holder.is_expired and holder.epoch == epoch + 1):
                raise Refused(KafkaError.PRODUCER_FENCED)
            return self.init_producer(transactional_id)

    def end_transaction(self, transactional_id: str, epoch: int, *, is_aborted: bool) -> None:
        """EndTxn."""
        with self.mutex:
            self._expire()
            holder = self._holders[transactional_id]
            if holder.epoch != epoch:
                raise Refused(KafkaError.PRODUCER_FENCED)
            if holder.transaction is not None:
                self._end(holder, is_aborted=is_aborted)

    def _end(self, holder: Holder, *, is_aborted: bool) -> None:
        transaction, holder.transaction = holder.transaction, None
        assert transaction is not None
        transaction.is_open, transaction.is_aborted = False, is_aborted
        self._open.remove(transaction)
        for topic in transaction.first:
            self._marked_ms[topic, len(self._logs[topic])] = int((self.now() + self.clock_offset) * 1000)
            self._logs[topic].append(None)
        if not is_aborted:
            self._on_commit(transaction.owner, transaction.records)

    def _expire(self) -> None:
        if not self._open:
            return
        now = self.now()
        for holder in list(self._holders.values()):
            if holder.transaction is not None and holder.transaction.expires_at <= now:
                self._end(holder, is_aborted=True)
                holder.epoch += 1
                holder.is_expired = True

    # --- the log

    @property
    def logs(self) -> Mapping[str, list[Message]]:
        """Every record of each topic, whatever became of its transaction."""
        with self.mutex:
            return {topic: [one for one in log if one is not None] for topic, log in self._logs.items()}

    def produce(self, records: Sequence[Sent]) -> int:
        """Append records outside of any transaction. Returns the offset of the last one."""
        with self.mutex:
            self._expire()
            return [self._append(record, None) for record in records][-1]

    def produce_in_transaction(
        self, transactional_id: str, epoch: int, records: Sequence[Sent], *, timeout_seconds: float, owner: str
    ) -> None:
        """Append records to the transaction of an ID, which begins with them."""
        with self.mutex:
            self._expire()
            holder = self._holders[transactional_id]
            if holder.epoch != epoch:
                raise Refused(KafkaError.INVALID_PRODUCER_EPOCH)
            for record in records:
                self._check_time(record)
            if holder.transaction is None:
                # The coordinator looks for transactions whose time is over now and then.
                expires_at = self.now() + timeout_seconds + self._cleanup_seconds / 2
                holder.transaction = Transaction(expires_at, owner)
                self._open.append(holder.transaction)
            for record in records:
                self._append(record, holder.transaction)

    def _append(self, record: Sent, transaction: Transaction | None) -> int:
        self._check_time(record)
        log = self._logs[record.topic]
        if record.topic in self._append_time:
            timestamp = (TIMESTAMP_LOG_APPEND_TIME, int((self.now() + self.clock_offset) * 1000))
        else:
            timestamp = (TIMESTAMP_CREATE_TIME, record.timestamp_ms)
        message = Message(
            len(log),
            timestamp=timestamp,
            key=record.key,
            value=record.value,
            headers=record.headers,
            leader_epoch=self.leader_epoch,
            transaction=transaction,
            appended_at=self.now(),
        )
        log.append(message)
        if transaction is not None:
            transaction.first.setdefault(record.topic, message.offset())
            transaction.records.append((record.topic, message))
        return message.offset()

    def _check_time(self, record: Sent) -> None:
        if self._future_seconds is None or record.topic in self._append_time:
            return
        if record.timestamp_ms / 1000 > self.now() + self.clock_offset + self._future_seconds:
            raise Refused(KafkaError.INVALID_TIMESTAMP)

    def read_bounds(self, topic: str) -> tuple[int, int]:
        """The first offset and the end, open transactions included."""
        with self.mutex:
            self._expire()
            return 0, len(self._logs[topic])

    def find_offset(self, topic: str, at_ms: int) -> int:
        """The first offset with a record of that time or later; -1 if there is none."""
        with self.mutex:
            for offset, one in enumerate(self._logs[topic]):
                if (self._marked_ms[topic, offset] if one is None else one.timestamp()[1]) >= at_ms:
                    return offset
            return -1

    def fetch(self, topic: str, start: int, *, is_committed: bool) -> tuple[list[Message], int]:
        """The records from an offset on, and the offset after the last one that was looked at."""
        with self.mutex:
            self._expire()
            log = self._logs[topic]
            end = len(log)
            if is_committed:
                end = min((found.first[topic] for found in self._open if topic in found.first), default=end)
            found = [one for one in log[start:end] if one is not None]
            if is_committed:
                found = [one for one in found if one.transaction is None or not one.transaction.is_aborted]
            return found, max(start, end)

    # --- clients

    def build_producer(self, line: Line) -> Callable[[dict[str, Any]], MemoryProducer]:
        """What takes the place of `confluent_kafka.Producer`."""
        return lambda settings: MemoryProducer(self, settings, line)

    def build_consumer(self, line: Line) -> Callable[[dict[str, Any]], MemoryConsumer]:
        """What takes the place of `confluent_kafka.Consumer`."""
        return lambda settings: MemoryConsumer(self, settings, line)


class MemoryProducer:
    """What `confluent_kafka.Producer` does: records wait in a queue until they are flushed or polled."""

    def __init__(self, brokers: MemoryBrokers, settings: Mapping[str, Any], line: Line) -> None:
        self._brokers = brokers
        self._line = line
        self._id = str(settings.get("transactional.id", ""))
        self._timeout_seconds = settings.get("transaction.timeout.ms", 60_000) / 1000
        self._message_seconds = settings.get("message.timeout.ms", 300_000) / 1000
        self._epoch: int | None = None
        self._queue: list[tuple[Sent, Callable[[Any, Any], None] | None]] = []
        self._is_begun = False
        self._has_sent = False
        self._fatal: KafkaError | None = None
        self._abortable: int | None = None

    def list_topics(self, topic: str, timeout: float) -> None:
        """Ask for metadata."""
        del topic
        try:
            self._line.send(Request.METADATA, lambda: None, timeout=timeout)
        except NoAnswer:
            raise _build_late() from None

    def init_transactions(self, timeout: float) -> None:
        """Take the transactional ID."""
        self._check_fatal()
        try:
            self._epoch = self._line.send(Request.INIT, lambda: self._brokers.init_producer(self._id), timeout=timeout)
        except NoAnswer:
            raise _build_late() from None
        except Refused as answer:
            raise KafkaException(self._fail(answer.code)) from None

    def begin_transaction(self) -> None:
        """Begin; the brokers hear of it with the first record."""
        self._check_fatal()
        if self._epoch is None or self._is_begun:
            raise KafkaException(KafkaError(KafkaError._STATE, "init_transactions was not called"))
        self._is_begun, self._has_sent, self._abortable = True, False, None

    def produce(
        self,
        topic: str,
        *,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: list[tuple[str, bytes]] | None = None,
        partition: int = 0,
        timestamp: int = 0,
        on_delivery: Callable[[Any, Any], None] | None = None,
    ) -> None:
        """Queue a record."""
        self._check_fatal()
        assert partition == 0
        record = Sent(topic, key, value, headers or [], timestamp or int(self._brokers.now() * 1000))
        self._queue.append((record, on_delivery))

    def flush(self, timeout: float) -> int:
        """Send what is queued. Returns how many records were not acknowledged in time."""
        if not self._queue:
            return 0
        assert self._epoch is not None
        epoch, records = self._epoch, [record for record, _ in self._queue]
        self._has_sent = True
        try:
            self._line.send(
                Request.PRODUCE,
                lambda: self._brokers.produce_in_transaction(
                    self._id, epoch, records, timeout_seconds=self._timeout_seconds, owner=self._line.owner
                ),
                timeout=timeout,
            )
        except NoAnswer:
            return len(self._queue)
        except Refused as answer:
            # The records failed, and the commit will say so.
            self._abortable = answer.code
        self._queue = []
        return 0

    def commit_transaction(self, timeout: float) -> None:
        """EndTxn, unless a record failed."""
        self._check_fatal()
        if self._abortable is not None:
            raise KafkaException(KafkaError(self._abortable, "a record failed", txn_requires_abort=True))
        self._end(Request.COMMIT, timeout, is_aborted=False)

    def abort_transaction(self, timeout: float) -> None:
        """EndTxn; after an old epoch a new one, if the ID is still ours."""
        self._check_fatal()
        self._queue = []
        if self._abortable == KafkaError.INVALID_PRODUCER_EPOCH:
            assert self._epoch is not None
            epoch = self._epoch
            try:
                self._epoch = self._line.send(
                    Request.INIT, lambda: self._brokers.recover_producer(self._id, epoch), timeout=timeout
                )
            except NoAnswer:
                raise _build_late() from None
            except Refused as answer:
                raise KafkaException(self._fail(answer.code)) from None
            self._is_begun = False
            return
        self._end(Request.ABORT, timeout, is_aborted=True)

    def poll(self, timeout: float) -> int:
        """Send what is queued outside of a transaction, and report it."""
        del timeout
        if self._id or not self._queue:
            return 0
        queue, self._queue = self._queue, []
        for record, report in queue:
            error, message = self._deliver(record)
            if report is not None:
                report(error, message)
        return len(queue)

    def purge(self, **_options: bool) -> None:
        """Drop what is queued."""
        self._queue = []

    def _deliver(self, record: Sent) -> tuple[KafkaError | None, Message]:
        try:
            offset = self._line.send(
                Request.PRODUCE, lambda: self._brokers.produce([record]), timeout=self._message_seconds
            )
        except NoAnswer:
            return KafkaError(KafkaError._MSG_TIMED_OUT), Message(-1)
        except Refused as answer:
            return KafkaError(answer.code), Message(-1)
        return None, Message(offset)

    def _end(self, request: Request, timeout: float, *, is_aborted: bool) -> None:
        if not self._is_begun:
            raise KafkaException(KafkaError(KafkaError._STATE, "no transaction was begun"))
        if self._has_sent:
            assert self._epoch is not None
            epoch = self._epoch
            try:
                self._line.send(
                    request,
                    lambda: self._brokers.end_transaction(self._id, epoch, is_aborted=is_aborted),
                    timeout=timeout,
                )
            except NoAnswer:
                raise _build_late() from None
            except Refused as answer:
                raise KafkaException(self._fail(answer.code)) from None
        self._is_begun = False

    def _fail(self, code: int) -> KafkaError:
        """What the client tells of a refusal. After a fatal one it is of no more use."""
        if code == KafkaError.PRODUCER_FENCED:
            self._fatal = KafkaError(KafkaError._FENCED, "the epoch is old", fatal=True)
            return self._fatal
        return KafkaError(code)

    def _check_fatal(self) -> None:
        if self._fatal is not None:
            raise KafkaException(self._fatal)


class MemoryConsumer:
    """What `confluent_kafka.Consumer` does with one assigned partition."""

    def __init__(self, brokers: MemoryBrokers, settings: Mapping[str, Any], line: Line) -> None:
        self._brokers = brokers
        self._line = line
        self._is_committed = settings["isolation.level"] == "read_committed"
        self._topic: str | None = None
        self._next = 0
        self._told_end = -1
        self._batch: deque[Message] = deque()

    def list_topics(self, topic: str, timeout: float) -> None:
        """Ask for metadata."""
        del topic
        self._ask(Request.METADATA, lambda: None, timeout=timeout)

    def get_watermark_offsets(self, spot: TopicPartition, timeout: float) -> tuple[int, int]:
        """The bounds of a partition."""
        return self._ask(Request.OFFSETS, lambda: self._brokers.read_bounds(spot.topic), timeout=timeout)

    def offsets_for_times(self, spots: Sequence[TopicPartition], timeout: float) -> list[TopicPartition]:
        """The first offsets from a time on."""
        return [TopicPartition(spot.topic, spot.partition, self._find_offset(spot, timeout=timeout)) for spot in spots]

    def _find_offset(self, spot: TopicPartition, *, timeout: float) -> int:
        return self._ask(Request.OFFSETS, lambda: self._brokers.find_offset(spot.topic, spot.offset), timeout=timeout)

    def assign(self, spots: Sequence[TopicPartition]) -> None:
        """Read from an offset on."""
        (spot,) = spots
        self._topic, self._next, self._told_end = spot.topic, spot.offset, -1
        self._batch.clear()

    def unassign(self) -> None:
        """Read no more."""
        self._topic = None

    def poll(self, timeout: float) -> Message | None:
        """The next record, that the end is reached (once for each end), or nothing."""
        is_end = False
        if not self._batch and self._topic is not None:
            is_end = self._fetch(self._topic, timeout)
        if self._batch:
            return self._batch.popleft()
        if is_end and self._told_end != self._next:
            self._told_end = self._next
            return Message(self._next, error=KafkaError(KafkaError._PARTITION_EOF))
        self._line.wait(timeout)
        return None

    def _fetch(self, topic: str, timeout: float) -> bool:
        """Fetch; whether the answer was empty, which is the end."""
        try:
            found, end = self._line.send(
                Request.FETCH,
                lambda: self._brokers.fetch(topic, self._next, is_committed=self._is_committed),
                timeout=timeout,
            )
        except NoAnswer:
            # The client asks again and reports nothing.
            return False
        part = self._line.cut(found)
        if len(part) == len(found):
            self._next = end
        elif part:
            self._next = part[-1].offset() + 1
        self._batch.extend(part)
        return not found

    def close(self) -> None:
        """Nothing is held."""

    def _ask(self, request: Request, act: Callable[[], Any], *, timeout: float) -> Any:
        try:
            return self._line.send(request, act, timeout=timeout)
        except NoAnswer:
            raise _build_late() from None


def _build_late() -> KafkaException:
    return KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer in time", retriable=True))
