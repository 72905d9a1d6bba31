"""The producer of one task: rows by columns in, one transaction after the other, each with its control record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from seamark.kafka.opening import hear_fatal_errors, open_client
from seamark.kafka.wait import ConnectionEvents
from seamark.model.control import Amount

# The brokers allow 15 minutes by default (transaction.max.timeout.ms). A task that dies holds readers up for as long as
# this, unless it runs again, which Spark does within seconds.
TRANSACTION_SECONDS = 300.0
# Finding a coordinator again after the loss of a broker takes its session (9 s) and an election.
ANSWER_SECONDS = 60.0
_ROOM_SECONDS = 0.05

DEFAULTS: Mapping[str, Any] = {
    # Rows come ten thousand at a time: full batches form by themselves, and a few milliseconds cost nothing.
    "linger.ms": 20,
    "batch.size": 1 << 20,
    "compression.type": "lz4",
    # 128 MiB ahead of the brokers is a second of the fastest task that was seen.
    "queue.buffering.max.kbytes": 128 * 1024,
    "queue.buffering.max.messages": 500_000,
    "transaction.timeout.ms": int(TRANSACTION_SECONDS * 1000),
    "reconnect.backoff.max.ms": 1000,
}
"""Settings that the job's own go over."""

OURS = frozenset(
    {
        "acks",
        "delivery.report.only.error",
        "delivery.timeout.ms",
        "enable.gapless.guarantee",
        "enable.idempotence",
        "message.timeout.ms",
        "partitioner",
        "request.required.acks",
        "transactional.id",
    }
)
"""Settings that the guarantee rests on; a job can't change them."""


class Piece(Protocol):
    """Some rows of a task's input. It may be gone through more than once."""

    @property
    def amount(self) -> Amount:
        """How much it is."""

    def rows(self) -> Iterable[tuple[str, Any, Any, Any, int | None, int | None]]:
        """Row by row: topic, key, value, headers, partition (None: by the key), timestamp in ms (None: now)."""

    def split(self, records: int) -> tuple[Piece, Piece]:
        """The first rows, and the rest."""


class ProducerFailure(Exception):  # noqa: N818 - it never leaves this package
    """The producer can't go on; what it did last may be unknown. `error` is librdkafka's."""

    def __init__(self, error: Any, *, spot: str = "") -> None:
        super().__init__(error.str())
        self.error = error
        self.spot = spot


