"""The producer of one task: rows by columns in, one transaction after the other, each with its control record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import Any, Protocol

from seamark.core.secrets import mask_text
from seamark.errors import AuthorizationError, FencedError, RejectedError, SeamarkError, UnreachableError
from seamark.kafka.clients import ConnectionEvents, hear_fatal_errors, open_client
from seamark.kafka.failures import IMMEDIATE, build_connection_error
from seamark.kafka_sink.control import CONTROL_TOPIC, Amount, Claim

_FENCED = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
_DENIED = {
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "WRITE and DESCRIBE on transactional IDs with the prefix seamark.sink.",
    "TOPIC_AUTHORIZATION_FAILED": "WRITE on the topic, and WRITE and READ on the control topic",
    "CLUSTER_AUTHORIZATION_FAILED": "IDEMPOTENT_WRITE on the cluster",
}
_REJECTED = {
    "MSG_SIZE_TOO_LARGE": "raise max.message.bytes of the topic, and kafka.message.max.bytes of the sink",
    "INVALID_MSG_SIZE": "raise max.message.bytes of the topic, and kafka.message.max.bytes of the sink",
    "RECORD_LIST_TOO_LARGE": "raise max.message.bytes of the topic, or lower kafka.batch.size",
    "INVALID_TIMESTAMP": "check message.timestamp.before.max.ms and message.timestamp.after.max.ms of the topic",
    "INVALID_RECORD": "add keys if the topic is compacted; check message.timestamp.after.max.ms of the topic",
    "INVALID_TRANSACTION_TIMEOUT": "set kafka.transaction.timeout.ms to no more than transaction.max.timeout.ms",
    "POLICY_VIOLATION": "check the policies that the brokers enforce",
    "UNKNOWN_TOPIC_OR_PART": "create the topic, or check the partition column",
    "_UNKNOWN_TOPIC": "create the topic, or check the topic column",
    "_UNKNOWN_PARTITION": "check the partition column: the topic has fewer partitions",
    "_INVALID_ARG": "check the columns",
}


class FailureAction(Enum):
    """What to do after a failure."""

    FENCED = "another attempt took over"
    HOPELESS = "no second try would help"
    PASSING = "a new producer may succeed"


def judge(error: Any) -> FailureAction:
    """Which kind of failure it is."""
    name = error.name()
    if name in _FENCED:
        return FailureAction.FENCED
    if name in _REJECTED or name in _DENIED or name in IMMEDIATE:
        return FailureAction.HOPELESS
    return FailureAction.PASSING


def build_late_error(error: Any, *, claim: Claim, seconds: float, more: str = "") -> SeamarkError:
    """Our error for a task whose transaction the brokers ended for its age, which to its producer is a fence."""
    return UnreachableError(
        f"the transaction of {claim} timed out",
        cause=f"it was open for more than {seconds:g} s ({error.name()})" + (f"; {more}" if more else ""),
        hint="use smaller tasks (for a copy: smaller slices), or raise kafka.transaction.timeout.ms",
        context={"kafka_error": error.name(), "job": claim.job, "task": str(claim.task)},
    )


def build_task_error(error: Any, *, claim: Claim, spot: str = "", more: str = "") -> SeamarkError:
    """Our error for a task that could not write."""
    name, cause = error.name(), mask_text(error.str())
    context = {"kafka_error": name, "job": claim.job, "task": str(claim.task)}
    where = f" to {spot}" if spot else ""
    if name in _FENCED:
        return FencedError(
            f"{claim} was fenced by another attempt, which has not finished it",
            cause=cause,
            hint="check that no other job runs under this name; Spark retries the task",
            context=context,
        )
    if name in _DENIED:
        return AuthorizationError(
            f"{claim} is not authorized to write{where}", cause=cause, hint=f"grant {_DENIED[name]}", context=context
        )
    if name in _REJECTED:
        return RejectedError(f"{claim} could not write{where}", cause=cause, hint=_REJECTED[name], context=context)
    if name in IMMEDIATE:
        return build_connection_error(error, action=f"write {claim}", subject=claim.job, was_late=False)
    return UnreachableError(
        f"{claim} could not write{where}",
        cause=f"{cause} ({name})" + (f"; {more}" if more else ""),
        hint="check the brokers, then run the job again under the same name; finished tasks are not repeated",
        context=context,
    )


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


class RowPiece(Protocol):
    """Some rows of a task's input. It may be gone through more than once."""

    @property
    def amount(self) -> Amount:
        """How much it is."""

    def rows(self) -> Iterable[tuple[str, Any, Any, Any, int | None, int | None]]:
        """Row by row: topic, key, value, headers, partition (None: by the key), timestamp in ms (None: now)."""

    def split(self, records: int) -> tuple[RowPiece, RowPiece]:
        """The first rows, and the rest."""


