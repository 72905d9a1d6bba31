"""Reading single records with their headers, without brokers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaException

from seamark.errors import DeadlineError, NotFoundError, SeamarkError
from seamark.kafka import records
from seamark.kafka.records import RecordReader
from tests.unit.kafka.fakes import FakeError


class Message:
    """What librdkafka hands out: a record, or an event with an error."""

    def __init__(self, offset, value=b"v", *, error=None, headers=None):
        self._offset, self._value, self._error, self._headers = offset, value, error, headers

    def error(self):
        return self._error

    def topic(self):
        return "t"

    def partition(self):
        return 0

    def offset(self):
        return self._offset

    def timestamp(self):
        return 1, 77

    def key(self):
        return None

    def value(self):
        return self._value

    def headers(self):
        return self._headers


class FakeConsumer:
    """A log from `low` to `high`, handed out in the batches given."""

    def __init__(self, batches=(), *, low=0, high=10, failure=None, failures=()):
        self.batches, self.low, self.high, self.failure = list(batches), low, high, failure
        self.failures = list(failures)
        self.assigned, self.closed, self.settings = [], False, {}

    def get_watermark_offsets(self, _spot, *, timeout):
        if self.failures:
            raise KafkaException(self.failures.pop(0))
        if self.failure:
            raise KafkaException(self.failure)
        return self.low, self.high

    def list_topics(self, topic, *, timeout):
        found = SimpleNamespace(error=None, partitions={1: None, 0: None})
        gone = SimpleNamespace(error=FakeError("UNKNOWN_TOPIC_OR_PART"), partitions={})
        return SimpleNamespace(topics={"t": found, "gone": gone} if topic != "never" else {})

    def assign(self, spots):
        self.assigned = spots

    def consume(self, _count, _timeout):
        return self.batches.pop(0) if self.batches else []

    def poll(self, _timeout):
        return None

    def close(self):
        self.closed = True


def open_reader(consumer, **more):
    def build(settings):
        consumer.settings = settings
        return consumer

    return RecordReader({"bootstrap.servers": "b:1"}, build_consumer=build, **more)


def test_records_come_with_their_headers_to_where_the_log_ended():
    headers = [("a", b"1"), ("a", None)]
    consumer = FakeConsumer([[Message(3, headers=headers)], [], [Message(4, None), Message(9), Message(10)]])
    with open_reader(consumer) as reader:
        found = list(reader.read(("t", 0), 3))
    assert [record.place.offset for record in found] == [3, 4, 9]
    assert found[0].headers == (("a", b"1"), ("a", None))
    assert (found[1].value, found[1].timestamp_ms) == (None, 77)
    assert consumer.assigned[0].offset == 3
    assert consumer.closed


def test_what_was_deleted_is_passed_over_and_an_end_is_an_end():
    consumer = FakeConsumer([[Message(6), Message(7, error=FakeError("_PARTITION_EOF"))]], low=5)
    reader = open_reader(consumer)
    assert [record.place.offset for record in reader.read(("t", 0), 0)] == [6]
    assert consumer.assigned[0].offset == 5
    assert list(reader.read(("t", 0), 10)) == []


def test_sinks_isolation_is_the_readers():
    for committed, level in ((True, "read_committed"), (False, "read_uncommitted")):
        consumer = FakeConsumer()
        open_reader(consumer, committed=committed)
        assert consumer.settings["isolation.level"] == level
        assert consumer.settings["enable.auto.commit"] is False


def test_partitions_of_a_topic_that_is_not_there_are_none():
    reader = open_reader(FakeConsumer())
    assert reader.read_partitions("t") == (0, 1)
    assert reader.read_partitions("gone") == ()
    assert reader.read_partitions("never") == ()


def test_errors_are_ours():
    broken = open_reader(FakeConsumer(failure=FakeError("TOPIC_AUTHORIZATION_FAILED")))
    with pytest.raises(SeamarkError, match="read the topic t"):
        next(broken.read(("t", 0)))
    noisy = open_reader(FakeConsumer([[Message(0, error=FakeError("_MAX_POLL_EXCEEDED"))], [Message(0)]], high=1))
    assert len(list(noisy.read(("t", 0)))) == 1
    failing = open_reader(FakeConsumer([[Message(0, error=FakeError("TOPIC_AUTHORIZATION_FAILED"))]]))
    with pytest.raises(SeamarkError, match="read the topic t"):
        next(failing.read(("t", 0)))


def test_leader_that_does_not_know_a_new_partition_yet_is_asked_again():
    unknown = FakeError("UNKNOWN_TOPIC_OR_PART")
    new = FakeConsumer([[Message(0)]], high=1, failures=[unknown, unknown, unknown])
    assert len(list(open_reader(new).read(("t", 0)))) == 1
    assert new.failures == []
    # What the metadata doesn't name is asked for once.
    gone = FakeConsumer(failures=[unknown, unknown])
    with pytest.raises(NotFoundError, match="the topic gone"):
        next(open_reader(gone).read(("gone", 0)))
    assert gone.failures == [unknown]


def test_silence_has_an_end(monkeypatch):
    monkeypatch.setattr(records, "_ANSWER_SECONDS", 0.0)
    with pytest.raises(DeadlineError, match="no records arrived"):
        next(open_reader(FakeConsumer()).read(("t", 0)))
