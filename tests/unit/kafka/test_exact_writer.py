"""Records written one after the other, with a producer that fails on demand; and a holder of an id kept out."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from seamark.errors import (
    AccessError,
    AuthorizationError,
    DeadlineError,
    JournalError,
    NotFoundError,
    RejectedError,
    UnknownOutcomeError,
    UnreachableError,
)
from seamark.kafka.produce import Outgoing
from seamark.kafka.transaction import ExactWriter, fence_producer

CONFIG = {"bootstrap.servers": "127.0.0.1:1", "acks": "1", "enable.idempotence": "false", "sasl.password": "canary-7"}
# What a producer reports of a record that was written.
DONE = object()
KEY = b'["orders",{"table":"t"}]'


def records(count):
    return [
        Outgoing("connect-offsets", key=KEY, value=b'{"n":%d}' % number if number else None, partition=number)
        for number in range(count)
    ]


class FakeProducer:
    """Takes records, and reports of each what it was told to, at the next poll; None says nothing ever."""

    def __init__(self, *reports):
        self.reports = list(reports)
        self.taken, self.waiting, self.order = [], [], []
        self.settings = {}

    def build(self, settings):
        self.settings = settings
        return self

    def produce(self, topic, *, key, value, headers, partition, on_delivery):
        self.order.append(f"produce {partition}")
        report = self.reports.pop(0) if self.reports else DONE
        if isinstance(report, KafkaException):
            raise report
        self.taken.append((topic, partition, key, value, headers))
        if report is not None:
            self.waiting.append((on_delivery, None if report is DONE else report, partition))

    def poll(self, timeout):
        for on_delivery, error, partition in self.waiting:
            self.order.append(f"report {partition}")
            on_delivery(error, object())
        self.waiting = []

    def purge(self, **options):
        self.order.append("purge")


def error(code, text="the brokers said so"):
    return KafkaError(code, text)


def write(producer, count=3, *, seconds=5.0):
    with ExactWriter(CONFIG, timeout_seconds=seconds, build_producer=producer.build) as writer:
        writer.write(records(count))


def test_each_is_acknowledged_before_the_next_is_sent():
    producer = FakeProducer()
    write(producer)
    assert producer.order == [
        "produce 0",
        "report 0",
        "produce 1",
        "report 1",
        "produce 2",
        "report 2",
        "purge",
    ]


def test_bytes_and_places_are_as_given_and_no_value_is_a_tombstone():
    producer = FakeProducer()
    write(producer)
    assert producer.taken == [
        ("connect-offsets", 0, KEY, None, []),
        ("connect-offsets", 1, KEY, b'{"n":1}', []),
        ("connect-offsets", 2, KEY, b'{"n":2}', []),
    ]


def test_settings_that_make_it_durable_go_over_the_context():
    producer = FakeProducer()
    write(producer, seconds=7.0)
    ours = {key: producer.settings[key] for key in ("acks", "enable.idempotence", "message.timeout.ms")}
    assert ours == {"acks": "all", "enable.idempotence": True, "message.timeout.ms": 7000}


def test_nothing_to_write_is_nothing_sent():
    producer = FakeProducer()
    write(producer, 0)
    assert producer.order == ["purge"]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, NotFoundError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, AuthorizationError),
        (KafkaError._INVALID_ARG, RejectedError),
    ],
)
def test_first_that_is_refused_did_not_happen(code, kind):
    producer = FakeProducer(error(code))
    with pytest.raises(kind) as caught:
        write(producer)
    assert not isinstance(caught.value, UnknownOutcomeError)
    assert "connect-offsets-0" in caught.value.message or "connect-offsets" in str(caught.value.context)
    assert len(producer.taken) == 1


def test_later_one_that_is_refused_leaves_it_half_done():
    producer = FakeProducer(DONE, error(KafkaError.UNKNOWN_TOPIC_OR_PART))
    with pytest.raises(UnknownOutcomeError, match="1 of 3 records were written, the next was not") as caught:
        write(producer)
    assert "record 2 of 3 to connect-offsets-1" in caught.value.cause
    assert len(producer.taken) == 2


def test_nothing_is_begun_when_the_time_is_over():
    """A process that stood still in the middle of a write may have been taken over meanwhile."""
    producer = FakeProducer()
    now = [100.0]

    def poll(timeout):
        now[0] += 40
        FakeProducer.poll(producer, timeout)

    producer.poll = poll
    with (
        pytest.MonkeyPatch.context() as patch,
        ExactWriter(CONFIG, timeout_seconds=5.0, build_producer=producer.build) as writer,
    ):
        patch.setattr("seamark.kafka.transaction.read_clock", lambda: now[0])
        with pytest.raises(UnknownOutcomeError, match="2 of 3 records were written; there was no time for the rest"):
            writer.write(records(3), until=150.0)
        with pytest.raises(DeadlineError, match="0 of 3 records") as caught:
            writer.write(records(3), until=150.0)
    assert not isinstance(caught.value, UnknownOutcomeError)
    assert len(producer.taken) == 2


@pytest.mark.parametrize(
    "code", [KafkaError._MSG_TIMED_OUT, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, KafkaError.REQUEST_TIMED_OUT]
)
@pytest.mark.parametrize("before", [0, 2])
def test_what_may_have_happened_is_unknown_wherever_it_comes(code, before):
    producer = FakeProducer(*[DONE] * before, error(code))
    with pytest.raises(UnknownOutcomeError, match=f"record {before + 1} of 3"):
        write(producer)
    assert len(producer.taken) == before + 1


def test_no_report_in_time_is_unknown():
    producer = FakeProducer(None)
    with pytest.raises(UnknownOutcomeError, match=r"no answer within 0\.1 s"):
        write(producer, seconds=0.1)
    assert len(producer.taken) == 1


def test_what_the_client_itself_refuses_did_not_happen():
    producer = FakeProducer(KafkaException(error(KafkaError._INVALID_ARG)))
    with pytest.raises(RejectedError):
        write(producer)
    assert producer.taken == []


def test_writer_is_closed_also_after_a_failure():
    producer = FakeProducer(error(KafkaError._MSG_TIMED_OUT))
    with pytest.raises(UnknownOutcomeError) as caught:
        write(producer)
    assert producer.order[-1] == "purge"
    assert "canary-7" not in f"{caught.value.message} {caught.value.cause}"


class Taking:
    """A producer that only takes its id, or fails to."""

    def __init__(self, trouble=None):
        self.trouble, self.calls, self.settings = trouble, [], {}

    def build(self, settings):
        self.settings = settings
        return self

    def init_transactions(self, timeout):
        self.calls.append(timeout)
        if self.trouble is not None:
            raise KafkaException(self.trouble)

    def poll(self, timeout):
        return 0

    def purge(self, **options):
        self.calls.append("closed")


def fence(producer):
    fence_producer(CONFIG, "workers-orders-0", timeout_seconds=4.0, build_producer=producer.build)


def test_holder_is_kept_out_by_taking_its_id():
    producer = Taking()
    fence(producer)
    assert producer.settings["transactional.id"] == "workers-orders-0"
    assert producer.calls == [4.0, "closed"]


def test_denied_id_names_the_right_to_grant():
    producer = Taking(error(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    with pytest.raises(AccessError) as caught:
        fence(producer)
    assert "workers-orders-0" in caught.value.hint
    assert producer.calls[-1] == "closed"


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError._FENCED, KafkaError.COORDINATOR_NOT_AVAILABLE])
def test_holder_that_may_still_write_is_told_and_is_no_affair_of_the_journal(code):
    producer = Taking(error(code))
    with pytest.raises(UnreachableError, match="may still write") as caught:
        fence(producer)
    assert not isinstance(caught.value, JournalError)
    assert producer.calls[-1] == "closed"
