from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from seamark.changes.executor import Executor
from seamark.changes.interruption import POINTS, set_hook
from seamark.changes.journal import Ending
from seamark.changes.outcome import Outcome
from seamark.connectors.run_state import RestartFailed, SetRunState
from seamark.connectors.steps import CreateConnector, DeleteConnector, PutConfig
from seamark.errors import (
    FencedError,
    JournalError,
    LockedError,
    RefusedError,
    StalePlanError,
    UnreachableError,
)
from tests.simulation.faults import Call, Fault, Kind
from tests.simulation.world import CLUSTER, TIMING
from tests.unit.changes.simulated import CONFIG, NEW, SUBJECT, Stage, new_stage

PAUSE = SetRunState(CLUSTER, "orders", "PAUSED")
STOP = SetRunState(CLUSTER, "orders", "STOPPED")
RESTORE = (SetRunState(CLUSTER, "orders", "RUNNING"), True)
PUT = PutConfig(CLUSTER, "orders", NEW)
PUT_STOCK = PutConfig(CLUSTER, "stock", NEW)
GUARDED = (STOP, PUT, RESTORE)


def at(stage: Stage, call: Call, nth: int, *lanes, kind: Kind, size: float = 0.5) -> Fault:
    """A fault at the nth call of a kind, counted in a run of the same plan without faults."""
    trial = new_stage(stage.state(), config=stage.config())
    who = trial.operator()
    trial.apply(*lanes, who=who)
    numbers = [number for number, found in enumerate(who.process.trace, start=1) if found is call]
    return Fault(numbers[nth], kind, size)


class TestOneStep:
    def test_it_is_done_when_it_shows(self):
        stage = new_stage()

        result = stage.apply([PAUSE])

        assert result.is_done
        assert [step.outcome for step in result.steps] == [Outcome.DONE]
        assert stage.state() == "PAUSED"
        assert stage.kinds() == ["open", "intent", "outcome", "close"]

    def test_what_is_so_already_is_not_done_again(self):
        stage = new_stage("PAUSED")

        result = stage.apply([PAUSE])

        assert result.is_done
        assert result.steps[0].outcome is Outcome.NOTHING_TO_DO
        assert stage.ledger.requests == 0
        assert stage.kinds() == ["open", "outcome", "close"]

    def test_a_rejected_step_did_not_happen_and_says_why(self):
        stage = new_stage()

        result = stage.apply([PAUSE], faults=(Fault(1, Kind.REJECTED),))

        assert result.ending is Ending.FAILED
        assert result.steps[0].outcome is Outcome.DID_NOT_HAPPEN
        assert "rejected" in result.failures[SUBJECT].cause
        assert stage.state() == "RUNNING"

    @pytest.mark.parametrize("kind", [Kind.LOST_DONE, Kind.LOST_LATE])
    def test_a_lost_answer_is_looked_after_and_never_repeated(self, kind):
        stage = new_stage()

        result = stage.apply([PUT], faults=(Fault(1, kind, 0.9),))

        assert result.is_done
        assert stage.config() == NEW
        assert stage.ledger.requests == 1

    def test_as_before_is_believed_only_when_nothing_can_land_any_more(self):
        stage = new_stage()
        began_at = stage.timeline.now

        result = stage.apply([PUT], faults=(Fault(1, Kind.LOST_NEVER),))

        assert result.ending is Ending.FAILED
        assert result.steps[0].outcome is Outcome.DID_NOT_HAPPEN
        assert stage.ledger.requests == 1
        assert stage.timeline.now - began_at >= TIMING.in_flight_seconds + TIMING.shows_seconds

    def test_what_does_not_show_in_time_is_unknown_and_stays_open(self):
        stage = new_stage()

        result = stage.apply([PAUSE], faults=(Fault(1, Kind.SLOW_STATUS, 0.9),))

        assert result.ending is None
        assert result.steps[0].outcome is Outcome.UNKNOWN
        assert "60 s" in result.failures[SUBJECT].message
        assert "close" not in stage.kinds()

    def test_a_worker_that_can_not_tell_just_now_is_asked_again(self):
        stage = new_stage()
        plan, steps = stage.plan(GUARDED)
        who = stage.operator((at(stage, Call.WRITE, 1, GUARDED, kind=Kind.SLEEPS, size=0.0),))
        put = stage.cluster.put

        def put_and_rebalance(name, config):
            put(name, config)
            stage.cluster.rebalance_until = stage.timeline.now + 5

        stage.cluster.put = put_and_rebalance

        assert who.executor.apply(plan, steps).is_done
        assert stage.state() == "RUNNING"

    def test_tasks_that_fail_again_close_the_change(self):
        stage = new_stage()
        stage.cluster.add("orders", CONFIG, target="RUNNING", failed=frozenset({1}))
        stage.cluster.restart = lambda name: None

        result = stage.apply([RestartFailed(CLUSTER, "orders")])

        assert result.ending is Ending.FAILED
        assert result.steps[0].outcome is Outcome.DID_NOT_HAPPEN


