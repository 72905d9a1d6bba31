from __future__ import annotations

from dataclasses import replace

import pytest

from seamark.changes.history import read_past
from seamark.changes.journal import Ending, EntryKind
from seamark.changes.outcome import Outcome
from seamark.connectors.run_state import RestartFailed, SetRunState
from seamark.connectors.steps import CreateConnector, DeleteConnector, PutConfig
from seamark.errors import LockedError, RefusedError, StalePlanError, UnreachableError
from tests.simulation.faults import Call, Fault, Killed, Kind
from tests.simulation.scenario import Kept
from tests.simulation.world import CLUSTER, TIMING
from tests.step_list import plan_undo
from tests.unit.changes.simulated import CONFIG, NEW, SUBJECT, Stage, new_stage

STOP = SetRunState(CLUSTER, "orders", "STOPPED")
RESTORE = (SetRunState(CLUSTER, "orders", "RUNNING"), True)
PUT = PutConfig(CLUSTER, "orders", NEW)
PUT_STOCK = PutConfig(CLUSTER, "stock", NEW)
GUARDED = (STOP, PUT, RESTORE)


def kill(stage: Stage, *lanes, at: int = 1, kind: Kind = Kind.KILL_AFTER, call: Call = Call.WRITE) -> str:
    """Apply a plan and be killed at the nth call of a kind; gives the change."""
    scenario = stage.scenario
    trial = new_stage(stage.state(), config=stage.config(), seed=scenario.seed, journal=scenario.journal)
    who = trial.operator()
    trial.apply(*lanes, who=who)
    numbers = [number for number, found in enumerate(who.process.trace, start=1) if found is call]
    with pytest.raises(Killed):
        stage.apply(*lanes, faults=(Fault(numbers[at - 1], kind),))
    return stage.change