class TaskProducer:
    """A transactional producer. After any failure it can only be closed.

    librdkafka lacks KIP-890: its abort is not surely the end of what is under way. A new producer's taking over is.
    """

    def __init__(
        self,
        config: Mapping[str, str],
        *,
        transactional_id: str,
        on_written: Callable[[int, int], None] | None = None,
        build_producer: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        from confluent_kafka import Producer  # noqa: PLC0415

        self._events = ConnectionEvents()
        self._failed: tuple[Any, str] | None = None
        self._on_written = on_written
        ours = {
            "transactional.id": transactional_id,
            "enable.idempotence": True,
            "acks": "all",
            # A transaction's own end is the end of all waiting.
            "message.timeout.ms": 0,
            # Java's choice for a key. librdkafka's own is another one.
            "partitioner": "murmur2_random",
            # A report for each record costs as much as producing it; only a copy needs to know where records lie.
            "delivery.report.only.error": on_written is None,
            "on_delivery": self._note,
        }
        build = build_producer or Producer
        self._producer = open_client(config, {**DEFAULTS, **config, **ours}, build=build, on_error=self._events.record)

    def take(self) -> None:
        """Take the transactional id. Whoever had it is fenced, and what they left open is ended."""
        self._call(lambda: self._producer.init_transactions(ANSWER_SECONDS))

    def begin(self) -> None:
        """Begin a transaction."""
        self._call(self._producer.begin_transaction)

    def produce(self, piece: Piece, *, deadline: float) -> None:
        """Hand rows to librdkafka, and wait where it has no room. The brokers may get them later."""
        self._call(lambda: self._produce(piece, deadline=deadline))

    def flush(self, *, deadline: float) -> None:
        """Wait until the brokers have every record."""
        self._call(lambda: self._flush(deadline))

    def commit(self, topic: str, *, partition: int, key: bytes, value: bytes, deadline: float) -> None:
        """Write a control record behind everything else, and commit."""
        self._call(lambda: self._commit(topic, partition=partition, key=key, value=value, deadline=deadline))

    def close(self) -> None:
        """Let go of it. An open transaction is left to whoever takes the id next, or to the brokers."""
        if self._producer is not None:
            self._producer.purge(blocking=False)
            self._producer = None

    def _produce(self, piece: Piece, *, deadline: float) -> None:
        produce = self._producer.produce
        for topic, key, value, headers, partition, stamp in piece.rows():
            place = -1 if partition is None else partition
            while True:
                try:
                    # By place and not by name, which takes the client half of the time. The two None stand for a
                    # callback of this record's own.
                    produce(topic, value, key, place, None, None, stamp or 0, headers)
                except BufferError:
                    self._make_room(deadline=deadline)
                else:
                    break
        # Reports of failures come only when somebody polls.
        self._producer.poll(0)
        self._check()

    def _make_room(self, *, deadline: float) -> None:
        self._producer.poll(_ROOM_SECONDS)
        self._check()
        if time.monotonic() > deadline:
            raise ProducerFailure(_build_late("the brokers took no more records in time"))

    def _commit(self, topic: str, *, partition: int, key: bytes, value: bytes, deadline: float) -> None:
        # The control record goes last and alone: it holds other tasks' readers up for no longer than the commit takes.
        self._flush(deadline)
        self._producer.produce(topic, value=value, key=key, partition=partition, on_delivery=self._note_failure)
        self._flush(deadline)
        self._producer.commit_transaction(max(1.0, min(ANSWER_SECONDS, deadline - time.monotonic())))

    def _flush(self, deadline: float) -> None:
        late = self._producer.flush(max(1.0, deadline - time.monotonic()))
        self._check()
        if late:
            raise ProducerFailure(_build_late(f"{late} records were not taken by the brokers in time"))

    def _call(self, call: Callable[[], Any]) -> None:
        from confluent_kafka import KafkaException  # noqa: PLC0415

        try:
            with hear_fatal_errors():
                call()
        except KafkaException as failure:
            error = failure.args[0]
            if not error.fatal():
                # A fence says more than the state that it left, such as "erroneous state". Taken for a passing failure,
                # it would have this attempt fence the other in turn.
                error = self._find_fatal() or error
            if not error.fatal():
                # The report of a record says more than that the transaction must be aborted.
                self._check()
            raise ProducerFailure(error) from None

    def _find_fatal(self) -> Any:
        """What librdkafka has not told yet: the error that it can't go on for, or None. It raises that when asked."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        try:
            with hear_fatal_errors():
                self._producer.poll(0)
        except KafkaException as failure:
            return failure.args[0]
        return None

    def _note(self, error: Any, message: Any) -> None:
        if error is None:
            if self._on_written is not None:
                self._on_written(message.partition(), message.offset())
        else:
            self._note_failure(error, message)

    def _note_failure(self, error: Any, message: Any) -> None:
        # The first is the cause; what follows it in the queue is only purged.
        if error is not None and self._failed is None:
            self._failed = (error, f"{message.topic()}-{message.partition()}")

    def _check(self) -> None:
        if self._failed is not None:
            error, spot = self._failed
            raise ProducerFailure(error, spot=spot)


def _build_late(words: str) -> Any:
    from confluent_kafka import KafkaError  # noqa: PLC0415

    return KafkaError(KafkaError._MSG_TIMED_OUT, words)  # noqa: SLF001
