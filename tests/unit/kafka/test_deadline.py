"""Kafka's clients around the deadline of a request: they send nothing after it, and time out at it."""

from __future__ import annotations

import pytest

from seamark.core.readings import fan_out
from seamark.core.time import Deadline, find_deadline, limit_requests, limit_timeout
from seamark.errors import DeadlineError
from seamark.kafka.groups import Committed
from seamark.kafka.transaction import ExactWriter, fence_producer
from tests.unit.kafka.fakes import FakeBrokersClient
from tests.unit.kafka.test_brokers import WRITES, FakeSecond, open_brokers
from tests.unit.kafka.test_exact_writer import CONFIG, FakeProducer, records

LATE = Deadline(100.0, lambda: 101.0)
SOON = Deadline(100.0, lambda: 99.75)
ADMIN_WRITES = (
    "create_topics",
    "delete_topics",
    "create_partitions",
    "incremental_alter_configs",
    "alter_consumer_group_offsets",
    "delete_consumer_groups",
)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_no_request_is_sent_to_the_brokers_after_the_deadline(write):
    client = FakeBrokersClient()
    for name in ADMIN_WRITES:
        setattr(client, name, lambda *_args, **_more: pytest.fail("it was sent"))

    with limit_requests(LATE), pytest.raises(DeadlineError, match="nothing was sent"):
        write(open_brokers(client))


@pytest.mark.parametrize(
    "write",
    [
        lambda brokers: brokers.alter_group_offsets("g", {("t", 0): Committed(1, metadata="m")}),
        lambda brokers: brokers.delete_group_offsets("g", [("t", 0)]),
    ],
    ids=["commit with metadata", "delete offsets"],
)
def test_no_request_of_the_second_client_is_sent_after_the_deadline(write):
    second = FakeSecond(altered={}, deleted={})
    brokers = open_brokers(FakeBrokersClient(), build_second=second.build)

    with limit_requests(LATE), pytest.raises(DeadlineError, match="nothing was sent"):
        write(brokers)

    assert not hasattr(second, "sent")
    assert not hasattr(second, "spots")


def test_no_record_is_begun_after_the_deadline():
    producer = FakeProducer()
    with ExactWriter(CONFIG, timeout_seconds=5.0, build_producer=producer.build) as writer:
        with limit_requests(LATE), pytest.raises(DeadlineError, match="nothing was sent"):
            writer.write(records(3))
        assert producer.taken == []
        writer.write(records(1))
    assert len(producer.taken) == 1


def test_no_producer_is_fenced_after_the_deadline():
    producer = FakeProducer()
    with limit_requests(LATE), pytest.raises(DeadlineError):
        fence_producer(CONFIG, "workers-orders-0", timeout_seconds=4.0, build_producer=producer.build)
    assert producer.settings == {}


def test_a_client_times_out_at_the_deadline():
    with limit_requests(SOON):
        assert limit_timeout(10.0, action="test") == pytest.approx(0.25)
    assert limit_timeout(10.0, action="test") == 10.0


@pytest.mark.parametrize("remaining", [0.0, 0.0004, 0.009])
def test_what_is_left_is_never_rounded_to_a_timeout_of_zero(remaining):
    # librdkafka takes whole milliseconds, and a message.timeout.ms of 0 for no limit.
    with limit_requests(Deadline(100.0, lambda: 100.0 - remaining)), pytest.raises(DeadlineError):
        limit_timeout(10.0, action="test")


def test_calls_in_threads_have_the_deadline_of_the_block_that_started_them():
    with limit_requests(SOON):
        found = fan_out({str(number): find_deadline for number in range(3)})
    assert list(found.results.values()) == [SOON] * 3
    assert find_deadline() is None
