from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from seamark.changes.file_journal import FileJournal
from seamark.changes.interruption import set_hook
from seamark.changes.journal import Ending, EntryKind, Opening
from seamark.changes.outcome import Outcome
from seamark.changes.plan import Plan, build_tasks
from seamark.changes.run import BatchingJournalWriter, Lanes, PlanRun, Writers
from seamark.changes.timing import Pace
from seamark.connectors.run_state import AwaitRunning
from seamark.connectors.steps import CreateConnector, DeleteConnector, PutConfig
from seamark.errors import JournalError, RefusedError, SeamarkError, TamperedJournalError, UsageError
from seamark.topics.actions import CreateTopic
from tests.step_list import plan_undo
from tests.unit.changes.town import CLASS, CLUSTER, Town, apply, build_plan, open_journal, recover


@pytest.fixture
def town() -> Town:
    return Town()


def create(name: str, **more: str) -> CreateConnector:
    return CreateConnector(CLUSTER, name, CLASS | more)


def change(town: Town, name: str, **more: str) -> tuple[object, ...]:
    """A change of a config with its way back."""
    wait = AwaitRunning(CLUSTER, name, deadline_seconds=30.0, stable_seconds=1.0)
    return (
        PutConfig(CLUSTER, name, CLASS | more),
        wait,
        (PutConfig(CLUSTER, name, dict(town.configs[name])), True),
        (wait, True),
    )


def entries_of(folder: Path, change_id: str):
    return open_journal(folder).read(change_id)


class TestManyLanes:
    def test_all_are_done_each_with_its_intent_and_outcome_in_one_chain(self, town, tmp_path):
        result = apply(town, tmp_path, *([create(f"c-{number}")] for number in range(200)))

        assert result.is_done
        assert len(town.configs) == 200
        entries = entries_of(tmp_path, result.change)
        for number in range(200):
            kinds = [entry.kind for entry in entries if entry.body.get("step") == number]
            assert kinds == [EntryKind.INTENT, EntryKind.OUTCOME]

    def test_no_more_than_the_allowed_number_send_at_once(self, town, tmp_path):
        apply(town, tmp_path, *([create(f"c-{number}")] for number in range(60)), pace=Pace(at_once=32, writers=3))

        assert 1 < town.most_writing <= 3

    def test_preconditions_of_many_are_checked_with_one_reading(self, town, tmp_path):
        apply(town, tmp_path, *([create(f"c-{number}")] for number in range(60)))

        # Once before the locks are taken, once under them.
        assert town.reads == 2

    def test_entries_that_wait_share_a_write(self, town, tmp_path):
        journal = CountingJournal(tmp_path)

        result = apply(town, tmp_path, *([create(f"c-{number}")] for number in range(100)), journal=journal)

        assert result.is_done
        assert sum(journal.writes) == 201
        assert len(journal.writes) < 150

    def test_one_that_hangs_holds_up_nobody(self, town, tmp_path):
        lanes = [[create("slow", hangs="1")], *([create(f"c-{number}")] for number in range(40))]
        results = []
        worker = threading.Thread(target=lambda: results.append(apply(town, tmp_path, *lanes)))
        worker.start()
        try:
            assert town.reached.wait(20)
            deadline = threading.Event()
            for _ in range(1000):
                if len(town.configs) == 40:
                    break
                deadline.wait(0.02)
            assert len(town.configs) == 40
            assert worker.is_alive()
        finally:
            town.hanging.set()
            worker.join(20)
        assert results[0].is_done

    def test_a_failure_leaves_the_others_alone(self, town, tmp_path):
        town.configs["c-7"] = CLASS | {"old": "1"}
        lanes = [
            [
                create(f"c-{number}") if number != 7 else PutConfig(CLUSTER, "c-7", CLASS | {"fails": "1"}),
                AwaitRunning(CLUSTER, f"c-{number}", stable_seconds=1.0),
            ]
            for number in range(30)
        ]

        result = apply(town, tmp_path, *lanes)

        assert result.ending is Ending.PARTLY
        assert set(result.failures) == {f"connector/{CLUSTER}/c-7"}
        assert len(town.configs) == 30


