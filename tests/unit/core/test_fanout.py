"""Asking many at once."""

import threading

import pytest

from seamark.core.readings import MAX_THREADS, fan_out
from seamark.errors import UnreachableError


def test_results_keep_the_order_of_the_calls_not_of_the_answers():
    late = threading.Event()

    def answer_last():
        assert late.wait(timeout=10)
        return "late"

    answers = fan_out({"a": answer_last, "b": lambda: late.set() or "early"})
    assert list(answers.results.items()) == [("a", "late"), ("b", "early")]


def test_failures_are_kept_by_name_and_do_not_stop_the_others():
    error = UnreachableError("nobody there")

    def fail():
        raise error

    answers = fan_out({"bad": fail, "good": lambda: 1})
    assert answers.failures == {"bad": error}
    assert answers.results == {"good": 1}


def test_an_answer_of_none_is_an_answer():
    assert fan_out({"a": lambda: None}).results == {"a": None}


def test_never_more_threads_than_the_limit():
    running, most, lock = 0, 0, threading.Lock()
    full = threading.Barrier(MAX_THREADS)

    def work():
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        full.wait(timeout=10)
        with lock:
            running -= 1

    answers = fan_out({str(number): work for number in range(MAX_THREADS * 3)})
    assert len(answers.results) == MAX_THREADS * 3
    assert most <= MAX_THREADS


def test_a_bug_is_raised_not_kept():
    def bug():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fan_out({"a": bug, "b": lambda: 1})


def test_no_calls_give_nothing():
    answers = fan_out({})
    assert (answers.results, answers.failures) == ({}, {})