class TestLanes:
    def test_a_failure_leaves_the_rest_of_its_lane_and_no_other(self):
        stage = new_stage()

        result = stage.apply([PUT, PAUSE], [PUT_STOCK], faults=(Fault(1, Kind.REJECTED),))

        assert result.ending is Ending.PARTLY
        assert result.left == (PAUSE.describe(),)
        assert [step.outcome for step in result.steps] == [Outcome.DID_NOT_HAPPEN, Outcome.DONE]
        assert stage.config() == CONFIG
        assert stage.config("stock") == NEW
        assert stage.state() == "RUNNING"

    def test_what_must_always_be_done_is_done_after_a_failure(self):
        stage = new_stage()
        fault = at(stage, Call.WRITE, 1, GUARDED, kind=Kind.REJECTED)

        result = stage.apply(GUARDED, faults=(fault,))

        assert [step.outcome for step in result.steps] == [Outcome.DONE, Outcome.DID_NOT_HAPPEN, Outcome.DONE]
        assert result.ending is Ending.PARTLY
        assert stage.state() == "RUNNING"
        assert stage.config() == CONFIG

    def test_a_run_state_that_can_not_be_restored_keeps_the_change_open(self):
        stage = new_stage()
        fault = at(stage, Call.WRITE, 2, GUARDED, kind=Kind.DENIED)

        result = stage.apply(GUARDED, faults=(fault,))

        assert result.ending is None
        assert result.steps[2].outcome is Outcome.DID_NOT_HAPPEN
        assert stage.state() == "STOPPED"

    def test_a_run_state_that_was_never_touched_keeps_nothing_open(self):
        stage = new_stage()
        fault = at(stage, Call.WRITE, 0, GUARDED, kind=Kind.REJECTED)

        result = stage.apply(GUARDED, faults=(fault, Fault(fault.at + 1, Kind.DENIED)))

        assert result.ending is Ending.FAILED
        assert stage.state() == "RUNNING"

    def test_a_restore_is_sent_though_the_state_looks_right_when_the_stop_may_still_show(self):
        stage = new_stage()
        stop = at(stage, Call.WRITE, 0, GUARDED, kind=Kind.SLOW_STATUS, size=0.9)

        result = stage.apply(GUARDED, faults=(stop,))
        stage.timeline.advance(200)

        assert [step.outcome for step in result.steps] == [Outcome.UNKNOWN, Outcome.DONE]
        assert result.left == (PUT.describe(),)
        assert stage.state() == "RUNNING"
        assert stage.ledger.requests == 2


