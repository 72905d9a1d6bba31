"""The brokers in memory, held to the cases that real ones run in tests/integration/kafka/test_transactions.py."""

from __future__ import annotations

import time

import pytest

from seamark.errors import FencedError, JournalError
from tests.fakes.kafka.brokers import Line, MemoryBrokers, NoAnswer, Request
from tests.fakes.kafka.transaction_suite import Kafka, TransactionSuite, leave_open

CONFIG = {"bootstrap.servers": "memory:9092"}


def build_kafka(brokers, line=None, **options):
    line = line or Line()
    return Kafka(
        CONFIG,
        "created",
        "appended",
        build_producer=brokers.build_producer(line),
        build_consumer=brokers.build_consumer(line),
        **options,
    )


@pytest.fixture
def kafka():
    brokers = MemoryBrokers(append_time=("appended",), cleanup_seconds=0.2)
    kafka = build_kafka(brokers, cleanup_seconds=0.2)
    yield kafka
    kafka.close()


class TestTransactions(TransactionSuite):
    """The cases."""


class LossyLine(Line):
    """Loses the answers to some requests, which are carried out."""

    def __init__(self, *lost):
        self.lost = lost

    def send(self, request, act, *, timeout):
        answer = act()
        if request in self.lost:
            raise NoAnswer
        return answer


def test_a_commit_without_an_answer_is_unknown_and_may_be_done():
    brokers = MemoryBrokers()
    writer = build_kafka(brokers, LossyLine(Request.COMMIT)).take()
    with pytest.raises(JournalError, match="unknown whether"):
        writer.write([build_kafka(brokers).build(b"one")])
    assert build_kafka(brokers).read() == [b"one"]


def test_records_without_an_answer_are_aborted():
    brokers = MemoryBrokers()
    writer = build_kafka(brokers, LossyLine(Request.PRODUCE)).take()
    with pytest.raises(JournalError, match="nothing is written"):
        writer.write([build_kafka(brokers).build(b"never")], deadline=time.monotonic() - 1)
    assert build_kafka(brokers).read() == []


def test_a_writer_continues_after_its_transaction_timed_out_unless_its_id_was_taken():
    moment = [1000.0]
    brokers = MemoryBrokers(now=lambda: moment[0])
    kafka = build_kafka(brokers)
    for is_taken in (False, True):
        writer = kafka.take(transaction_seconds=1.0)
        leave_open(writer, kafka.build(b"never"))
        moment[0] += 100
        if is_taken:
            kafka.take()
        producer = writer._producer
        producer.produce("created", key=b"k", value=b"late", partition=0)
        producer.flush(15)
        if is_taken:
            with pytest.raises(FencedError):
                writer.write([kafka.build(b"never")])
        else:
            producer.abort_transaction(15)
            writer.write([kafka.build(b"one")])
    assert kafka.read() == [b"one"]


def test_records_of_the_future_are_refused_where_the_brokers_do_so():
    writer = build_kafka(MemoryBrokers(future_seconds=3600.0)).take()
    late = int((time.time() + 7200) * 1000)
    with pytest.raises(JournalError) as caught:
        writer.write([build_kafka(MemoryBrokers()).build(b"v", timestamp_ms=late)])
    assert "clock of this machine" in caught.value.hint
