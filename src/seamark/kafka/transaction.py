"""Writing records in short transactions, under a transactional.id that one process at a time can hold.

Whoever calls `take` last holds the id; the brokers refuse every later write of an earlier holder ("fenced").
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from seamark.errors import AuthorizationError, FencedError, JournalError, SeamarkError
from seamark.kafka.opening import open_client
from seamark.kafka.produce import Outgoing, produce
from seamark.kafka.wait import ConnectionEvents
from seamark.model.sensitive import mask_text

# An entry is written in some 50 ms. Ten seconds outlast the loss of a broker (its session ends after 9 s), and are the
# longest that a dead writer holds up the readers.
TRANSACTION_SECONDS = 10.0
# The records' own deadline comes before the transaction's, so that a failure is a fact and not only late.
_MARGIN_SECONDS = 2.0
# Aborting is a courtesy to the readers: the brokers do it too, later.
_ABORT_SECONDS = 3.0
# A producer that asks for its coordinator before its first connection stands asks again after 500 ms. Seen on three
# brokers: 100 ms and one answered metadata request after its start, taking the id needs 10 ms; before, up to 1.05 s.
_SETTLE_SECONDS = 0.12
_FENCED = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
_HINT = "check that the brokers run and that enough replicas are in sync"
_DENIED = {
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "WRITE and DESCRIBE on the transactional id",
    "TOPIC_AUTHORIZATION_FAILED": "WRITE on the journal's topics and the transactional id",
    "CLUSTER_AUTHORIZATION_FAILED": "IDEMPOTENT_WRITE on the cluster and WRITE on the transactional id",
}


class TransactionalWriter:
    """A producer with a transactional.id. After any error it is dead: what it did last may be unknown."""

    def __init__(
        self,
        config: Mapping[str, str],
        *,
        transactional_id: str,
        transaction_seconds: float = TRANSACTION_SECONDS,
        build_producer: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        from confluent_kafka import Producer  # noqa: PLC0415

        self.transactional_id = transactional_id
        self._seconds = transaction_seconds
        self._events = ConnectionEvents()
        self._opened_at = time.monotonic()
        ours = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": int(transaction_seconds * 1000),
            "message.timeout.ms": int((transaction_seconds - _MARGIN_SECONDS) * 1000),
            "acks": "all",
            "linger.ms": 0,
        }
        self._producer = open_client(config, ours, build=build_producer or Producer, on_error=self._events.record)

    def __repr__(self) -> str:
        return f"TransactionalWriter({self.transactional_id!r})"

    def connect(self, topics: Sequence[str]) -> None:
        """Make the connections and learn where the topics are led. Taking the id is then a matter of milliseconds."""
        with self._translated("connect to the brokers to write the journal"):
            for topic in topics:
                self._producer.list_topics(topic, timeout=self._seconds)
        time.sleep(max(0.0, self._opened_at + _SETTLE_SECONDS - time.monotonic()))

    def take(self) -> None:
        """Take the transactional.id. Its earlier holder is fenced, and a transaction it left open is ended."""
        with self._translated(f"take the transactional id {self.transactional_id}"):
            self._producer.init_transactions(self._seconds)

    def write(self, records: Sequence[Outgoing]) -> None:
        """Write all of them or none, in one transaction; they are durable when this returns.

        Raises:
            FencedError: somebody else has taken the id.
            JournalError: they are not written, or it is unknown; the message says which.
        """
        action = f"write to the topic {records[0].topic}"
        deadline = time.monotonic() + self._seconds
        with self._translated(action, known="nothing is written"):
            self._producer.begin_transaction()
            for record in records:
                produce(self._producer, record)
            late = self._producer.flush(self._seconds)
        if late:
            raise self._build_late(action, late=late)
        # Records that could not be delivered make the commit fail before it is sent.
        with self._translated(action, known="it is unknown whether it is written"):
            self._producer.commit_transaction(max(1.0, deadline - time.monotonic()))

    def close(self) -> None:
        """Let go of the connections. A transaction in hand is left to the brokers, who abort it."""
        if self._producer is not None:
            self._producer.purge(blocking=False)
            self._producer = None

    @contextmanager
    def _translated(self, action: str, *, known: str = "") -> Iterator[None]:
        """Turn an error of librdkafka into ours; `known` is what is known of the records if nothing says more."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        try:
            yield
        except BufferError:
            raise JournalError(
                f"could not {action}: nothing is written", cause="the records do not fit into the client's queue"
            ) from None
        except KafkaException as failure:
            error = failure.args[0]
            with suppress(KafkaException):
                # What the connections said comes only when somebody polls.
                self._producer.poll(0)
            if error.txn_requires_abort():
                error, known = self._abort(error), "nothing is written"
            raise build_write_error(
                error,
                action=f"{action}: {known}" if known else action,
                transactional_id=self.transactional_id,
                last_event=self._events.last,
            ) from None

    def _build_late(self, action: str, *, late: int) -> SeamarkError:
        self._abort(None)
        last = self._events.last
        return JournalError(
            f"could not {action}: nothing is written",
            cause=f"{late} records were not taken within {self._seconds:g} s"
            + (f"; {mask_text(last.str())}" if last else ""),
            hint=_HINT,
            context={"transactional_id": self.transactional_id},
        )

    def _abort(self, error: Any) -> Any:
        """Abort the transaction. Gives the error that says the most of why."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        try:
            self._producer.abort_transaction(_ABORT_SECONDS)
        except KafkaException as failure:
            if failure.args[0].name() in _FENCED:
                return failure.args[0]
        return error


def build_write_error(error: Any, *, action: str, transactional_id: str, last_event: Any = None) -> SeamarkError:
    """Our error for a failed write."""
    name, said = error.name(), mask_text(error.str())
    context = {"kafka_error": name, "transactional_id": transactional_id}
    if name in _FENCED:
        return FencedError(
            f"the transactional id {transactional_id} has been taken by somebody else",
            cause=said,
            hint="see who holds it now: seamark journal list --open",
            context=context,
        )
    if name in _DENIED:
        return AuthorizationError(
            f"not allowed to {action}",
            cause=said,
            hint=f"grant {_DENIED[name]} {transactional_id} to the principal of this context",
            context=context,
        )
    more = f"; {mask_text(last_event.str())}" if last_event is not None else ""
    return JournalError(
        f"could not {action}",
        cause=f"{said}{more}",
        hint=_HINT,
        context=context,
    )
