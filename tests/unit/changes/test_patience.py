"""What a rebalance hides is asked for again, and nothing else is."""

from __future__ import annotations

import pytest

from seamark.changes.timing import PLAN_SECONDS, REBALANCE_SECONDS, plan_patiently, retry_while
from seamark.errors import DeadlineError, RefusedError, UnreachableError, UnsettledError


class Clock:
    def __init__(self):
        self.time = 0.0

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.time += seconds


class Answers:
    """Fails so many times, then tells."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.asked = 0

    def __call__(self):
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return "told"


def test_it_is_asked_again_until_it_is_told():
    answers = Answers(UnsettledError("a rebalance"), UnreachableError("busy"))
    assert retry_while(answers, Clock(), seconds=10) == "told"
    assert answers.asked == 3


def test_the_last_answer_is_raised_when_the_time_is_over():
    answers = Answers(*(UnsettledError(f"rebalance {number}") for number in range(100)))
    with pytest.raises(UnsettledError, match="rebalance 20"):
        retry_while(answers, Clock(), seconds=10, every_seconds=0.5)


@pytest.mark.parametrize("error", [RefusedError("no"), UnreachableError("nobody answers")])
def test_what_asking_does_not_mend_is_raised_at_once(error):
    answers = Answers(error)
    with pytest.raises(type(error)):
        retry_while(answers, Clock(), seconds=10, on=UnsettledError)
    assert answers.asked == 1


def test_plan_waits_for_a_rebalance_longer_than_for_an_unknown_state():
    """A request that was not ready in time is read again for a minute, a state that can't be told for 20 s."""
    for error, seconds in (
        (DeadlineError("not ready"), REBALANCE_SECONDS),
        (UnsettledError("UNASSIGNED"), PLAN_SECONDS),
    ):
        clock = Clock()
        with pytest.raises(type(error)):
            plan_patiently(raising(error), clock)
        assert seconds <= clock.now() < seconds + 1


def test_plan_does_not_wait_for_a_cluster_that_does_not_answer():
    clock = Clock()
    with pytest.raises(UnreachableError):
        plan_patiently(raising(UnreachableError("connection refused")), clock)
    assert clock.now() == 0


def raising(error):
    def ask():
        raise error

    return ask
