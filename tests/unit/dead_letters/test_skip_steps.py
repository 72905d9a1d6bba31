"""The steps of a skip, on a sink in memory."""

from __future__ import annotations

import json

import pytest

from seamark.changes.step import Intent, Observed, build_step
from seamark.connect.model import ConnectorStatus, State, Task
from seamark.dead_letters.search import ROUNDS, build_search
from seamark.dead_letters.steps import (
    AwaitProgress,
    CreateDeadLetterTopic,
    Failure,
    OverrideConfig,
    RunTemporarily,
    SendToDeadLetter,
    is_copy_of,
)
from seamark.errors import DeadlineError, RefusedError
from seamark.kafka.model import RecordLocation, WholeRecord
from tests.ports import MethodPorts

PLACE = RecordLocation("t", 0, 5)
FAILED = "a.B: outer\nCaused by: c.d.Odd: the secret of record 5\n\tat x"


class Sink(MethodPorts):
    """A world with one sink that takes records one by one and fails at some; its clock goes when somebody sleeps."""

    def __init__(self, *, logs=None, poison=(PLACE,), holds_back=False):
        self.time = 0.0
        self.logs = logs or {("t", 0): 10}
        self.positions = dict.fromkeys(self.logs, 0)
        self.poison = set(poison)
        self.holds_back = holds_back
        self.state = State.RUNNING
        self.restarts = 0
        self.parked = []
        self.config = {"a": "1", "password": "hidden"}
        # Which partition is read first, for each start of the task.
        self.order = [sorted(self.logs)]
        self.failing = False

    @property
    def clock(self):
        return self

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.time += seconds
        if not self.failing:
            self._run()

    def _run(self):
        """Take everything in the order of this start, until one fails."""
        for spot in self.order[min(self.restarts, len(self.order) - 1)]:
            while self.positions[spot] < self.logs[spot]:
                place = RecordLocation(*spot, self.positions[spot])
                if place in self.poison:
                    self.failing = True
                    return
                self.positions[spot] += 1

    def read_status(self, _cluster, _name):
        state = State.FAILED if self.failing else State.RUNNING
        return ConnectorStatus(self.state, tasks=(Task(0, state, trace=FAILED if self.failing else ""),))

    def connect(self, _cluster):
        return self

    def records(self, _cluster, _name):
        return self

    def restart(self, _name, **_options):
        self.restarts += 1
        self.failing = False

    def read_config(self, name):
        return {**self.config, "name": name}

    def put_config(self, _name, config):
        self.config = dict(config)

    def seal(self, value):
        return f"sealed {len(value)}"

    def reveal(self, value):
        return value

    def read_positions(self):
        return dict.fromkeys(self.positions, 0) if self.holds_back else dict(self.positions)

    def read_ends(self):
        return dict(self.logs)

    def find_next(self, positions):
        return {spot: RecordLocation(*spot, at) for spot, at in positions.items() if at < self.logs[spot]}

    def read(self, place):
        if place.offset >= self.logs[place.spot]:
            return None
        return WholeRecord(place, 77, b"k", b"the secret of record 5", (("own", b"1"), ("own", None)))

    def is_dead_letter(self, topic, place):
        return any(found == topic and is_copy_of(record, place) for found, record in self.parked)

    def park(self, topic, record, headers):
        copy = WholeRecord(RecordLocation(topic, 0, 0), 0, record.key, record.value, (*record.headers, *headers))
        self.parked.append((topic, copy))


def perform(step, sink):
    return step.perform(sink, Intent(None, None))


def run_search(sink, place=None):
    """Perform the steps of a search as the executor does: a check only looks, and what acts has an intent before."""
    steps = tuple(build_search("c", "s", place))
    for step in steps:
        if not step.acts:
            restarts = sink.restarts
            step.perform(sink, Intent(None, None))
            assert sink.restarts == restarts, "a check restarted tasks"
            continue
        intent = step.intend(sink)
        if intent.before != intent.after:
            step.perform(sink, intent)
            assert step.observe(sink, intent) is Observed.AFTER
    return steps[0].search.sightings