class TestResume:
    @pytest.mark.parametrize("kind", [Kind.KILL, Kind.KILL_AFTER, Kind.KILL_LATE, Kind.KILL_LOST])
    @pytest.mark.parametrize("write", [1, 2, 3])
    def test_a_killed_change_is_finished_and_the_run_state_is_restored(self, kind, write):
        stage = new_stage()
        change = kill(stage, GUARDED, at=write, kind=kind)

        result = stage.operator().recovery.resume(change)

        assert result.is_done
        assert stage.config() == NEW
        assert stage.state() == "RUNNING"
        assert "taken" in stage.kinds()

    def test_nothing_is_repeated_before_a_late_request_has_had_its_time(self):
        stage = new_stage()
        change = kill(stage, [PUT], kind=Kind.KILL_LOST)
        sent_at = stage.timeline.now

        result = stage.operator().recovery.resume(change)

        assert result.is_done
        again = [entry for entry in stage.entries() if entry.body.get("again")]
        assert len(again) == 1
        assert stage.ledger.requests == 2
        assert stage.timeline.now - sent_at >= TIMING.quiet_seconds + TIMING.shows_seconds

    def test_a_crash_of_long_ago_needs_no_waiting(self):
        # The heads topic has the times of the brokers; files have no clock of their own. Brokers of even seeds accept
        # the entries of any clock.
        stage = new_stage(seed=2, journal=Kept.KAFKA)
        change = kill(stage, [PUT], kind=Kind.KILL_LOST)
        stage.timeline.advance(3600)
        began_at = stage.timeline.now

        assert stage.operator().recovery.resume(change).is_done
        assert stage.timeline.now - began_at < 2
        assert [str(entry.kind) for entry in stage.operator().journal.read(change)] == stage.kinds()

    def test_the_time_counts_from_the_newest_note_of_the_step(self):
        stage = new_stage()
        change = kill(stage, [PUT], kind=Kind.KILL_LOST)
        stage.timeline.advance(3600)
        stored = stage.store.changes[change]
        note = replace(
            stored.entries[-1],
            number=len(stored.entries),
            kind=EntryKind.NOTE,
            body={"step": 0, "note": "still running"},
            at=stage.operator().journal.timestamp(),
            previous=stored.hashes[-1],
        )
        stage.store.add(stored, note, writer="operator-2")
        began_at = stage.timeline.now

        assert stage.operator().recovery.resume(change).is_done
        assert stage.timeline.now - began_at >= TIMING.quiet_seconds

    def test_a_clock_that_is_ahead_makes_nobody_wait_for_it(self):
        stage = new_stage()
        change = kill(stage, [PUT], kind=Kind.KILL_LOST)
        stored = stage.store.changes[change]
        stored.entries[1] = replace(stored.entries[1], at="2099-01-01T00:00:00.000Z")
        began_at = stage.timeline.now

        assert stage.operator().recovery.resume(change).is_done
        assert stage.timeline.now - began_at < 2 * TIMING.quiet_seconds

    def test_what_was_done_in_another_lane_is_not_done_again(self):
        stage = new_stage()
        change = kill(stage, [PUT], [PUT_STOCK], at=2, kind=Kind.KILL_AFTER)

        result = stage.operator().recovery.resume(change)

        assert result.is_done
        assert stage.ledger.requests == 2

    def test_what_somebody_changed_after_it_was_done_is_told_and_left(self):
        stage = new_stage()
        change = kill(stage, [PUT], [PUT_STOCK], at=2, kind=Kind.KILL_AFTER)
        theirs = CONFIG | {"version": "9"}
        stage.cluster.put("orders", theirs)
        stage.invariants.touch("orders", "config", theirs)

        result = stage.operator().recovery.resume(change)

        assert result.ending is None
        assert [step.outcome for step in result.steps] == [Outcome.FOREIGN, Outcome.DONE]
        assert stage.config() == theirs

    def test_a_lane_that_was_wound_up_is_not_begun_again(self):
        stage = new_stage()
        # The put's answer is lost, nobody can look until the end, the connector is started again: wound up.
        stage.cluster.outage_until = 0
        plan, steps = stage.plan([STOP, PUT, PutConfig(CLUSTER, "orders", CONFIG | {"version": "2"}), RESTORE])
        put = stage.cluster.put

        def put_in_the_dark(name, config):
            put(name, config)
            stage.cluster.outage_until = stage.timeline.now + 61

        stage.cluster.put = put_in_the_dark
        first = stage.operator().executor.apply(plan, steps)
        assert [step.outcome for step in first.steps] == [Outcome.DONE, Outcome.UNKNOWN, Outcome.DONE]
        assert first.ending is None

        result = stage.operator().recovery.resume(stage.change)

        assert [step.outcome for step in result.steps] == [Outcome.DONE] * 3
        assert result.left == (steps[2].describe(),)
        assert result.ending is Ending.PARTLY
        assert stage.config() == NEW
        assert stage.state() == "RUNNING"

    def test_a_restore_that_failed_is_tried_again(self):
        stage = new_stage()
        trial = new_stage()
        who = trial.operator()
        trial.apply(GUARDED, who=who)
        third = [number for number, call in enumerate(who.process.trace, start=1) if call is Call.WRITE][2]
        assert stage.apply(GUARDED, faults=(Fault(third, Kind.DENIED),)).ending is None

        result = stage.operator().recovery.resume(stage.change)

        assert result.is_done
        assert stage.state() == "RUNNING"

    def test_a_change_of_which_only_the_opening_is_there_is_done_from_its_beginning(self):
        stage = new_stage()
        change = kill(stage, GUARDED, at=1, kind=Kind.KILL_AFTER, call=Call.APPEND)

        assert stage.kinds() == ["open"]
        assert stage.operator().recovery.resume(change).is_done
        assert stage.config() == NEW

    def test_a_change_that_moved_before_it_was_begun_is_closed(self):
        stage = new_stage()
        change = kill(stage, [PUT], at=1, kind=Kind.KILL_AFTER, call=Call.APPEND)
        theirs = CONFIG | {"version": "9"}
        stage.cluster.put("orders", theirs)
        stage.invariants.touch("orders", "config", theirs)
        stage.timeline.advance(5)

        result = stage.operator().recovery.resume(change)

        assert result.ending is Ending.FAILED
        assert stage.config() == theirs

    def test_secrets_that_died_with_the_process_are_asked_for_again(self):
        stage = new_stage(config=CONFIG | {"db.password": "hunter2-0"})
        put = PutConfig(CLUSTER, "orders", NEW | {"db.password": "hunter2-1"})
        change = kill(stage, [STOP, put, RESTORE], at=2, kind=Kind.KILL_LOST)

        result = stage.operator().recovery.resume(change)

        assert result.ending is Ending.PARTLY
        assert "doesn't contain the secrets" in result.steps[1].error.message
        assert stage.config()["db.password"] == "hunter2-0"
        assert stage.state() == "RUNNING"

    def test_what_nobody_can_look_at_is_not_claimed(self):
        stage = new_stage()
        # Everything is done; only the close is missing.
        change = kill(stage, [PUT], [PUT_STOCK], at=6, kind=Kind.KILL, call=Call.APPEND)
        assert stage.outcomes() == [(0, "done"), (1, "done")]
        stage.cluster.outage_until = stage.timeline.now + 1000

        with pytest.raises(UnreachableError):
            stage.operator().recovery.resume(change)

        assert stage.store.open_changes()
        stage.timeline.advance(1000)
        assert stage.operator().recovery.resume(change).is_done
        assert stage.ledger.requests == 2

    def test_a_closed_change_and_a_wrong_nonce_are_refused(self):
        stage = new_stage()
        stage.apply([PUT])
        with pytest.raises(RefusedError):
            stage.operator().recovery.resume(stage.change)

        change = kill(stage, [STOP])
        with pytest.raises(LockedError):
            stage.operator().recovery.resume(change, expected_nonce="another")
        nonce = stage.store.changes[change].nonce
        assert stage.operator().recovery.resume(change, expected_nonce=nonce).is_done


