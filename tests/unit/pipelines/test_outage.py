"""Outages: what is waited for, and how long."""

from __future__ import annotations

import pytest

from seamark.errors import DeadlineError, FencedError, RejectedError, UnreachableError
from seamark.pipelines.binding import Outage, RetryWait, describe_error, is_ours, is_passing


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (UnreachableError("the database does not answer"), True),
        (DeadlineError("too late"), True),
        (RejectedError("no such column"), False),
        (FencedError("another run has claimed it"), False),
        (RuntimeError("…PythonException: seamark.errors.UnreachableError: the database broke off\n at …"), True),
        (RuntimeError("seamark.errors.RejectedError: a record can't be a row"), False),
        (RuntimeError("Caused by: org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms"), True),
        (RuntimeError("org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized"), False),
        (RuntimeError("java.net.ConnectException: Connection refused"), True),
        (RuntimeError("java.lang.OutOfMemoryError"), False),
    ],
)
def test_only_what_can_not_be_reached_passes(error, passes):
    assert is_passing(error) is passes


def test_pauses_double_up_to_a_minute_and_begin_anew_after_work():
    clock = Clock()
    outage = Outage(clock=clock)
    error = UnreachableError("the database does not answer")
    waits = [outage.plan(error) for _ in range(8)]
    assert [wait.seconds for wait in waits] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert waits[2] == RetryWait(4, 3, "the database does not answer")
    outage.end()
    assert outage.plan(error).seconds == 1


def test_patience_is_for_one_outage():
    clock = Clock()
    outage = Outage(patience_seconds=300, clock=clock)
    error = UnreachableError("x")
    assert outage.plan(error) is not None
    clock.now += 299
    assert outage.plan(error) is not None
    clock.now += 1
    assert outage.plan(error) is None
    outage.end()
    assert outage.plan(error) is not None


def test_error_that_does_not_pass_is_not_waited_for():
    assert Outage(clock=Clock()).plan(RejectedError("no such column")) is None


def test_reason_of_spark_is_its_line():
    text = "[FOREACH] …\nTraceback\nseamark.errors.UnreachableError: the database broke off\n  at org.apache…"
    wait = Outage(clock=Clock()).plan(RuntimeError(text))
    assert wait.reason == "the database broke off"


def test_error_of_a_task_is_described_by_its_own_message():
    text = (
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        "seamark.errors.AuthorizationError: not authorized to write to table orders\n"
        "  cause: permission denied for table orders\n  hint: run GRANT"
    )
    assert describe_error(RuntimeError(text)) == (
        "not authorized to write to table orders: permission denied for table orders"
    )
    assert is_ours(RuntimeError(text))
    assert not is_ours(RuntimeError("Job aborted"))
