"""Writing records in short transactions, under a transactional.id that one process at a time can hold.

The last caller of `take` holds the ID; the brokers refuse every later write of an earlier holder ("fenced").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

from seamark.core.secrets import mask_text
from seamark.core.time import check_deadline, limit_timeout, read_clock
from seamark.errors import (
    AccessError,
    AuthorizationError,
    DeadlineError,
    FencedError,
    JournalError,
    SeamarkError,
    UnknownOutcomeError,
    UnreachableError,
)
from seamark.kafka.clients import ConnectionEvents, hear_fatal_errors, open_client
from seamark.kafka.failures import build_no_answer, build_write_failure
from seamark.kafka.log import Clocks
from seamark.kafka.model import HeldRecord
from seamark.kafka.produce import Delivery, Outgoing, produce


class ExactWriter(Delivery):
    """Writes records in their order, each acknowledged by all in-sync replicas before the next is sent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, records: Sequence[Outgoing], *, until: float | None = None) -> None:
        """Write them. None is begun after `until`, a time of `read_clock`: a process that was stopped may be fenced.

        The first one is not begun after the deadline of the request either.

        Raises:
            UnknownOutcomeError: some may be there.
            SeamarkError: none is.
        """
        for number, record in enumerate(records):
            action = f"write record {number + 1} of {len(records)} to {record.topic}-{record.partition}"
            if until is not None and read_clock() > until:
                raise _build_late(number, len(records), record.topic)
            if number == 0:
                check_deadline(action)
            error, message = self.deliver(record)
            if error is None and message is not None:
                continue
            failure = (
                build_no_answer(action=action, subject=record.topic, seconds=self._timeout_seconds)
                if error is None
                else build_write_failure(
                    error, action=action, subject=record.topic, operation="WRITE", last_event=self._events.last
                )
            )
            if number == 0 or isinstance(failure, UnknownOutcomeError):
                raise failure
            raise UnknownOutcomeError(
                f"{number} of {len(records)} records were written, the next was not",
                cause=f"{failure.message}: {failure.cause}",
                hint=failure.hint,
                context={"topic": record.topic},
            )


def write_records(
    config: Mapping[str, str], records: Sequence[HeldRecord], *, timeout_seconds: float, until: float | None = None
) -> None:
    """Write records of an offsets topic, to the byte, by a writer of their own; none is begun after `until`."""
    outgoing = [Outgoing(one.topic, key=one.key, value=one.value, partition=one.partition) for one in records]
    # The producer sends a record at any time until its timeout.
    timeout_seconds = limit_timeout(timeout_seconds, action="write records of an offsets topic")
    with ExactWriter(config, timeout_seconds=timeout_seconds) as writer:
        writer.write(outgoing, until=until)


def _build_late(written: int, count: int, topic: str) -> SeamarkError:
    kind = UnknownOutcomeError if written else DeadlineError
    return kind(
        f"{written} of {count} records were written; there was no time for the rest",
        cause="the brokers are slow, or this process was suspended",
        hint="set a longer in_flight_timeout in the context",
        context={"topic": topic},
    )


# An entry is written in some 50 ms, but right behind the loss of a broker in 6 to 12 s: its session (9 s) must end, and
# others must take its partitions and transactions. The brokers give up a transaction that is open for longer than this,
# and with it the writer (seen with 10 s: 2 of 96 writes). It also is what a dead writer holds up the readers for, until
# the brokers' next look.
TRANSACTION_SECONDS = 15.0
# The end of all tries: a transaction and then some.
WRITE_SECONDS = 25.0
# Aborting is a courtesy to the readers, and what a second try needs: the brokers do it too, later.
_ABORT_SECONDS = 4.0
# A producer that asks for its coordinator before its first connection stands asks again after 500 ms. Seen on three
# brokers: 100 ms and one answered metadata request after its start, taking the id needs 10 ms; before, up to 1.05 s.
_SETTLE_SECONDS = 0.12
_FENCED = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
_DENIED = {
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "WRITE and DESCRIBE on the transactional id",
    "TOPIC_AUTHORIZATION_FAILED": "WRITE on the journal's topics and the transactional id",
    "CLUSTER_AUTHORIZATION_FAILED": "IDEMPOTENT_WRITE on the cluster and WRITE on the transactional id",
}