class TestOtherPeople:
    def test_a_plan_that_is_stale_is_refused_before_anything_is_opened(self):
        stage = new_stage()
        plan, steps = stage.plan([PUT])
        stage.cluster.put("orders", CONFIG | {"version": "9"})
        stage.timeline.advance(5)

        with pytest.raises(StalePlanError):
            stage.operator().executor.apply(plan, steps)

        assert not stage.store.changes

    @pytest.mark.parametrize(("kind", "error"), [(Kind.RIVAL, StalePlanError), (Kind.OUTAGE, UnreachableError)])
    def test_a_change_that_fails_under_its_lock_has_done_nothing_and_is_closed(self, kind, error):
        stage = new_stage()
        stage.cluster.longest_lag = 0.0
        plan, steps = stage.plan([PUT])
        # The first look, the lock, the second look: the rival comes before the lock, the outage after it.
        fault = Fault(2 if kind is Kind.RIVAL else 3, kind, 0.96)

        with pytest.raises(error):
            stage.operator((fault,)).executor.apply(plan, steps)

        assert stage.kinds() == ["open", "close"]
        assert stage.entries()[-1].body["ending"] == "failed"
        assert stage.entries()[-1].body["error"]["code"] == error("").code
        assert not stage.store.open_changes()

    def test_a_lock_of_somebody_else_is_a_refusal(self):
        stage = new_stage()
        stage.apply([PAUSE], faults=(Fault(1, Kind.SLOW_STATUS, 0.9),))
        stage.timeline.advance(100)

        with pytest.raises(LockedError):
            stage.apply([PUT])

        assert stage.config() == CONFIG

    def test_what_somebody_else_changed_since_is_not_overwritten(self):
        stage = new_stage()
        stage.cluster.longest_lag = 0.0
        # Between the stop and the put.
        fault = at(stage, Call.APPEND, 2, GUARDED, kind=Kind.FOREIGN_CONFIG, size=0.96)
        stage._lanes = [None]

        result = stage.apply(GUARDED, faults=(fault,))

        assert result.steps[1].outcome is Outcome.DID_NOT_HAPPEN
        assert "another process changed" in result.steps[1].error.message
        assert stage.config()["version"].startswith("foreign")
        assert stage.state() == "RUNNING"

    def test_a_run_state_that_somebody_else_set_is_theirs(self):
        stage = new_stage()
        stop = stage.cluster.set_target

        def stop_and_pause(name, target):
            stop(name, target)
            if target == "STOPPED":
                stage.timeline.at(stage.timeline.now + 20, lambda: stop(name, "PAUSED"))

        stage.cluster.set_target = stop_and_pause
        stop_fault = at(stage, Call.APPEND, 2, GUARDED, kind=Kind.SLEEPS, size=0.9)

        result = stage.apply(GUARDED, faults=(stop_fault,))

        assert result.ending is None
        assert result.steps[2].outcome is Outcome.FOREIGN
        assert stage.state() == "PAUSED"

    def test_who_was_taken_over_while_it_slept_does_not_act(self):
        stage = new_stage()
        intent = at(stage, Call.APPEND, 1, [PUT], kind=Kind.TAKEN, size=0.6)

        with pytest.raises(FencedError):
            stage.apply([PUT], faults=(intent,))

        assert stage.ledger.requests == 1
        assert stage.store.changes[stage.change].writers[-1] != "operator-2"
        assert stage.config() == NEW

    def test_who_slept_and_was_not_taken_over_says_so_and_acts(self):
        stage = new_stage()
        intent = at(stage, Call.APPEND, 1, [PUT], kind=Kind.SLEEPS, size=0.82)

        result = stage.apply([PUT], faults=(intent,))

        assert result.is_done
        assert stage.kinds() == ["open", "intent", "note", "outcome", "close"]

    def test_a_journal_that_is_too_slow_every_time_is_not_acted_on(self):
        stage = new_stage()
        who = stage.operator()
        advance, timestamp = stage.timeline.advance, who.journal.timestamp
        who.journal.timestamp = lambda: (timestamp(), advance(6))[0]
        plan, steps = stage.plan([PUT])

        result = who.executor.apply(plan, steps)

        assert result.ending is Ending.FAILED
        assert "too slow" in result.steps[0].error.message
        assert stage.ledger.requests == 0


class TestWithoutJournal:
    def test_the_run_state_is_restored_from_the_spool(self):
        stage = new_stage()
        fault = at(stage, Call.APPEND, 2, GUARDED, kind=Kind.JOURNAL_FAILS)

        with pytest.raises(JournalError) as caught:
            stage.apply(GUARDED, faults=(fault,))

        assert stage.state() == "RUNNING"
        assert [record.number for record in stage.spooled] == [2]
        assert "done without the journal: resume connector/sim/orders" in caught.value.message
        assert f"seamark journal resume {stage.change}" in caught.value.hint
        assert caught.value.context["spool"] in caught.value.hint

    def test_without_a_spool_the_error_says_what_is_left(self):
        stage = new_stage()
        who = stage.operator((at(stage, Call.APPEND, 2, GUARDED, kind=Kind.JOURNAL_FAILS),))
        who.executor = Executor(who.journal, who.world, actor=who.actor, timing=TIMING)

        with pytest.raises(JournalError, match="not done: resume connector/sim/orders"):
            stage.apply(GUARDED, who=who)

        assert stage.state() == "STOPPED"
        assert stage.ledger.requests == 1

    def test_a_spool_that_fails_too_is_told(self):
        stage = new_stage()
        fault = at(stage, Call.APPEND, 2, GUARDED, kind=Kind.JOURNAL_FAILS)

        with pytest.raises(JournalError, match=r"not done: .*the spool can't be written"):
            stage.apply(GUARDED, faults=(fault, Fault(fault.at + 1, Kind.JOURNAL_FAILS)))

        assert stage.ledger.requests == 1

    def test_a_change_that_did_nothing_yet_restores_nothing(self):
        stage = new_stage()
        fault = at(stage, Call.APPEND, 1, GUARDED, kind=Kind.JOURNAL_FAILS)

        with pytest.raises(JournalError):
            stage.apply(GUARDED, faults=(fault,))

        assert stage.ledger.requests == 0
        assert not stage.spooled

    def test_who_is_fenced_restores_nothing(self):
        stage = new_stage()
        fault = at(stage, Call.APPEND, 2, GUARDED, kind=Kind.TAKEN, size=0.66)

        with pytest.raises(FencedError):
            stage.apply(GUARDED, faults=(fault,))

        assert not stage.spooled
        assert stage.invariants.is_done(stage.change)


