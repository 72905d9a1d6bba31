"""What the journal relies on of brokers and librdkafka. Real brokers and those in memory run the same cases.

A test module makes a class of it and a fixture `kafka`, a `Kafka` with two empty topics.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import KafkaException

from seamark.errors import DeadlineError, FencedError
from seamark.kafka.log import PartitionLog
from seamark.kafka.produce import Outgoing, RecordWriter
from seamark.kafka.transaction import TransactionalWriter


@dataclass(frozen=True, slots=True)
class Kafka:
    """Brokers with a CreateTime topic and a LogAppendTime topic of one partition each.

    `prefix` is that of transactional IDs. `cleanup_seconds` is how often the brokers look for transactions that timed
    out.
    """

    config: dict[str, str]
    created: str
    appended: str
    prefix: str = "test"
    cleanup_seconds: float = 10.0
    build_producer: Callable[[dict[str, Any]], Any] | None = None
    build_consumer: Callable[[dict[str, Any]], Any] | None = None
    opened: list[Any] = field(default_factory=list)

    def open_writer(self, name: str = "id", *, transaction_seconds: float = 15.0) -> TransactionalWriter:
        """A writer under a transactional ID, not yet taken."""
        return self._keep(
            TransactionalWriter(
                self.config,
                transactional_id=f"{self.prefix}.{name}",
                transaction_seconds=transaction_seconds,
                write_seconds=15.0,
                build_producer=self.build_producer,
            )
        )

    def take(self, name: str = "id", **options: float) -> TransactionalWriter:
        """A writer that has taken its ID."""
        writer = self.open_writer(name, **options)
        writer.take()
        return writer

    def open_log(self, topic: str | None = None, *, patience_seconds: float = 30.0) -> PartitionLog:
        """A reader of a topic, by default of the CreateTime one."""
        return self._keep(
            PartitionLog(
                self.config,
                topic or self.created,
                patience_seconds=patience_seconds,
                build_consumer=self.build_consumer,
            )
        )

    def write_alone(self, value: bytes) -> int:
        """Write one record outside of any transaction; its offset."""
        writer = self._keep(RecordWriter(self.config, build_producer=self.build_producer))
        return writer.write(Outgoing(self.created, key=b"k", value=value))

    def read(self, topic: str | None = None) -> list[bytes | None]:
        """The values that a reader of committed records gets."""
        return [record.value for record in self.open_log(topic).read()]

    def build(self, value: bytes, *, topic: str | None = None, timestamp_ms: int = 0) -> Outgoing:
        """A record."""
        return Outgoing(topic or self.created, key=b"k", value=value, timestamp_ms=timestamp_ms)

    def close(self) -> None:
        """Close every client."""
        for client in self.opened:
            client.close()

    def _keep(self, client: Any) -> Any:
        self.opened.append(client)
        return client


def leave_open(writer: TransactionalWriter, record: Outgoing) -> Any:
    """Send a record and leave its transaction open; gives the producer."""
    producer = writer._producer
    producer.begin_transaction()
    producer.produce(record.topic, key=record.key, value=record.value, partition=0)
    assert producer.flush(15) == 0
    return producer


class TransactionSuite:
    """The cases."""

    def test_a_marker_takes_an_offset_and_is_not_read(self, kafka):
        writer = kafka.take()
        writer.write([kafka.build(b"one"), kafka.build(b"two")])
        writer.write([kafka.build(b"three")])
        log = kafka.open_log()
        assert [(record.offset, record.value) for record in log.read()] == [(0, b"one"), (1, b"two"), (3, b"three")]
        assert log.read_bounds() == (0, 5)

    def test_aborted_records_are_not_read(self, kafka):
        writer = kafka.take()
        writer.write([kafka.build(b"one")])
        leave_open(writer, kafka.build(b"never")).abort_transaction(15)
        writer.write([kafka.build(b"two")])
        assert kafka.read() == [b"one", b"two"]
        assert kafka.open_log().read_bounds() == (0, 6)

    def test_a_reader_waits_at_an_open_transaction(self, kafka):
        writer = kafka.take()
        writer.write([kafka.build(b"one")])
        producer = leave_open(writer, kafka.build(b"two"))
        # What came later and outside of the transaction is held back with it.
        kafka.write_alone(b"three")
        log = kafka.open_log(patience_seconds=2)
        found = []
        with pytest.raises(DeadlineError) as caught:
            found.extend(record.value for record in log.read())
        assert "transaction" in caught.value.cause
        producer.commit_transaction(15)
        assert kafka.read() == [b"one", b"two", b"three"]

    def test_taking_an_id_fences_its_holder(self, kafka):
        first = kafka.take()
        first.write([kafka.build(b"one")])
        second = kafka.take()
        with pytest.raises(FencedError):
            first.write([kafka.build(b"never")])
        # Also the next time, and whatever it calls.
        with pytest.raises(FencedError):
            first.write([kafka.build(b"never")])
        second.write([kafka.build(b"two")])
        assert kafka.read() == [b"one", b"two"]

    def test_taking_another_id_fences_nobody(self, kafka):
        first = kafka.take("one")
        kafka.take("two").write([kafka.build(b"one")])
        first.write([kafka.build(b"two")])
        assert kafka.read() == [b"one", b"two"]

    def test_taking_an_id_ends_the_transaction_that_its_holder_left_open(self, kafka):
        producer = leave_open(kafka.take(), kafka.build(b"never"))
        second = kafka.take()
        second.write([kafka.build(b"one")])
        assert kafka.read() == [b"one"]
        with pytest.raises(KafkaException) as caught:
            producer.commit_transaction(15)
        assert caught.value.args[0].fatal()
        assert kafka.read() == [b"one"]

    def test_a_transaction_that_is_open_for_too_long_is_aborted(self, kafka):
        producer = leave_open(kafka.take(transaction_seconds=1.0), kafka.build(b"never"))
        log = kafka.open_log(patience_seconds=2 * kafka.cleanup_seconds + 10)
        assert [record.value for record in log.read()] == []
        with pytest.raises(KafkaException):
            producer.commit_transaction(15)
        kafka.take().write([kafka.build(b"one")])
        assert kafka.read() == [b"one"]

    def test_a_record_has_the_time_of_its_producer_or_of_the_leader(self, kafka):
        an_hour_ago = int((time.time() - 3600) * 1000)
        records = [
            kafka.build(b"v", topic=topic, timestamp_ms=an_hour_ago) for topic in (kafka.created, kafka.appended)
        ]
        kafka.take().write(records)
        (created,) = kafka.open_log(kafka.created).read()
        (appended,) = kafka.open_log(kafka.appended).read()
        assert (created.timestamp_ms, created.is_append_time) == (an_hour_ago, False)
        assert appended.is_append_time
        assert abs(appended.timestamp_ms / 1000 - time.time()) < 300
        assert appended.leader_epoch is not None

    def test_the_first_record_from_a_time_on_is_found(self, kafka):
        now = int(time.time() * 1000)
        times = [now - 3_000_000, now - 1_000_000, now - 2_000_000]
        kafka.take().write([kafka.build(b"v", timestamp_ms=at) for at in times])
        log = kafka.open_log()
        assert log.find_offset((now - 4_000_000) / 1000) == 0
        # The first in the log, not the earliest.
        assert log.find_offset((now - 2_000_000) / 1000) == 1
        # The marker of the transaction has the time of its commit. The coordinator answers before it is written.
        deadline = time.monotonic() + 30
        while (found := log.find_offset(now / 1000)) is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert found == 3
        assert log.find_offset(now / 1000 + 600) is None

    def test_a_producer_that_never_took_its_id_writes_nothing(self, kafka):
        with pytest.raises(KafkaException):
            kafka.open_writer()._producer.begin_transaction()
        assert kafka.read() == []
