"""Reading a partition, with a consumer that says what it is told to."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException

from seamark.errors import AuthorizationError, DeadlineError, NotFoundError, RejectedError, UnreachableError
from seamark.kafka import log as module
from seamark.kafka.log import PartitionLog

CONFIG = {"bootstrap.servers": "127.0.0.1:1"}


def record(offset, key=b"k", headers=None, *, kind=TIMESTAMP_CREATE_TIME):
    return SimpleNamespace(
        error=lambda: None,
        offset=lambda: offset,
        key=lambda: key,
        value=lambda: b"v",
        headers=lambda: headers,
        timestamp=lambda: (kind, 1000 + offset),
        leader_epoch=lambda: 7,
    )


def event(code, offset=-1001):
    return SimpleNamespace(error=lambda: KafkaError(code), offset=lambda: offset)


END = KafkaError._PARTITION_EOF


class FakeConsumer:
    """Hands out what it was given, then nothing."""

    def __init__(self, said=(), *, bounds=(0, 4), trouble=None):
        self.said, self.bounds, self.trouble = list(said), bounds, trouble
        self.assigned = []
        self.settings = []

    def build(self, settings):
        self.settings.append(settings)
        return self

    def list_topics(self, topic, timeout):
        return None

    def get_watermark_offsets(self, spot, timeout):
        if self.trouble:
            raise KafkaException(KafkaError(self.trouble))
        return self.bounds

    def assign(self, spots):
        self.assigned.append(spots[0].offset)

    def unassign(self):
        self.assigned.append(None)

    def poll(self, timeout):
        if self.said:
            return self.said.pop(0)
        time.sleep(min(timeout, 0.01))
        return None

    def close(self):
        return None


def open_log(consumer, **options):
    return PartitionLog(CONFIG, "heads", build_consumer=consumer.build, **options)


def test_records_are_read_up_to_the_end_that_was_asked():
    consumer = FakeConsumer([record(0), record(1, headers=[("a", b"1"), ("a", b"2"), ("b", None)]), record(3)])
    found = list(open_log(consumer).read())
    assert [(one.offset, one.timestamp_ms) for one in found] == [(0, 1000), (1, 1001), (3, 1003)]
    assert found[1].headers == {"a": b"2", "b": b""}
    # It does not go on asking when it has what it wanted.
    assert consumer.assigned == [0, None]
    assert [settings["isolation.level"] for settings in consumer.settings] == ["read_uncommitted", "read_committed"]


@pytest.mark.parametrize(
    ("kind", "is_append_time"), [(TIMESTAMP_LOG_APPEND_TIME, True), (TIMESTAMP_CREATE_TIME, False)]
)
def test_a_record_says_whose_time_it_carries_and_under_which_leader(kind, is_append_time):
    (found,) = open_log(FakeConsumer([record(0, kind=kind)], bounds=(0, 1))).read()
    assert (found.is_append_time, found.leader_epoch, found.timestamp_ms) == (is_append_time, 7, 1000)


def test_end_behind_a_marker_is_seen_by_the_empty_fetch():
    consumer = FakeConsumer([record(0), event(END, 2), record(2), event(END, 4)])
    assert [one.offset for one in open_log(consumer).read()] == [0, 2]


def test_record_behind_the_end_is_not_given():
    consumer = FakeConsumer([record(0), record(9)])
    assert [one.offset for one in open_log(consumer).read(0, 4)] == [0]


def test_empty_range_asks_nobody():
    consumer = FakeConsumer(bounds=(4, 4))
    assert list(open_log(consumer).read()) == []
    assert consumer.assigned == []


def test_being_denied_the_group_that_nobody_uses_is_no_failure():
    consumer = FakeConsumer([event(KafkaError.GROUP_AUTHORIZATION_FAILED), record(0), event(END, 4)])
    assert [one.offset for one in open_log(consumer).read()] == [0]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, AuthorizationError),
        (KafkaError._AUTO_OFFSET_RESET, RejectedError),
        (KafkaError._BAD_MSG, RejectedError),
    ],
)
def test_other_errors_are_raised(code, kind):
    with pytest.raises(kind, match="heads"):
        list(open_log(FakeConsumer([record(0), event(code)])).read())


def test_end_that_does_not_come_is_an_error_that_says_where_it_stopped():
    consumer = FakeConsumer([record(0), event(END, 1)])
    with pytest.raises(DeadlineError) as caught:
        list(open_log(consumer, patience_seconds=0.1).read())
    assert "offset 1 of 4" in caught.value.cause


def test_topic_that_is_not_there_is_looked_for_a_little_while(monkeypatch):
    monkeypatch.setattr(module, "_NEW_TOPIC_SECONDS", 0.2)
    begun = time.monotonic()
    with pytest.raises(NotFoundError):
        open_log(FakeConsumer(trouble=KafkaError.UNKNOWN_TOPIC_OR_PART)).read_bounds()
    assert 0.1 < time.monotonic() - begun < 2


class Forgetful(FakeConsumer):
    """Has just learnt that the leader is gone, once."""

    def get_watermark_offsets(self, spot, timeout):
        try:
            return super().get_watermark_offsets(spot, timeout)
        finally:
            self.trouble = None


def test_leader_that_has_just_gone_is_asked_for_again():
    assert open_log(Forgetful(trouble=KafkaError._DESTROY_BROKER)).read_bounds() == (0, 4)


def test_leader_that_stays_away_is_unreachable_in_time(monkeypatch):
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 0.2)
    begun = time.monotonic()
    with pytest.raises(UnreachableError):
        open_log(FakeConsumer(trouble=KafkaError._DESTROY_BROKER)).read_bounds()
    assert 0.1 < time.monotonic() - begun < 2


def test_brokers_that_are_not_there_are_unreachable_in_time(monkeypatch, free_port, capfd):
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 0.5)
    begun = time.monotonic()
    with (
        PartitionLog({"bootstrap.servers": f"127.0.0.1:{free_port}"}, "heads") as log,
        pytest.raises(UnreachableError) as caught,
    ):
        log.read_bounds()
    assert time.monotonic() - begun < 5
    assert "heads" in caught.value.message
    assert capfd.readouterr().err == ""
