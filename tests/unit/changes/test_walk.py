"""What a change does after a step that ended otherwise than planned, decided without a server."""

from __future__ import annotations

import pytest

from seamark.changes.plan import PlannedStep
from seamark.changes.preconditions import Expectations
from seamark.changes.run import PlanRun
from seamark.changes.step import Intent, Outcome
from seamark.connectors.run_state import AwaitRunning, SetRunState
from seamark.connectors.steps import PutConfig

STOP = SetRunState("game", "orders", "STOPPED")
RESUME = SetRunState("game", "orders", "RUNNING")
PUT = PutConfig("game", "orders", {"a": "2"})
BACK = PutConfig("game", "orders", {"a": "1"})
AWAIT = AwaitRunning("game", "orders")


def build_walk(*outcomes):
    """A lane of two steps and the fallback that restores the config, with the outcomes of the first ones."""
    tasks = (PlannedStep(0, STOP, "orders", always=False), PlannedStep(1, PUT, "orders", always=False))
    walk = PlanRun((*tasks, PlannedStep(2, BACK, "orders", always=False, fallback=True)))
    for task, outcome in zip(tasks, outcomes, strict=True):
        walk.record(task, outcome)
    return walk


@pytest.mark.parametrize(
    ("outcomes", "is_due"),
    [
        ((Outcome.DONE, Outcome.DID_NOT_HAPPEN), True),
        ((Outcome.DONE, Outcome.DONE), False),
        # Nothing was done, so there is nothing to restore.
        ((Outcome.DID_NOT_HAPPEN, Outcome.DID_NOT_HAPPEN), False),
        # A request may still land, or the state belongs to someone else.
        ((Outcome.DONE, Outcome.UNKNOWN), False),
        ((Outcome.DONE, Outcome.FOREIGN), False),
        ((Outcome.UNKNOWN, Outcome.DID_NOT_HAPPEN), False),
    ],
)
def test_fallback_runs_only_after_a_certain_failure_of_a_lane_that_acted(outcomes, is_due):
    walk = build_walk(*outcomes)
    assert walk.is_due(walk.tasks[2], winding_up=False) is is_due


def test_fallback_leaves_what_another_process_had_changed_before():
    """A config that was already as wanted was written by another process; what this change stopped is started."""
    steps = (STOP, PUT, AWAIT, BACK, RESUME)
    tasks = [PlannedStep(n, step, "orders", always=False, fallback=n > 2) for n, step in enumerate(steps)]
    walk = PlanRun(tasks)
    for task, outcome in zip(tasks, (Outcome.DONE, Outcome.NOTHING_TO_DO, Outcome.DID_NOT_HAPPEN), strict=False):
        walk.record(task, outcome)
    assert not walk.is_due(tasks[3], winding_up=False)
    assert walk.is_due(tasks[4], winding_up=False)


def test_fallback_that_was_not_needed_does_not_separate_a_check_from_its_request():
    tasks = [PlannedStep(n, step, "orders", always=False, fallback=n == 1) for n, step in enumerate((AWAIT, BACK, PUT))]
    walk = PlanRun(tasks)
    walk.record(tasks[0], Outcome.DONE)
    assert walk.find_looks(tasks[2]) == [tasks[0]]
    walk.record(tasks[1], Outcome.DONE)
    assert walk.find_looks(tasks[2]) == []


def test_no_step_acts_on_an_aspect_that_someone_else_changed():
    expectations = Expectations()
    stop = Intent({"state": "RUNNING"}, {"state": "STOPPED"})
    expectations.learn(STOP, stop, Outcome.FOREIGN)
    for state in ("RUNNING", "PAUSED", "STOPPED"):
        assert not expectations.allow(RESUME, Intent({"state": state}, {"state": "RUNNING"}))
    # The config is another aspect.
    assert expectations.allow(PUT, Intent({"config": {}}, {"config": {"a": "2"}}))


def test_step_acts_on_what_the_step_before_it_left():
    expectations = Expectations()
    expectations.learn(STOP, Intent({"state": "RUNNING"}, {"state": "STOPPED"}), Outcome.DONE)
    assert expectations.allow(RESUME, Intent({"state": "STOPPED"}, {"state": "RUNNING"}))
    assert not expectations.allow(RESUME, Intent({"state": "PAUSED"}, {"state": "RUNNING"}))