class TestWayBack:
    def test_a_config_with_which_it_does_not_run_is_taken_back(self, town, tmp_path):
        town.configs["c"] = CLASS | {"version": "1"}

        result = apply(town, tmp_path, change(town, "c", version="2", fails="1"))

        assert result.ending is Ending.PARTLY
        assert town.configs["c"] == CLASS | {"version": "1"}
        assert town.writes == [("put", "c"), ("put", "c")]
        error = result.failures[f"connector/{CLUSTER}/c"]
        assert "Boom: no such table" in error.cause
        assert "\n" not in error.cause

    def test_where_it_runs_nothing_is_taken_back_and_nothing_is_left(self, town, tmp_path):
        town.configs["c"] = CLASS | {"version": "1"}

        result = apply(town, tmp_path, change(town, "c", version="2"))

        assert result.is_done
        assert result.left == ()
        assert town.writes == [("put", "c")]

    def test_a_change_that_was_taken_back_has_nothing_to_undo(self, town, tmp_path):
        town.configs["c"] = CLASS | {"version": "1"}
        result = apply(town, tmp_path, change(town, "c", fails="1"))

        assert plan_undo(recover(town, tmp_path), result.change).is_empty

    def test_a_step_that_did_not_happen_has_no_way_back(self, town, tmp_path):
        town.configs["c"] = CLASS | {"version": "1"}
        town.broken = RefusedError("no")

        result = apply(town, tmp_path, change(town, "c", version="2"))

        assert result.ending is Ending.FAILED
        assert [step.outcome for step in result.steps] == [Outcome.DID_NOT_HAPPEN]

    def test_a_crash_on_the_way_back_is_resumed(self, town, tmp_path):
        town.configs["c"] = CLASS | {"version": "1"}
        journal = DyingJournal(tmp_path, after=4)
        with pytest.raises(SeamarkError):
            # Open, intent, outcome of the put, outcome of the wait; the way back's intent is not written.
            apply(town, tmp_path, change(town, "c", fails="1"), journal=journal)
        assert "fails" in town.configs["c"]

        result = recover(town, tmp_path).resume(journal.change)

        assert result.ending is Ending.PARTLY
        assert town.configs["c"] == CLASS | {"version": "1"}


class TestLimits:
    def test_with_too_many_failures_no_other_is_begun(self, town, tmp_path):
        lanes = []
        for number in range(30):
            town.configs[f"c-{number}"] = dict(CLASS)
            lanes.append(change(town, f"c-{number}", fails="1"))

        result = apply(town, tmp_path, *lanes, pace=Pace(at_once=2, writers=2, max_failures=2))

        begun = {name for _, name in town.writes}
        # Three fail before the fourth is begun; one more may be in hand by then.
        assert 3 <= len(begun) <= 4
        assert all("fails" not in config for config in town.configs.values())
        assert len(result.left) > 40

    def test_a_failed_canary_stops_the_rest(self, town, tmp_path):
        lanes = []
        for number in range(10):
            town.configs[f"c-{number}"] = dict(CLASS)
            lanes.append(change(town, f"c-{number}", **({"fails": "1"} if number == 1 else {"new": "1"})))

        result = apply(town, tmp_path, *lanes, pace=Pace(at_once=8, writers=4, canary=2))

        assert {name for _, name in town.writes} == {"c-0", "c-1"}
        assert town.configs["c-0"] == CLASS | {"new": "1"}
        assert result.ending is Ending.PARTLY

    def test_where_the_canary_lives_the_rest_follows(self, town, tmp_path):
        lanes = [[create(f"c-{number}")] for number in range(10)]

        assert apply(town, tmp_path, *lanes, pace=Pace(at_once=8, writers=4, canary=3)).is_done

        assert {name for _, name in town.writes[:3]} == {"c-0", "c-1", "c-2"}


class Killed(BaseException):
    """The end of the process."""


@contextmanager
def killed(point, number=None, *, interrupted_after=None):
    """Kill the process at a point; before, Ctrl-C comes after the outcome of a step."""

    def reach(reached, step):
        if reached == "after-outcome" and step == interrupted_after:
            signal.raise_signal(signal.SIGINT)
        if reached == point and number in (None, step):
            raise Killed

    set_hook(reach)
    try:
        with pytest.raises(Killed):
            yield
    finally:
        set_hook(None)


