"""What is read of the workers of a Connect cluster between two groups of changes."""

from __future__ import annotations

import pytest

from seamark.connect.model import ConnectorStatus, State, Task
from seamark.connectors.workers import build_group_reading

LOADS = {"http://w1:8083/": frozenset({"a"}), "http://w2:8083/": frozenset()}


def status(state=State.RUNNING, *tasks, worker="w1:8083"):
    return ConnectorStatus(state, worker, tasks=tuple(Task(n, found, worker) for n, found in enumerate(tasks)))


def test_running_paused_failed_and_stopped_connectors_on_members_are_stable():
    statuses = {
        "a": status(State.RUNNING, State.RUNNING, State.FAILED),
        "b": status(State.PAUSED, State.PAUSED),
        "c": status(State.STOPPED, worker="gone:8083"),
        "d": status(State.FAILED, worker="gone:8083"),
    }
    assert build_group_reading(statuses, LOADS).problem == ""


@pytest.mark.parametrize("state", [State.UNASSIGNED, State.RESTARTING])
def test_what_moves_is_a_problem(state):
    reading = build_group_reading({"a": status(State.RUNNING, State.RUNNING, state)}, LOADS)
    assert reading.problem == f"not assigned or restarting: a (task 1 {state})"
    assert (
        build_group_reading({"a": status(state)}, None).problem == f"not assigned or restarting: a (connector {state})"
    )


@pytest.mark.parametrize("state", [State.RUNNING, State.PAUSED])
def test_tasks_of_a_worker_that_left_the_group_are_a_problem(state):
    reading = build_group_reading({"a": status(State.RUNNING, state, worker="gone:8083")}, LOADS)
    assert reading.problem == "not in the worker group: gone:8083"


@pytest.mark.parametrize("url", ["http://fe80::1:8083", "http://w3[:8083", "http://w3:port"])
def test_a_member_without_a_valid_address_is_no_problem_and_hides_none(url):
    loads = LOADS | {url: frozenset({"b"})}
    assert build_group_reading({"a": status(State.RUNNING, State.RUNNING)}, loads).problem == ""
    lost = build_group_reading({"a": status(State.RUNNING, State.RUNNING, worker="w3:8083")}, loads)
    assert lost.problem == "not in the worker group: w3:8083"


def test_without_the_group_only_the_states_count():
    assert build_group_reading({"a": status(worker="gone:8083")}, None).problem == ""
    assert build_group_reading({"a": status(worker="gone:8083")}, {"connect-1-abc": frozenset()}).problem == ""


def test_every_move_changes_the_state():
    before = build_group_reading({"a": status(State.RUNNING, State.RUNNING)}, LOADS)
    assert before == build_group_reading({"a": status(State.RUNNING, State.RUNNING)}, dict(LOADS))
    others = [
        build_group_reading({"a": status(State.RUNNING, State.RUNNING, State.RUNNING)}, LOADS),
        build_group_reading({"a": status(State.RUNNING, State.FAILED)}, LOADS),
        build_group_reading({"a": status(State.RUNNING, State.RUNNING, worker="w2:8083")}, LOADS),
        build_group_reading({"a": status(State.RUNNING, State.RUNNING), "b": status()}, LOADS),
        build_group_reading({"a": status(State.RUNNING, State.RUNNING)}, LOADS | {"http://w2:8083/": frozenset("b")}),
        build_group_reading({"a": status(State.RUNNING, State.RUNNING)}, {"http://w1:8083/": frozenset("a")}),
    ]
    assert all(one != before for one in others)