# Brokers refuse a record of the future since Kafka 4.0: message.timestamp.after.max.ms is 1 hour by default.
_FUTURE = "INVALID_TIMESTAMP"
# The brokers refuse the same record again. Seen in the simulation: a process whose clock was a day ahead made a new
# transaction every few milliseconds, until the end of its time.
_PERMANENT = frozenset(
    {*_DENIED, _FUTURE, "INVALID_RECORD", "MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "POLICY_VIOLATION"}
)


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a transaction failed. `is_known`: nothing of it is or will be written."""

    error: Any
    is_known: bool


class TransactionalWriter:
    """A producer with a transactional.id. After any error it is dead: what it did last may be unknown."""

    def __init__(
        self,
        config: Mapping[str, str],
        *,
        transactional_id: str,
        transaction_seconds: float = TRANSACTION_SECONDS,
        write_seconds: float = WRITE_SECONDS,
        build_producer: Callable[[dict[str, Any]], Any] | None = None,
        clocks: Clocks | None = None,
    ) -> None:
        from confluent_kafka import Producer  # noqa: PLC0415

        self.transactional_id = transactional_id
        self._write_seconds = write_seconds
        self._events = ConnectionEvents()
        self._clocks = clocks or Clocks()
        self._opened_at = self._clocks.now()
        ours = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": int(transaction_seconds * 1000),
            # Our own deadline ends the waiting. A record that timed out before the transaction's coordinator is found
            # again would leave a producer that can only be thrown away.
            "message.timeout.ms": 0,
            # A dead coordinator comes back on another broker within seconds; ten, the default, are too long to wait.
            "reconnect.backoff.max.ms": 1000,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 0,
        }
        self._producer = open_client(config, ours, build=build_producer or Producer, on_error=self._events.record)

    def __repr__(self) -> str:
        return f"TransactionalWriter({self.transactional_id!r})"

    def connect(self, topics: Sequence[str]) -> None:
        """Make the connections and learn where the topics are led. Taking the id is then a matter of milliseconds."""
        for topic in topics:
            self._call("connect to the brokers", partial(self._producer.list_topics, topic, self._write_seconds))
        self._clocks.sleep(max(0.0, self._opened_at + _SETTLE_SECONDS - self._clocks.now()))

    def take(self) -> None:
        """Take the transactional.id. Its earlier holder is fenced, and a transaction it left open is ended."""
        action = f"acquire the transactional ID {self.transactional_id}"
        self._call(action, partial(self._producer.init_transactions, self._write_seconds))

    def write(self, records: Sequence[Outgoing], *, deadline: float | None = None) -> None:
        """Write all of them or none, in one transaction; they are durable when this returns.

        What surely was not written is tried again, until the deadline (a time of `Clocks.now`), unless the brokers
        refuse it permanently.

        Raises:
            FencedError: another process has taken the ID.
            JournalError: they are not written, or it is unknown; the message says which.
        """
        deadline = deadline or self._clocks.now() + self._write_seconds
        while (failure := self._try_write(records, deadline=deadline)) is not None:
            error, is_aborted = failure.error, False
            if failure.is_known:
                error, is_aborted = self._abort(failure.error, deadline=deadline)
            if not is_aborted or error.name() in _PERMANENT or self._clocks.now() >= deadline:
                known = "nothing is written" if failure.is_known else "it is unknown whether it is written"
                raise self._translate(error, f"write to the topic {records[0].topic}: {known}")

    def close(self) -> None:
        """Release the connections. The brokers abort an open transaction."""
        if self._producer is not None:
            self._producer.purge(blocking=False)
            self._producer = None

    def _try_write(self, records: Sequence[Outgoing], *, deadline: float) -> _Failure | None:
        from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415

        try:
            with hear_fatal_errors(self._producer):
                self._producer.begin_transaction()
                for record in records:
                    produce(self._producer, record)
                late = self._producer.flush(max(1.0, deadline - self._clocks.now()))
        except KafkaException as failure:
            return _Failure(failure.args[0], is_known=True)
        except BufferError as failure:
            return _Failure(KafkaError(KafkaError._QUEUE_FULL, str(failure)), is_known=True)  # noqa: SLF001
        if late:
            words = f"{late} records were not acknowledged by the brokers in time"
            return _Failure(KafkaError(KafkaError._MSG_TIMED_OUT, words), is_known=True)  # noqa: SLF001
        try:
            # Records that could not be delivered make this fail before anything is sent.
            with hear_fatal_errors(self._producer):
                self._producer.commit_transaction(max(1.0, deadline - self._clocks.now()))
        except KafkaException as failure:
            return _Failure(failure.args[0], is_known=failure.args[0].txn_requires_abort())
        return None

    def _abort(self, error: Any, *, deadline: float) -> tuple[Any, bool]:
        """Abort the transaction. Gives the error that says the most, and whether the writer can try again."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        if error.fatal():
            return error, False
        try:
            with hear_fatal_errors(self._producer):
                self._producer.abort_transaction(max(_ABORT_SECONDS, deadline - self._clocks.now()))
        except KafkaException as failure:
            # A fenced writer may first get the error of an old epoch; the abort shows whether the ID was taken.
            return (failure.args[0] if failure.args[0].name() in _FENCED else error), False
        return error, True

    def _call(self, action: str, call: Callable[[], Any]) -> None:
        from confluent_kafka import KafkaException  # noqa: PLC0415

        try:
            with hear_fatal_errors(self._producer):
                call()
        except KafkaException as failure:
            raise self._translate(failure.args[0], action) from None

    def _translate(self, error: Any, action: str) -> SeamarkError:
        from confluent_kafka import KafkaException  # noqa: PLC0415

        with suppress(KafkaException), hear_fatal_errors(self._producer):
            # Errors of the connections are delivered only by a poll.
            self._producer.poll(0)
        return build_write_error(
            error, action=action, transactional_id=self.transactional_id, last_event=self._events.last
        )


def build_write_error(error: Any, *, action: str, transactional_id: str, last_event: Any = None) -> SeamarkError:
    """Our error for a failed write."""
    name, said = error.name(), mask_text(error.str())
    context = {"kafka_error": name, "transactional_id": transactional_id}
    if name in _FENCED:
        return FencedError(
            f"another process acquired the transactional ID {transactional_id}",
            cause=said,
            hint="show its holder: seamark journal list --state open",
            context=context,
        )
    if name in _DENIED:
        return AuthorizationError(
            f"not allowed to {action}",
            cause=said,
            hint=f"grant {_DENIED[name]} {transactional_id} to the principal of this context",
            context=context,
        )
    if name == _FUTURE:
        return JournalError(
            f"could not {action}",
            cause=said,
            hint="correct the clock of this machine: the brokers reject records with future timestamps",
            context=context,
        )
    more = f"; {mask_text(last_event.str())}" if last_event is not None else ""
    return JournalError(
        f"could not {action}",
        cause=f"{said}{more}",
        hint="check that the brokers run and that enough replicas are in sync",
        context=context,
    )


def fence_producer(
    config: Mapping[str, str],
    transactional_id: str,
    *,
    timeout_seconds: float,
    build_producer: Callable[[dict[str, Any]], Any] | None = None,
) -> None:
    """Take a transactional.id: its previous holder can't write any more, and its open transaction is aborted.

    Raises:
        AccessError: the brokers do not let us.
        UnreachableError: it may still write.
        DeadlineError: the deadline of the request has passed; nothing was sent.
    """
    timeout_seconds = limit_timeout(timeout_seconds, action=f"acquire the transactional ID {transactional_id}")
    writer = TransactionalWriter(
        config, transactional_id=transactional_id, write_seconds=timeout_seconds, build_producer=build_producer
    )
    try:
        writer.take()
    except AccessError:
        raise
    except SeamarkError as error:
        # Not the journal's error, whose own transactions these are not: nothing was changed, and the holder may write.
        raise UnreachableError(
            f"could not acquire the transactional ID {transactional_id}: its holder may still write",
            cause=error.cause or error.message,
            hint="check that the brokers run, then try again",
            context={"transactional_id": transactional_id},
        ) from error
    finally:
        writer.close()