class TestLimitsOfAResume:
    """The limits with which a change was applied hold for its resume, and what happened before the kill counts."""

    def build(self, town, count, *failing):
        """Changes of connectors, of which some fail, each with four steps: put, wait, and back."""
        for number in range(count):
            town.configs[f"c-{number}"] = dict(CLASS)
        return [
            change(town, f"c-{number}", **({"fails": "1"} if number in failing else {"new": "1"}))
            for number in range(count)
        ]

    def resume(self, town, folder):
        (head,) = open_journal(folder).open_heads()
        # As the command line does: at the pace of a fleet, without limits.
        return recover(town, folder).resume(head.change)

    def changed(self, town):
        return sorted(name for name, config in town.configs.items() if "new" in config)

    def test_canary_that_had_failed_stops_the_rest(self, town, tmp_path):
        lanes = self.build(town, 6, 0)
        with killed("before-close"):
            apply(town, tmp_path, *lanes, pace=Pace(at_once=8, writers=4, canary=1))
        result = self.resume(town, tmp_path)
        assert (result.ending, self.changed(town)) == (Ending.PARTLY, [])
        assert {name for _, name in town.writes} == {"c-0"}
        assert len(result.left) == 10
        assert set(result.failures) == {f"connector/{CLUSTER}/c-0"}

    @pytest.mark.parametrize(("fails", "changed"), [(True, []), (False, ["c-0", "c-1", "c-2", "c-3"])])
    def test_canary_that_was_running_is_finished_first(self, town, tmp_path, fails, changed):
        lanes = self.build(town, 4, *([0] if fails else []))
        # The config is written, and nothing is known yet.
        with killed("after-perform", 0):
            apply(town, tmp_path, *lanes, pace=Pace(at_once=8, writers=4, canary=1))
        writes = len(town.writes)
        result = self.resume(town, tmp_path)
        assert (result.is_done, self.changed(town)) == (not fails, changed)
        assert {name for _, name in town.writes[writes:]} == ({"c-0"} if fails else {"c-1", "c-2", "c-3"})

    @pytest.mark.parametrize(("fails", "changed"), [(True, []), (False, ["c-0", "c-1", "c-2", "c-3"])])
    def test_canary_that_ctrl_c_had_ended_is_finished_first(self, town, tmp_path, fails, changed):
        lanes = self.build(town, 4, *([0] if fails else []))
        # It is changed, and the check that it runs was left out.
        with killed("before-close", interrupted_after=0):
            apply(town, tmp_path, *lanes, pace=Pace(at_once=1, canary=1))
        assert (self.resume(town, tmp_path).is_done, self.changed(town)) == (not fails, changed)

    @pytest.mark.parametrize("passed", [True, False])
    def test_canary_that_was_wound_up_stops_the_rest(self, passed):
        steps = (create("a"), AwaitRunning(CLUSTER, "a"), PutConfig(CLUSTER, "a", CLASS), create("b"))
        lanes = ("a", "a", "a", "b")
        data = tuple(step.to_data(lane=f"connector/x/{lane}") for step, lane in zip(steps, lanes, strict=True))
        walk = PlanRun(build_tasks(Plan("t", "dev", "2026-01-01T00:00:00Z", "me", data)))
        done = [0, 2] if passed else [0, 1, 2]
        for number in done:
            walk.record(walk.tasks[number], Outcome.DONE)
        begun = []

        def run(task):
            begun.append(task.number)
            walk.record(task, Outcome.DONE)

        pace = Pace(at_once=8, canary=1)
        Lanes(walk, pace=pace, run=run, is_stopping=lambda: False, await_stable=lambda _clusters: None).go()
        assert begun == ([] if passed else [3])

    def test_failures_before_the_kill_count(self, town, tmp_path):
        lanes = self.build(town, 6, 0, 1)
        # Two have failed; the third change may not begin if one failure is allowed.
        with killed("before-close"):
            apply(town, tmp_path, *lanes, pace=Pace(at_once=1, max_failures=1))
        result = self.resume(town, tmp_path)
        assert (result.ending, self.changed(town)) == (Ending.PARTLY, [])
        assert len(result.left) == 8

    def test_failures_before_and_after_the_kill_count_together(self, town, tmp_path):
        lanes = self.build(town, 6, 0, 2)
        # c-0 has failed and c-1 is changed; c-2 fails after the resume.
        with killed("before-intent", 8):
            apply(town, tmp_path, *lanes, pace=Pace(at_once=1, max_failures=1))
        assert self.changed(town) == ["c-1"]
        (head,) = open_journal(tmp_path).open_heads()
        result = recover(town, tmp_path, pace=Pace(at_once=1)).resume(head.change)
        assert (result.ending, self.changed(town)) == (Ending.PARTLY, ["c-1"])
        assert set(result.failures) == {f"connector/{CLUSTER}/c-{number}" for number in (0, 2)}

    def test_journal_without_limits_is_resumed_without_limits(self, town, tmp_path):
        lanes = self.build(town, 4, 0)
        with killed("after-perform", 0):
            apply(town, tmp_path, *lanes)
        (head,) = open_journal(tmp_path).open_heads()
        assert "limits" not in entries_of(tmp_path, head.change)[0].body
        self.resume(town, tmp_path)
        assert self.changed(town) == ["c-1", "c-2", "c-3"]

    def test_limits_are_in_the_opening_and_no_larger_than_the_change(self, town, tmp_path):
        lanes = self.build(town, 3)
        result = apply(town, tmp_path, *lanes, pace=Pace(canary=10**30, max_failures=10**30))
        assert entries_of(tmp_path, result.change)[0].body["limits"] == {"canary": 3, "max_failures": 3}

    @pytest.mark.parametrize(
        "limits",
        [
            None,
            [],
            "canary",
            {},
            {"canary": 1},
            {"canary": 1, "max_failures": None, "more": 1},
            {"canary": None, "max_failures": None},
            {"canary": True, "max_failures": None},
            {"canary": -1, "max_failures": None},
            {"canary": 1.0, "max_failures": None},
            {"canary": "1", "max_failures": None},
            {"canary": 1, "max_failures": -1},
            {"canary": 1, "max_failures": False},
            {"canary": 1, "max_failures": "0"},
            {"canary": 5, "max_failures": None},
            {"canary": 1, "max_failures": 5},
            {"canary": 2**80, "max_failures": None},
        ],
        ids=str,
    )
    def test_limits_that_seamark_did_not_write_are_refused_and_the_change_can_be_closed(
        self, town, tmp_path, monkeypatch, limits
    ):
        lanes = self.build(town, 4)
        build = Opening.__init__

        def forge(self, *args, body, **more):
            build(self, *args, body={**body, "limits": limits}, **more)

        with monkeypatch.context() as patched, killed("after-perform", 0):
            patched.setattr(Opening, "__init__", forge)
            apply(town, tmp_path, *lanes)
        (head,) = open_journal(tmp_path).open_heads()
        count = len(entries_of(tmp_path, head.change))
        with pytest.raises(TamperedJournalError, match="the limits of change"):
            recover(town, tmp_path).resume(head.change)
        # Its holder was not fenced.
        assert len(entries_of(tmp_path, head.change)) == count
        assert recover(town, tmp_path).abandon(head.change).ending is Ending.PARTLY

    def test_negative_limits_are_refused(self):
        for limits in ({"canary": -1}, {"max_failures": -1}):
            with pytest.raises(UsageError, match="invalid limits"):
                Pace(**limits)