class TestAbandon:
    def test_it_begins_nothing_and_restores_the_run_state(self):
        stage = new_stage()
        change = kill(stage, GUARDED, at=1, kind=Kind.KILL_AFTER)

        result = stage.operator().recovery.abandon(change)

        assert result.ending is Ending.PARTLY
        assert result.left == (PUT.describe(),)
        assert stage.config() == CONFIG
        assert stage.state() == "RUNNING"

    def test_what_somebody_else_did_is_accepted(self):
        stage = new_stage()
        change = kill(stage, [PUT], kind=Kind.KILL_AFTER)
        theirs = CONFIG | {"version": "9"}
        stage.cluster.put("orders", theirs)
        stage.invariants.touch("orders", "config", theirs)
        assert stage.operator().recovery.resume(change).ending is None

        result = stage.operator().recovery.abandon(change)

        assert result.ending is Ending.FAILED
        assert result.steps[0].outcome is Outcome.FOREIGN
        assert stage.config() == theirs

    def test_what_nobody_can_see_keeps_it_open_unless_it_is_forced(self):
        stage = new_stage()
        change = kill(stage, GUARDED, at=1, kind=Kind.KILL_AFTER)
        stage.cluster.outage_until = stage.timeline.now + 10_000

        assert stage.operator().recovery.abandon(change).ending is None
        forced = stage.operator().recovery.abandon(change, force=True)

        assert forced.ending is Ending.FAILED
        close = stage.entries()[-1]
        assert close.kind is EntryKind.CLOSE
        assert close.body["unsettled"] == [STOP.describe(), RESTORE[0].describe()]


def undo(stage: Stage, change: str | None = None):
    plan = plan_undo(stage.operator().recovery, change or stage.change)
    return plan, stage.apply_plan(plan)