class ProducerFailure(Exception):  # noqa: N818 - it never leaves this package
    """The producer can't continue; the outcome of its last call may be unknown. `error` is librdkafka's."""

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
        control_topic: str,
        on_written: Callable[[int, int], None] | None = None,
        build_producer: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        from confluent_kafka import Producer  # noqa: PLC0415

        self._events = ConnectionEvents()
        self._failed: tuple[Any, str] | None = None
        self._control_topic = control_topic
        self._on_written = on_written
        ours: dict[str, Any] = {
            "transactional.id": transactional_id,
            "enable.idempotence": True,
            "acks": "all",
            # A transaction's own end is the end of all waiting.
            "message.timeout.ms": 0,
            # Java's choice for a key. librdkafka's own is another one.
            "partitioner": "murmur2_random",
            # Only a copy needs to know where records lie, and asks for the reports of some: each has its price.
            "delivery.report.only.error": on_written is None,
        }
        if on_written is None:
            ours["on_delivery"] = self._note_failure
        build = build_producer or Producer
        self._producer = open_client(config, {**DEFAULTS, **config, **ours}, build=build, on_error=self._events.record)

    def take(self) -> None:
        """Take the transactional ID. Its previous holder is fenced, and an open transaction of it is ended."""
        self._call(self._take)

    def begin(self) -> None:
        """Begin a transaction."""
        self._call(self._producer.begin_transaction)

    def produce(self, piece: RowPiece, *, deadline: float, reported: Sequence[int] = ()) -> None:
        """Hand rows to librdkafka, and wait where it has no room. The brokers may get them later.

        `on_written` gets the offsets of the `reported` rows, for each partition in their order.
        """
        self._call(lambda: self._produce(piece, deadline=deadline, reported=reported))

    def flush(self, *, deadline: float) -> None:
        """Wait until the brokers have every record."""
        self._call(lambda: self._flush(deadline))

    def commit(self, topic: str, *, partition: int, key: bytes, value: bytes, deadline: float) -> None:
        """Write a control record behind everything else, and commit."""
        self._call(lambda: self._commit(topic, partition=partition, key=key, value=value, deadline=deadline))

    def close(self) -> None:
        """Release the producer. An open transaction is ended by the next holder of the ID, or by the brokers."""
        if self._producer is not None:
            self._producer.purge(blocking=False)
            self._producer = None

    def _take(self) -> None:
        # A client without a connection repeats the lookup of its coordinator after half a second. The first answer
        # makes it drop the addresses that it was given, and the second comes from a broker that it knows. Seen on one
        # broker: three of four took 0.5 s without this, none more than 0.1 s with it.
        for _ in range(2):
            self._producer.list_topics(self._control_topic, timeout=ANSWER_SECONDS)
        self._producer.init_transactions(ANSWER_SECONDS)

    def _produce(self, piece: RowPiece, *, deadline: float, reported: Sequence[int]) -> None:
        rows, at = iter(piece.rows()), 0
        if len(reported) == piece.amount.records:
            self._hand_over(rows, self._note, deadline=deadline)
        else:
            for row in reported:
                self._hand_over(islice(rows, row - at), None, deadline=deadline)
                self._hand_over(islice(rows, 1), self._note, deadline=deadline)
                at = row + 1
            self._hand_over(rows, None, deadline=deadline)
        # Reports of failures are delivered only by a poll.
        self._producer.poll(0)
        self._check()

    def _hand_over(
        self, rows: Iterable[tuple[Any, ...]], report: Callable[..., None] | None, *, deadline: float
    ) -> None:
        produce = self._producer.produce
        for topic, key, value, headers, partition, stamp in rows:
            place = -1 if partition is None else partition
            while True:
                try:
                    # By place and not by name, which takes the client half of the time. The None is another name of
                    # the callback.
                    produce(topic, value, key, place, report, None, stamp or 0, headers)
                except BufferError:
                    self._make_room(deadline=deadline)
                else:
                    break

    def _make_room(self, *, deadline: float) -> None:
        self._producer.poll(_ROOM_SECONDS)
        self._check()
        if time.monotonic() > deadline:
            raise ProducerFailure(_build_late("the brokers accepted no more records in time"))

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
            raise ProducerFailure(_build_late(f"the brokers did not acknowledge {late} records in time"))

    def _call(self, call: Callable[[], Any]) -> None:
        from confluent_kafka import KafkaException  # noqa: PLC0415

        try:
            with hear_fatal_errors(self._producer):
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
        """Return the fatal error of librdkafka that it has not raised yet, or None. librdkafka raises it if asked."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        try:
            with hear_fatal_errors(self._producer):
                self._producer.poll(0)
        except KafkaException as failure:
            return failure.args[0]
        return None

    def _note(self, error: Any, message: Any) -> None:
        if error is not None:
            self._note_failure(error, message)
        elif self._on_written is not None:
            self._on_written(message.partition(), message.offset())

    def _note_failure(self, error: Any, message: Any) -> None:
        # The first is the cause; what follows it in the queue is only purged.
        if error is not None and self._failed is None:
            self._failed = (error, f"{message.topic()}-{message.partition()}")

    def _check(self) -> None:
        if self._failed is not None:
            error, spot = self._failed
            # Of the records that a fence has purged, only those may have been reported that tell nothing of it.
            raise ProducerFailure(error if error.fatal() else self._find_fatal() or error, spot=spot)


def _build_late(words: str) -> Any:
    from confluent_kafka import KafkaError  # noqa: PLC0415

    return KafkaError(KafkaError._MSG_TIMED_OUT, words)  # noqa: SLF001


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """How a task writes. `client` are librdkafka's settings of the producer, `reader` those for control records.

    `is_ordered` is the caller's promise that the task, run again, gets the same rows in the same order. Then it may be
    cut into several transactions; otherwise it is one, because the rows of the second half would be undefined.
    """

    client: Mapping[str, str] = field(repr=False)
    reader: Mapping[str, str] = field(repr=False)
    control_topic: str = CONTROL_TOPIC
    # The ID of the control topic when the job began; "" where it was not read.
    control_id: str = ""
    is_ordered: bool = False
    # A few seconds of work: what a retry loses, and what a reader of committed records waits for.
    transaction_records: int = 200_000
    transaction_bytes: int = 64 << 20
    # What of a transaction is kept, to be written again after a failure. Beyond it Spark must run the task again.
    kept_bytes: int = 64 << 20
    # Whether a task that is done already compares its input with what was written.
    is_checked: bool = True

    @property
    def transaction_seconds(self) -> float:
        """How long the brokers let a transaction be open."""
        return float(self.client.get("transaction.timeout.ms", TRANSACTION_SECONDS * 1000)) / 1000


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What became of a task. `is_repeat`: all of it was there already. `run` is the one that its record names."""

    claim: Claim
    amount: Amount
    transactions: int = 0
    is_repeat: bool = False
    run: str = ""