class TestFaults:
    def test_a_journal_that_fails_lets_no_lane_act_any_more(self, town, tmp_path):
        journal = DyingJournal(tmp_path, after=20)

        with pytest.raises(JournalError):
            apply(town, tmp_path, *([create(f"c-{number}")] for number in range(100)), journal=journal)

        entries = open_journal(tmp_path).read(journal.change)
        intended = [entry.body["step"] for entry in entries if entry.kind is EntryKind.INTENT]
        assert {name for _, name in town.writes} <= {f"c-{number}" for number in intended}

    def test_several_steps_in_hand_are_all_settled_by_a_resume(self, town, tmp_path):
        journal = DyingJournal(tmp_path, after=20)
        with pytest.raises(JournalError):
            apply(town, tmp_path, *([create(f"c-{number}")] for number in range(100)), journal=journal)

        result = recover(town, tmp_path).resume(journal.change)

        assert result.is_done
        assert sorted(town.configs) == sorted(f"c-{number}" for number in range(100))
        assert len(town.writes) == len(set(town.writes)) == 100

    def test_undo_takes_all_back_at_once(self, town, tmp_path):
        result = apply(town, tmp_path, *([create(f"c-{number}")] for number in range(50)))

        plan = plan_undo(recover(town, tmp_path), result.change)

        assert len(plan.steps) == 50
        assert all(step.kind == DeleteConnector.kind for step in plan.steps)

    def test_ten_thousand_steps_are_walked_in_linear_time(self, town):
        plan, steps = build_plan(town, *([create(f"c-{number}")] for number in range(10_000)))
        walk = PlanRun(build_tasks(plan, steps), plan.preconditions)
        # Going through all tasks for each of them would be 10^8 steps, and take minutes.
        for task in walk.tasks:
            assert walk.is_due(task, winding_up=False)
            walk.record(task, Outcome.DONE, intent=None)
        assert walk.unsettled() == []


class TestPen:
    def test_an_error_reaches_everybody_who_shared_the_write(self):
        gate = threading.Event()
        errors = []

        class Writer:
            entries = ()
            calls = 0

            def append_all(self, bodies):
                self.calls += 1
                if self.calls == 1:
                    assert gate.wait(20)
                raise JournalError(f"no room for {len(bodies)}")

        writer = Writer()
        pen = BatchingJournalWriter(writer)

        def write():
            try:
                pen.append(EntryKind.NOTE, {})
            except JournalError as error:
                errors.append(error)

        threads = [threading.Thread(target=write) for _ in range(5)]
        for thread in threads:
            thread.start()
        gate.set()
        for thread in threads:
            thread.join(20)
        assert len(errors) == 5
        assert writer.calls <= 5