class TestAwaiting:
    def test_known_record_is_reached_by_committed_position(self):
        sink = Sink()
        run_search(sink, PLACE)
        assert sink.positions == {("t", 0): 5}
        assert sink.restarts == 0

    def test_record_that_goes_through_is_not_the_one(self):
        with pytest.raises(RefusedError, match="has processed t-0@3; no record was skipped"):
            run_search(Sink(), RecordLocation("t", 0, 3))

    def test_record_behind_the_one_that_fails_is_never_reached(self):
        with pytest.raises(RefusedError, match="fails before t-0@7") as caught:
            run_search(Sink(), RecordLocation("t", 0, 7))
        assert "t-0@5" in caught.value.cause

    def test_sink_that_holds_positions_back_is_not_believed(self):
        with pytest.raises(RefusedError, match="fails before") as caught:
            run_search(Sink(holds_back=True), PLACE)
        assert "flush.size=1" in caught.value.hint

    def test_unknown_record_is_the_one_that_stands_still_twice(self):
        sink = Sink()
        assert run_search(sink) == [PLACE]
        assert sink.restarts == 1

    def test_partitions_that_move_on_are_ruled_out(self):
        logs = {("t", 0): 10, ("t", 1): 4, ("t", 2): 4}
        sink = Sink(logs=logs)
        first, second, third = sorted(logs)
        # The poison's partition comes first, then second, then last: each time one more is ruled out.
        sink.order = [[first, second, third], [second, first, third], [third, first]]
        assert run_search(sink) == [PLACE]

    def test_two_that_stand_still_are_named_and_nothing_is_chosen(self):
        sink = Sink(logs={("t", 0): 10, ("u", 0): 10}, poison=[PLACE, RecordLocation("u", 0, 0)])
        with pytest.raises(RefusedError, match="can't determine at which record") as caught:
            run_search(sink)
        assert caught.value.cause == "it may be one of t-0@5, u-0@0"
        assert sink.restarts == ROUNDS - 1

    def test_sink_that_took_all_does_not_fail_any_more(self):
        with pytest.raises(RefusedError, match="has processed all records"):
            run_search(Sink(poison=()))

    def test_sink_where_nothing_moves_is_given_up(self):
        sink = Sink()
        sink._run = lambda: None
        with pytest.raises(DeadlineError, match="did not fail again within 120 s"):
            run_search(sink, PLACE)


class TestRestarting:
    def test_each_restart_has_an_intent_with_the_failed_tasks(self):
        sink = Sink()
        look, restart, *_ = build_search("c", "s")
        perform(look, sink)
        assert restart.acts
        assert restart.intend(sink) == Intent(before={"failed": ["task 0"]}, after={"failed": []})

    def test_nothing_is_restarted_when_the_record_is_found(self):
        sink = Sink()
        look, restart, *_ = build_search("c", "s", PLACE)
        perform(look, sink)
        # The same in another process, which has not seen what the look found.
        for step in (restart, build_step(restart.to_data())):
            intent = step.intend(sink)
            assert intent.before == intent.after

    def test_a_resumed_search_begins_with_nothing_seen(self):
        sink = Sink()
        steps = [build_step(step.to_data()) for step in build_search("c", "s")]
        for step in steps[:-1]:
            intent = step.intend(sink)
            step.perform(sink, intent)
        with pytest.raises(RefusedError, match="can't determine"):
            perform(steps[-1], sink)