class Interrupting:
    """Progress that presses Ctrl-C when a step begins."""

    def __init__(self, *, step: int, times: int = 1) -> None:
        self._step = step
        self._times = times

    def opened(self, change, *, steps): ...
    def waiting(self, words): ...
    def ended(self, result): ...

    def begun(self, number, words):
        if number == self._step:
            for _ in range(self._times):
                signal.raise_signal(signal.SIGINT)


class TestInterrupt:
    def run(self, stage: Stage, *lanes, step: int, times: int = 1):
        assert threading.current_thread() is threading.main_thread()
        who = stage.operator()
        progress = Interrupting(step=step, times=times)
        who.executor = Executor(who.journal, who.world, actor=who.actor, timing=TIMING, progress=progress)
        return stage.apply(*lanes, who=who)

    def test_the_step_in_hand_is_finished_and_the_rest_is_named(self):
        stage = new_stage()

        result = self.run(stage, [PUT, PAUSE], [PUT_STOCK], step=0)

        assert result.interrupted
        assert result.ending is Ending.PARTLY
        assert [step.outcome for step in result.steps] == [Outcome.DONE]
        assert result.left == (PAUSE.describe(), PUT_STOCK.describe())
        assert stage.config() == NEW
        assert stage.config("stock") == CONFIG
        assert stage.entries()[-1].body["left"] == list(result.left)

    def test_the_run_state_is_restored_all_the_same(self):
        stage = new_stage()

        result = self.run(stage, GUARDED, [PUT_STOCK, (SetRunState(CLUSTER, "stock", "PAUSED"), True)], step=0)

        assert stage.state() == "RUNNING"
        assert [step.number for step in result.steps] == [0, 2]
        assert stage.config() == CONFIG
        # The other lane was not begun, so it has nothing to restore.
        assert stage.state("stock") == "RUNNING"

    def test_the_second_one_ends_it_at_once_and_leaves_it_open(self):
        stage = new_stage()

        with pytest.raises(KeyboardInterrupt):
            self.run(stage, [PUT, PAUSE], step=1, times=2)

        assert stage.store.open_changes()
        assert stage.outcomes() == [(0, "done")]

    def test_ctrl_c_is_as_it_was_afterwards(self):
        former = signal.getsignal(signal.SIGINT)

        self.run(new_stage(), [PUT], step=0)

        assert signal.getsignal(signal.SIGINT) is former


def test_a_closed_terminal_does_not_break_a_change():
    class Broken:
        told = 0

        def opened(self, *_, **__):
            self.told += 1
            raise BrokenPipeError

        begun = waiting = ended = opened

    stage = new_stage()
    who = stage.operator((Fault(1, Kind.LOST_LATE, 0.9),))
    progress = Broken()
    who.executor = Executor(who.journal, who.world, actor=who.actor, timing=TIMING, progress=progress)

    assert stage.apply(GUARDED, who=who).is_done
    # Opened; three steps begun and ended; one waited for.
    assert progress.told == 8


def test_no_variable_can_kill_a_change():
    program = "from seamark.changes.interruption import POINTS, reach; [reach(point) for point in POINTS]"
    for point in POINTS:
        environ = {**os.environ, "SEAMARK_FAILPOINT": f"{point}:0:kill"}
        assert subprocess.run([sys.executable, "-c", program], env=environ, check=False).returncode == 0


def test_a_hook_of_a_test_is_called_at_every_point():
    reached = []
    set_hook(lambda point, number: reached.append((point, number)))
    try:
        stage = new_stage()
        assert stage.apply(GUARDED).is_done
    finally:
        set_hook(None)
    assert {point for point, _ in reached} == set(POINTS)


def test_creating_what_is_there_and_changing_what_is_not_are_refused():
    stage = new_stage()

    there = stage.apply([CreateConnector(CLUSTER, "orders", NEW)])
    missing = stage.apply([PutConfig(CLUSTER, "nothing", NEW)], [SetRunState(CLUSTER, "nothing", "PAUSED")])
    gone = stage.apply([DeleteConnector(CLUSTER, "nothing")])

    assert there.ending is Ending.FAILED
    assert missing.ending is Ending.FAILED
    assert [type(step.error) for step in (*there.steps, *missing.steps)] == [RefusedError] * 3
    assert gone.is_done
    assert stage.ledger.requests == 0