class TestUndo:
    @pytest.mark.parametrize(
        "lane",
        [
            [PUT],
            [STOP],
            [DeleteConnector(CLUSTER, "orders")],
            [PUT, SetRunState(CLUSTER, "orders", "PAUSED")],
            [SetRunState(CLUSTER, "orders", "PAUSED"), DeleteConnector(CLUSTER, "orders")],
            [DeleteConnector(CLUSTER, "orders"), CreateConnector(CLUSTER, "orders", NEW, state="STOPPED")],
            GUARDED,
        ],
        ids=["put", "stop", "delete", "put, pause", "pause, delete", "replace", "guarded"],
    )
    def test_everything_is_as_it_was(self, lane):
        stage = new_stage(config=CONFIG | {"url": "jdbc:x", "db.password": "${file:/a:b}"})
        before = (stage.config(), stage.state())
        put = PutConfig(CLUSTER, "orders", NEW | {"db.password": "${file:/a:c}"})
        assert stage.apply([put if step is PUT else step for step in lane]).is_done

        _, result = undo(stage)

        assert result.is_done
        assert (stage.config(), stage.state()) == before

    def test_act_of_unknown_outcome_is_undone_too(self):
        stage = new_stage()
        change = kill(stage, [PUT], kind=Kind.KILL_AFTER)
        stage.cluster.outage_until = stage.timeline.now + 10_000
        assert stage.operator().recovery.abandon(change, force=True).ending is Ending.FAILED
        assert (0, "unknown") in stage.outcomes()
        stage.cluster.outage_until = 0.0
        assert stage.config() == NEW

        _, result = undo(stage, change)

        assert result.is_done
        assert stage.config() == CONFIG

    def test_a_created_connector_is_deleted(self):
        stage = Stage()
        assert stage.apply([CreateConnector(CLUSTER, "orders", {"greeting": "secret://env/GREETING"})]).is_done

        _, result = undo(stage)

        assert result.is_done
        assert stage.cluster.connectors == {}

    def test_an_undo_can_be_undone(self):
        stage = new_stage("PAUSED")
        stage.apply(GUARDED[:2])
        undo(stage)
        assert stage.config() == CONFIG

        _, result = undo(stage)

        assert result.is_done
        assert stage.config() == NEW

    def test_what_it_had_to_restore_the_way_back_restores_too(self):
        stage = new_stage()
        stage.apply(GUARDED)

        plan = plan_undo(stage.operator().recovery, stage.change)

        assert [(step.kind, step.always) for step in plan.steps] == [
            ("set-run-state", False),
            ("put-config", False),
            ("set-run-state", True),
        ]
        assert {step.lane for step in plan.steps} == {"lane-0"}
        assert plan.undoes == stage.change

    def test_a_lane_that_left_everything_as_it_was_needs_none(self):
        stage = new_stage()
        stage.apply((STOP, RESTORE))

        assert plan_undo(stage.operator().recovery, stage.change).is_empty

    def test_a_restart_leaves_nothing_to_take_back(self):
        stage = new_stage()
        stage.cluster.add("orders", CONFIG, target="RUNNING", failed=frozenset({0}))
        stage.apply([RestartFailed(CLUSTER, "orders")])

        assert plan_undo(stage.operator().recovery, stage.change).is_empty

    def test_it_is_refused_when_somebody_changed_it_since(self):
        stage = new_stage()
        stage.apply([PUT])
        plan = plan_undo(stage.operator().recovery, stage.change)
        stage.cluster.put("orders", CONFIG | {"version": "9"})
        stage.timeline.advance(5)

        with pytest.raises(StalePlanError, match="out of date"):
            stage.apply_plan(plan)

        assert stage.config()["version"] == "9"

    def test_a_step_that_did_not_happen_does_not_take_the_guard_away(self):
        stage = new_stage()
        second = PutConfig(CLUSTER, "orders", CONFIG | {"version": "2"})
        trial = new_stage()
        who = trial.operator()
        trial.apply([PUT, second], who=who)
        write = [number for number, call in enumerate(who.process.trace, start=1) if call is Call.WRITE][1]
        assert stage.apply([PUT, second], faults=(Fault(write, Kind.REJECTED),)).ending is Ending.PARTLY

        plan = plan_undo(stage.operator().recovery, stage.change)

        assert [p.subject for p in plan.preconditions] == [f"{SUBJECT}#config"]

    def test_an_open_change_is_refused_with_what_to_type(self):
        stage = new_stage()
        change = kill(stage, [PUT])

        with pytest.raises(RefusedError) as caught:
            plan_undo(stage.operator().recovery, change)

        assert f"seamark journal resume {change}" in caught.value.hint

    def test_a_changed_secret_is_refused_by_its_name(self):
        stage = new_stage(config=CONFIG | {"db.password": "hunter2-0"})
        stage.apply([PutConfig(CLUSTER, "orders", NEW | {"db.password": "hunter2-1"})])

        with pytest.raises(RefusedError) as caught:
            plan_undo(stage.operator().recovery, stage.change)

        assert "db.password" in caught.value.cause
        assert "hunter2" not in caught.value.cause

    def test_a_secret_that_stayed_is_kept_as_connect_holds_it(self):
        stage = new_stage(config=CONFIG | {"db.password": "hunter2-0"})
        before = stage.config()
        assert stage.apply([PutConfig(CLUSTER, "orders", NEW | {"db.password": "hunter2-0"})]).is_done

        _, result = undo(stage)

        assert result.is_done
        assert stage.config() == before

    def test_a_deleted_secret_is_refused(self):
        stage = new_stage(config=CONFIG | {"db.password": "hunter2-0"})
        stage.apply([DeleteConnector(CLUSTER, "orders")])

        with pytest.raises(RefusedError, match="can't be undone"):
            plan_undo(stage.operator().recovery, stage.change)

    def test_what_somebody_else_changed_during_the_change_is_left_and_said(self):
        stage = new_stage()
        change = kill(stage, [PUT], [PUT_STOCK], at=2, kind=Kind.KILL_AFTER)
        theirs = CONFIG | {"version": "9"}
        stage.cluster.put("orders", theirs)
        stage.invariants.touch("orders", "config", theirs)
        stage.operator().recovery.resume(change)
        assert stage.operator().recovery.abandon(change).ending is Ending.PARTLY

        plan, result = undo(stage, change)

        assert [step.subject for step in plan.steps] == [f"connector/{CLUSTER}/stock"]
        assert "orders" in plan.notes[0]
        assert result.is_done
        assert stage.config() == theirs
        assert stage.config("stock") == CONFIG


def test_the_newest_intent_counts_and_a_step_to_be_done_again_has_none():
    stage = new_stage()
    change = kill(stage, [PUT], kind=Kind.KILL_LOST)
    before = read_past(stage.entries())
    assert (set(before.intents), before.outcomes) == ({0}, {})
    stage.operator().recovery.resume(change)

    past = read_past(stage.entries())

    assert past.is_closed
    assert past.outcomes == {0: Outcome.DONE}
    assert past.intents[0][1].number > 1