class CountingJournal(FileJournal):
    """Counts how many entries each write had."""

    def __init__(self, folder):
        super().__init__(folder)
        self.writes = []

    def begin(self, opening):
        writer = super().begin(opening)
        inner = writer.append_all

        def append_all(bodies):
            self.writes.append(len(bodies))
            # A disk takes its time; one that is too fast would leave nobody waiting.
            time.sleep(0.002)
            return inner(bodies)

        writer.append_all = append_all
        return writer


class DyingJournal(FileJournal):
    """Fails for good after some entries, as a process does that is killed, or a disk that is full."""

    def __init__(self, folder, *, after):
        super().__init__(folder)
        self._after = after
        self.change = ""

    def begin(self, opening):
        self.change = opening.change
        writer = super().begin(opening)
        inner = writer.append_all

        def append_all(bodies):
            if len(writer.entries) + len(bodies) > self._after:
                raise JournalError("the disk is full")
            return inner(bodies)

        writer.append_all = append_all
        return writer


class TestTopics:
    """Topics and the rest are never in hand at the same time."""

    @staticmethod
    def go(*steps, failing=(), known=(), pace=None):
        """Walk the steps, each in its own lane. Gives what was begun, in order."""
        data = tuple(step.to_data(lane=step.subject) for step in steps)
        walk = PlanRun(build_tasks(Plan("t", "dev", "2026-01-01T00:00:00Z", "me", data)))
        begun = []

        def run(task):
            begun.append(task.lane)
            walk.record(task, Outcome.DID_NOT_HAPPEN if task.lane in failing else Outcome.DONE)

        for task in walk.tasks:
            if task.lane in known:
                walk.record(task, Outcome.DID_NOT_HAPPEN if task.lane in failing else Outcome.DONE)
        lanes = Lanes(
            walk, pace=pace or Pace(at_once=8), run=run, is_stopping=lambda: False, await_stable=lambda _clusters: None
        )
        lanes.go()
        return begun, [task.lane for task in walk.left]

    def test_what_follows_topics_waits_for_all_of_them(self):
        topics = [CreateTopic(f"t-{number}") for number in range(20)]
        begun, left = self.go(*topics, create("a"), create("b"))
        assert {*begun[:20]} == {topic.subject for topic in topics}
        assert {*begun[20:]} == {create("a").subject, create("b").subject}
        assert not left

    def test_topics_that_come_last_wait_for_the_others(self):
        begun, _ = self.go(create("a"), create("b"), CreateTopic("t"))
        assert begun[-1] == "topic/t"

    def test_nothing_follows_a_topic_that_failed(self):
        begun, left = self.go(CreateTopic("t"), CreateTopic("u"), create("a"), failing=["topic/t"])
        assert {*begun} == {"topic/t", "topic/u"}
        assert left == [create("a").subject]

    def test_nothing_follows_a_topic_that_had_failed_before_it_was_resumed(self):
        begun, left = self.go(CreateTopic("t"), create("a"), failing=["topic/t"], known=["topic/t"])
        assert begun == []
        assert left == [create("a").subject]

    def test_the_canaries_are_not_topics(self):
        begun, left = self.go(
            CreateTopic("t"), create("a"), create("b"), failing=[create("a").subject], pace=Pace(at_once=8, canary=1)
        )
        assert begun == ["topic/t", create("a").subject]
        assert left == [create("b").subject]


class TestWriters:
    def hold(self, enter, count):
        """So many come at once and stay; gives the most that were in at the same time, and lets them go."""
        inside, most, mutex = 0, 0, threading.Lock()
        full, go = threading.Event(), threading.Event()

        def stay():
            nonlocal inside, most
            with enter("connector/a/x"):
                with mutex:
                    inside += 1
                    most = max(most, inside)
                full.set()
                assert go.wait(10)
                with mutex:
                    inside -= 1

        threads = [threading.Thread(target=stay) for _ in range(count)]
        for thread in threads:
            thread.start()
        assert full.wait(10)
        # Another cluster has gates of its own.
        with enter("connector/b/x"):
            pass
        go.set()
        for thread in threads:
            thread.join(10)
        return most

    def test_few_send_at_a_time(self):
        assert 1 <= self.hold(Writers(3).sending, 30) <= 3

    def test_some_more_get_ready(self):
        assert 1 <= self.hold(Writers(3).readying, 30) <= 12