class TestParking:
    def build(self):
        failure = Failure("TASK_PUT", "x.Sink", "c.d.Odd", 1, "the secret of record 5", "trace with the secret")
        return SendToDeadLetter("c", "s", PLACE, "dlq", failure)

    def test_copy_has_its_bytes_its_place_and_the_error(self):
        sink, step = Sink(), self.build()
        intent = step.intend(sink)
        assert step.observe(sink, intent) is Observed.BEFORE
        step.perform(sink, intent)
        assert step.observe(sink, intent) is Observed.AFTER
        ((topic, copy),) = sink.parked
        assert (topic, copy.key, copy.value) == ("dlq", b"k", b"the secret of record 5")
        assert copy.headers[:2] == (("own", b"1"), ("own", None))
        headers = dict(copy.headers)
        assert headers["__connect.errors.offset"] == b"5"
        assert headers["__connect.errors.stage"] == b"TASK_PUT"
        assert headers["__connect.errors.exception.message"] == b"the secret of record 5"
        assert headers["seamark.record.timestamp"] == b"77"

    def test_what_is_parked_is_not_parked_again(self):
        sink, step = Sink(), self.build()
        step.perform(sink, step.intend(sink))
        intent = step.intend(sink)
        assert intent.before == intent.after
        other = SendToDeadLetter("c", "s", RecordLocation("t", 0, 6), "dlq").intend(sink)
        assert other.before != other.after

    def test_record_that_is_gone_is_not_parked(self):
        sink = Sink(logs={("t", 0): 5})
        with pytest.raises(RefusedError, match="does not exist any more; it was not sent"):
            perform(self.build(), sink)

    def test_plan_and_journal_hold_nothing_of_the_record(self):
        step = self.build()
        told = json.dumps([step.to_data().to_dict(), step.intend(Sink()).to_dict(), repr(step), step.describe()])
        assert "secret" not in told
        again = SendToDeadLetter.from_data(step.to_data())
        assert again == step
        sink = Sink()
        again.perform(sink, again.intend(sink))
        assert dict(sink.parked[0][1].headers)["__connect.errors.exception.message"].startswith(b"not stored")

    def test_undo_leaves_the_copy(self):
        assert self.build().undo(Intent(None, None)) is None


class TestLending:
    def test_lent_and_given_back_with_the_rest_as_connect_holds_it(self):
        sink = Sink()
        lend = OverrideConfig("c", "s", {"b": "2", "a": None})
        back = OverrideConfig("c", "s", {"b": None, "a": "1"}, returns=True)
        intent = lend.intend(sink)
        lend.perform(sink, intent)
        assert sink.config == {"b": "2", "password": "hidden"}
        assert lend.observe(sink, intent) is Observed.AFTER
        assert "hidden" not in json.dumps(intent.to_dict())
        back.perform(sink, back.intend(sink))
        assert sink.config == {"a": "1", "password": "hidden"}
        assert lend.undo(intent) == back
        assert back.undo(back.intend(sink)) is None

    def test_config_that_somebody_changed_meanwhile_is_left_alone(self):
        sink = Sink()
        lend = OverrideConfig("c", "s", {"b": "2"})
        intent = lend.intend(sink)
        sink.config["a"] = "theirs"
        with pytest.raises(RefusedError, match="another process has just changed"):
            lend.perform(sink, intent)

    def test_words_say_what_is_lent(self):
        step = OverrideConfig("c", "s", {"b": "2", "a": None})
        assert step.describe() == "set temporarily for connector/c/s: b=2, no a"

    def test_undo_of_a_change_does_not_repeat_what_was_for_a_while(self):
        intent = Intent({"state": "RUNNING"}, {"state": "STOPPED"})
        assert RunTemporarily("c", "s", "STOPPED").undo(intent) is None
        assert CreateDeadLetterTopic("dlq").undo(Intent(None, {})) is None


class TestProgress:
    def test_commit_behind_the_record_is_progress(self):
        sink = Sink(poison=())
        sink.positions[("t", 0)] = 6
        perform(AwaitProgress("c", "s", PLACE), sink)
        assert sink.time < 30

    def test_nothing_left_to_read_is_well(self):
        sink = Sink(logs={("t", 0): 6}, poison=())
        sink.positions[("t", 0)] = 6
        perform(AwaitProgress("c", "s", PLACE), sink)
        assert sink.time < 30

    def test_sink_that_runs_and_commits_late_is_well_in_the_end(self):
        sink = Sink(poison=())
        sink._run = lambda: None
        perform(AwaitProgress("c", "s", RecordLocation("t", 0, 0)), sink)
        assert sink.time >= 75

    def test_second_poison_is_told_without_its_contents(self):
        sink = Sink(poison=[RecordLocation("t", 0, 6)])
        sink.positions[("t", 0)] = 6
        with pytest.raises(RefusedError, match="t-0@5 was skipped, but connector/c/s fails again") as caught:
            perform(AwaitProgress("c", "s", PLACE), sink)
        assert caught.value.cause == "c.d.Odd"
        assert "seamark offsets skip c/s" in caught.value.hint
