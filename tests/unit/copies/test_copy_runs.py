"""Runs of copies: the target, the registry, going on, following, and what is told of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seamark.copies.cutover.operations import CutoverOperations
from seamark.copies.run.runner import CopyPace, CopyRunOptions
from seamark.copies.status import CopyState
from seamark.errors import FencedError, NotFoundError, PermissionDeniedError, RefusedError, UsageError
from seamark.spark.settings import SparkOptions
from seamark.spark.slices import OffsetRange, Slice
from tests.unit.copies.test_copy_plans import Desk

CONTROL = "seamark-control"


class Heard:
    def __init__(self):
        self.words, self.ticks = [], []

    def said(self, words):
        self.words.append(words)

    def ticked(self, tick):
        self.ticks.append(tick)


@pytest.fixture
def desk(tmp_path, monkeypatch):
    return Desk(tmp_path, monkeypatch)


@pytest.fixture
def plan(desk):
    return desk.plan(slice_records=1000).plan


def test_run_makes_the_target_registers_the_plan_and_copies_it(desk, plan):
    heard = Heard()
    outcome = desk.fleet.copies.run(plan, events=heard)
    assert outcome.progress.is_complete
    assert (outcome.written, outcome.behind, outcome.is_repeat) == (4000, 0, False)
    made = desk.brokers.topics["t-2"]
    assert len(made.logs) == 2
    assert made.configs["retention.ms"] == "-1"
    assert [tick.done for tick in heard.ticks] == list(range(1, len(plan.slices) + 1))
    assert (heard.ticks[-1].records, heard.ticks[-1].all_records) == (4000, 4000)
    assert plan.id in heard.words[0]
    registered = desk.logs.read_registered(CONTROL).found[plan.id]
    assert registered.generation == 1
    assert registered.body["target"]["topic_id"] == made.id
    assert desk.fleet.journal.list()[0].title == f"create topic t-2 for copy {plan.id}"
    assert desk.logs.holders[plan.id].closed


def test_second_run_does_nothing_and_needs_no_spark(desk, plan):
    desk.fleet.copies.run(plan)
    sessions = len(desk.spark.sessions)
    outcome = desk.fleet.copies.run(plan.id[:12])
    assert outcome.is_repeat
    assert len(desk.spark.sessions) == sessions == 1
    assert desk.logs.read_registered(CONTROL).found[plan.id].generation == 1


def test_run_that_was_killed_goes_on_by_its_id_alone(desk, plan):
    desk.spark.most = 2
    with pytest.raises(KeyboardInterrupt):
        desk.fleet.copies.run(plan)
    assert desk.logs.holders[plan.id].closed
    status = desk.fleet.copies.status(plan.id)
    assert (status.state, status.progress.done) == (CopyState.UNFINISHED, 2)
    assert status.next_step == f"seamark copies run {plan.id}"
    desk.spark.most = None
    outcome = desk.fleet.copies.run(plan.id.lower())
    assert outcome.progress.is_complete
    assert outcome.written == sum(one.size for one in plan.slices[2:])
    assert len(desk.spark.copied) == len(set(desk.spark.copied)) == len(plan.slices)


def test_following_extends_the_plan_until_little_is_left(desk, plan):
    left = [700, 30]

    def produce():
        if len(desk.spark.copied) in {len(plan.slices), len(plan.slices) + 1} and left:
            count = left.pop(0)
            for log in desk.brokers.topics["t"].logs:
                log.extend([9_000_000] * count)

    desk.spark.on_copied = produce
    heard = Heard()
    outcome = desk.fleet.copies.run(plan, options=CopyRunOptions(follow=True, lag=200), events=heard)
    assert outcome.rounds == 1
    assert outcome.behind == 120
    assert outcome.plan.size == 4000 + 2800
    registered = desk.logs.read_registered(CONTROL).found[plan.id]
    assert registered.generation == 2
    # The file is of the first generation; what was registered counts.
    known = desk.fleet.copies.find(plan)
    assert known.plan == outcome.plan
    status = desk.fleet.copies.status(plan)
    assert (status.state, status.behind) == (CopyState.BEHIND, 120)
    assert status.next_step.endswith("--follow")
    assert "round 1: 2,800 new records" in heard.words[-1]


def test_second_driver_fences_the_registration_of_the_first(desk, plan):
    desk.spark.on_copied = lambda: desk.logs.hold(CONTROL, plan=plan.id)
    desk.brokers.topics["t"].logs[0] += [9_000_000] * 5000
    with pytest.raises(FencedError):
        desk.fleet.copies.run(plan, options=CopyRunOptions(follow=True, lag=0))


def test_read_only_context_runs_no_copy_by_command_or_step(desk, plan):
    copies = desk.fleet.copies
    copies.run(plan)
    desk.brokers.topics["t"].logs[0] += [9_000_000] * 5
    holder, operations = desk.logs.holders[plan.id], CutoverOperations(copies.endpoints, spark=SparkOptions(session=1))
    object.__setattr__(desk.fleet.context, "read_only", True)
    follow = CopyRunOptions(follow=True, lag=0)
    for run in (lambda: copies.run(plan.id, options=follow), lambda: operations.catch_up(plan.id)):
        with pytest.raises(PermissionDeniedError, match="run a topic copy"):
            run()
    # To take the registration would fence the process that runs the copy.
    assert desk.logs.holders[plan.id] is holder
    object.__setattr__(desk.fleet.context, "read_only", False)
    assert operations.catch_up(plan.id) == "5 records copied"


def test_refused_plan_is_not_run(desk):
    desk.logs.keys["t"] = []
    refused = replace(desk.plan().plan, refusals=("because",))
    with pytest.raises(RefusedError, match="can't be copied"):
        desk.fleet.copies.run(refused)
    assert desk.brokers.writes == []


def test_plan_of_another_cluster_is_refused(desk, plan):
    foreign = replace(plan, source=replace(plan.source, cluster_id="elsewhere"))
    with pytest.raises(RefusedError, match="another Kafka cluster"):
        desk.fleet.copies.run(foreign)
    assert desk.brokers.writes == []


def test_target_that_is_gone_or_made_anew_is_a_loss(desk, plan):
    desk.spark.most = 1
    with pytest.raises(KeyboardInterrupt):
        desk.fleet.copies.run(plan)
    del desk.brokers.topics["t-2"]
    with pytest.raises(RefusedError, match="of the copy was deleted"):
        desk.fleet.copies.run(plan)
    assert desk.fleet.copies.status(plan.id).state is CopyState.BROKEN
    desk.brokers.add_topic("t-2", partitions=2)
    with pytest.raises(RefusedError, match="of the copy was recreated"):
        desk.fleet.copies.run(plan)


def test_empty_target_gets_the_configs_of_the_plan(desk):
    desk.brokers.add_topic("mine", partitions=2, configs={"retention.ms": "5"})
    plan = desk.plan(to="mine").plan
    desk.fleet.copies.run(plan)
    assert desk.brokers.topics["mine"].configs["retention.ms"] == "-1"


def test_another_plan_under_the_same_id_is_refused(desk, plan):
    desk.fleet.copies.run(plan)
    other = replace(desk.plan(slice_records=300).plan, id=plan.id)
    with pytest.raises(RefusedError, match="differs from the plan that is registered"):
        desk.fleet.copies.run(other)


def test_unknown_and_ambiguous_ids_are_told(desk, plan):
    desk.fleet.copies.run(plan)
    with pytest.raises(NotFoundError, match="copy 01ZZ does not exist"):
        desk.fleet.copies.find("01ZZ")
    other = desk.plan(to="u", slice_records=1000).plan
    desk.fleet.copies.run(other)
    with pytest.raises(UsageError, match="is ambiguous"):
        desk.fleet.copies.find(plan.id[:4])
    with pytest.raises(NotFoundError, match="never run"):
        desk.fleet.copies.status(desk.plan(to="v").plan)


def test_all_copies_are_listed_the_newest_first(desk, plan):
    assert desk.fleet.copies.list().items == ()
    desk.fleet.copies.run(plan)
    other = desk.plan(to="u").plan
    desk.fleet.copies.run(other)
    found = desk.fleet.copies.list().items
    assert {status.plan.id for status in found} == {plan.id, other.id}
    assert [status.registration.registered_at for status in found] == sorted(
        (status.registration.registered_at for status in found), reverse=True
    )


def test_status_tells_debris_and_contradictions(desk, plan):
    desk.fleet.copies.run(plan)
    desk.brokers.topics["t-2"].logs[1] += [0, 0]
    (aborted,) = desk.fleet.copies.status(plan.id).aborted
    assert (aborted.target, aborted.size) == (1, 2)
    desk.logs.records[plan.id] = desk.logs.records[plan.id][2:]
    status = desk.fleet.copies.status(plan.id)
    assert status.state is CopyState.BROKEN
    assert "contradict" in status.trouble.message
    assert status.next_step == status.trouble.hint


def test_open_transaction_on_the_control_topic_is_no_contradiction(desk, plan):
    desk.fleet.copies.run(plan)
    desk.logs.is_whole = False
    status = desk.fleet.copies.status(plan.id)
    assert status.state is CopyState.COPIED
    assert "may not be counted" in status.notes[0]
    desk.logs.records[plan.id] = desk.logs.records[plan.id][2:]
    status = desk.fleet.copies.status(plan.id)
    assert status.trouble.retryable
    assert "try again" in status.next_step


def test_plan_that_can_not_be_read_hides_no_other(desk, plan):
    desk.fleet.copies.run(plan)
    desk.logs.plans[CONTROL].append((b"/plan/01BAD/0", b"nonsense"))
    reading = desk.fleet.copies.list()
    assert [status.plan.id for status in reading.items] == [plan.id]
    assert list(reading.failures) == ["01BAD"]
    with pytest.raises(RefusedError, match="01BAD"):
        desk.fleet.copies.find("01BAD")


def test_source_that_is_gone_is_a_note_of_the_status(desk, plan):
    desk.fleet.copies.run(plan)
    del desk.brokers.topics["t"]
    status = desk.fleet.copies.status(plan.id)
    assert status.behind is None
    assert "is unknown" in status.notes[0]


def test_rate_is_held_by_waiting_between_slices():
    slices = tuple(Slice(n, (OffsetRange(0, n * 100, n * 100 + 100),)) for n in range(3))
    clock = {"now": 0.0}
    naps = []

    def sleep(seconds):
        naps.append(seconds)
        clock["now"] += seconds

    heard = Heard()
    pace = CopyPace(slices, heard, now=lambda: clock["now"], sleep=sleep, limit=50)
    pace.begin()
    for number, part in enumerate(slices, start=1):
        clock["now"] += 0.5
        pace.on_slice(part, number, 3)
    assert naps == [1.5, 1.5]
    assert [tick.rate for tick in heard.ticks[:2]] == [50.0, 50.0]
    assert heard.ticks[0].left_seconds == 4.0
