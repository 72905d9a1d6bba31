"""A cut-over from its first stop to its last start: done, failed, broken off, resumed, taken back."""

from __future__ import annotations

import pytest

from seamark.changes.step import build_step
from seamark.copies.cutover.action import CutoverGroup
from seamark.copies.cutover.steps import StartSwitched
from seamark.errors import DeadlineError, RefusedError, UnreachableError
from tests.unit.copies.harbour import Harbour

OLD = {"lake": {"topics": "orders,other"}, "shop": {"topic": "orders"}}
NEW = {"lake": {"topics": "orders-1,other"}, "shop": {"topic": "orders-1"}}
BEFORE = {"connect-lake": {("orders", 0): 7, ("orders", 1): 9}, "report": {("orders", 0): 2, ("orders", 1): 2}}


@pytest.fixture
def harbour(tmp_path):
    return Harbour(tmp_path)


def test_readers_stop_first_and_writers_start_last(harbour):
    result = harbour.apply(harbour.plan(harbour.build_cutover()))
    assert str(result.ending) == "done"
    assert harbour.log == [
        "approach", "stop lake", "stop shop", "catch up", "verify standard", "put lake", "put shop", "start lake",
        "start shop",
    ]  # fmt: skip
    assert harbour.configs == NEW
    assert harbour.commits["connect-lake"] == {**BEFORE["connect-lake"], ("orders-1", 0): 14}
    assert harbour.commits["report"] == {**BEFORE["report"], ("orders-1", 0): 3}
    assert harbour.brokers.topics["orders-1"].configs == {}
    notes = {step.subject: step.note for step in result.steps if step.kind == "translate-group"}
    assert notes["group/connect-lake"] == "20 records to read, 2 records to reprocess"
    assert notes["group/report"] == "20 records to read, no records to reprocess"


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("catch up", UnreachableError("no Spark")),
        ("put lake", RefusedError("no such transform")),
        ("put shop", RefusedError("no such transform")),
    ],
)
def test_everybody_goes_on_where_they_were_after_a_failure(harbour, where, error):
    harbour.failing[where] = error
    result = harbour.apply(harbour.plan(harbour.build_cutover()))
    assert str(result.ending) != "done"
    assert harbour.configs == OLD
    assert harbour.states == {"lake": "RUNNING", "shop": "RUNNING"}
    assert harbour.brokers.topics["orders-1"].configs == {"retention.ms": "-1"}
    # Its positions in the source are what counts then.
    assert {name: {k: v for k, v in found.items() if k[0] == "orders"} for name, found in harbour.commits.items()} == (
        BEFORE
    )


def test_copy_that_does_not_verify_turns_nobody_over(harbour):
    harbour.proof = "3 records are lost: orders-0@5 …"
    result = harbour.apply(harbour.plan(harbour.build_cutover()))
    failed = [step for step in result.steps if step.error is not None]
    assert [step.kind for step in failed] == ["prove-copy"]
    assert "3 records are lost" in failed[0].error.message
    assert (harbour.configs, harbour.commits) == (OLD, BEFORE)
    assert harbour.states == {"lake": "RUNNING", "shop": "RUNNING"}


def test_producer_that_nobody_stopped_is_found(harbour):
    catch_up = harbour.catch_up

    def write_behind(copy):
        words = catch_up(copy)
        harbour.produce("orders")
        return words

    harbour.catch_up = write_behind
    result = harbour.apply(harbour.plan(harbour.build_cutover()))
    failed = [step for step in result.steps if step.error is not None]
    assert [step.kind for step in failed] == ["prove-quiet"]
    assert "a producer still writes to orders: 1 offsets" in failed[0].error.message
    assert (harbour.configs, harbour.commits) == (OLD, BEFORE)


def test_sink_that_does_not_run_on_the_new_topic_is_turned_back(harbour):
    # It fails while one of its values is this.
    harbour.configs["lake"]["fails"] = "orders-1,other"
    result = harbour.apply(harbour.plan(harbour.build_cutover()))
    assert [step.kind for step in result.steps if step.error is not None] == ["await-running"]
    assert harbour.configs["lake"]["topics"] == "orders,other"
    assert harbour.configs["shop"] == OLD["shop"]
    assert "start shop" in harbour.log
    assert harbour.log.index("put shop") < harbour.log.index("start shop")
    assert harbour.states == {"lake": "RUNNING", "shop": "RUNNING"}


def test_nobody_starts_while_the_cutover_stands_halfway(harbour):
    # The answer is lost, and nobody can read the config of this one any more.
    harbour.unknown.add("put shop")
    read_config = harbour.read_config

    def fail(name):
        if name == "shop" and "put shop" in harbour.log:
            raise UnreachableError("no answer")
        return read_config(name)

    harbour.read_config = fail
    result = harbour.apply(harbour.plan(harbour.build_cutover()))
    assert result.ending is None
    assert harbour.states == {"lake": "STOPPED", "shop": "STOPPED"}
    harbour.read_config = read_config
    again = harbour.resume_change(result.change)
    assert again.ending is not None
    assert harbour.configs in (OLD, NEW)
    assert harbour.states == {"lake": "RUNNING", "shop": "RUNNING"}


@pytest.mark.parametrize("switched", [("lake",), ("shop",)])
def test_connector_is_not_started_while_only_some_are_switched(harbour, switched):
    plan = harbour.plan(harbour.build_cutover())
    steps = [step for data in plan.steps if isinstance(step := build_step(data), StartSwitched)]
    assert steps
    for name in ("lake", "shop"):
        harbour.states[name] = "STOPPED"
    for name in switched:
        harbour.configs[name] = dict(NEW[name])
    for step in steps:
        with pytest.raises(RefusedError, match="the cutover is incomplete"):
            step.intend(harbour)


def test_debris_ahead_is_a_refusal_for_who_reads_what_was_taken_back(harbour):
    cutover = harbour.build_cutover(groups=(CutoverGroup("connect-lake", sees_aborted=True),))
    result = harbour.apply(harbour.plan(cutover))
    failed = [step for step in result.steps if step.error is not None]
    assert "aborted records of failed attempts" in failed[0].error.message
    assert "--read-committed" in failed[0].error.hint
    assert harbour.configs == OLD


def test_group_that_somebody_is_in_is_not_carried_over(harbour):
    harbour.brokers.groups["report"].state = "STABLE"
    result = harbour.apply(harbour.plan(harbour.build_cutover()))
    failed = [step for step in result.steps if step.error is not None]
    assert [(step.kind, step.subject) for step in failed] == [("translate-group", "group/report")]
    assert harbour.configs == OLD


def test_cutover_is_taken_back(harbour):
    result = harbour.apply(harbour.plan(harbour.build_cutover()))
    undone = harbour.apply(harbour.undo(result.change)[0])
    assert str(undone.ending) == "done"
    assert (harbour.configs, harbour.commits) == (OLD, BEFORE)
    assert harbour.states == {"lake": "RUNNING", "shop": "RUNNING"}
    assert harbour.brokers.topics["orders-1"].configs == {"retention.ms": "-1"}
    with pytest.raises(RefusedError, match="can't be undone"):
        harbour.undo(undone.change)


def test_cutover_can_not_be_taken_back_once_somebody_has_written_to_the_target(harbour):
    result = harbour.apply(harbour.plan(harbour.build_cutover()))
    plan, _ = harbour.undo(result.change)
    harbour.produce("orders-1")
    with pytest.raises(RefusedError, match="1 offsets were written to orders-1 since"):
        harbour.undo(result.change)
    # Who was faster than the plan is seen when everybody has stopped, and they go on with the target.
    late = harbour.apply(plan)
    assert [step.kind for step in late.steps if step.error is not None] == ["prove-untouched"]
    assert harbour.configs == NEW
    assert harbour.states == {"lake": "RUNNING", "shop": "RUNNING"}
    assert harbour.commits["connect-lake"][("orders-1", 0)] == 14


def test_way_back_stops_everybody_before_it_looks_and_turns(harbour):
    result = harbour.apply(harbour.plan(harbour.build_cutover()))
    _, steps = harbour.undo(result.change)
    kinds = [step.kind for step in steps]
    assert kinds == [
        "set-run-state", "set-run-state", "prove-stopped", "prove-stopped", "prove-untouched", "switch-connector-back",
        "switch-connector-back", "alter-topic-config", "restore-group", "restore-group", "set-run-state",
        "set-run-state",
    ]  # fmt: skip


def test_writes_to_the_target_are_found_where_no_reader_was_carried(harbour):
    result = harbour.apply(harbour.plan(harbour.build_cutover(groups=())))
    plan, _ = harbour.undo(result.change)
    harbour.produce("orders-1")
    with pytest.raises(RefusedError, match="1 offsets were written to orders-1 since"):
        harbour.undo(result.change)
    late = harbour.apply(plan)
    assert [step.kind for step in late.steps if step.error is not None] == ["prove-untouched"]
    assert harbour.configs == NEW
    assert harbour.states == {"lake": "RUNNING", "shop": "RUNNING"}


def test_writes_to_the_target_are_found_where_an_earlier_try_has_carried_all_readers(harbour):
    harbour.failing["put shop"] = RefusedError("no such transform")
    assert str(harbour.apply(harbour.plan(harbour.build_cutover())).ending) != "done"
    result = harbour.apply(harbour.plan(harbour.build_cutover()))
    carried = [str(step.outcome) for step in result.steps if step.kind == "translate-group"]
    assert carried == ["nothing to do", "nothing to do"]
    harbour.produce("orders-1")
    with pytest.raises(RefusedError, match="1 offsets were written to orders-1 since"):
        harbour.undo(result.change)


def test_nobody_is_turned_over_again_to_a_target_that_lacks_records(harbour):
    result = harbour.apply(harbour.plan(harbour.build_cutover(groups=())))
    undone = harbour.apply(harbour.undo(result.change)[0])
    assert harbour.configs == OLD
    plan, _ = harbour.undo(undone.change)
    harbour.produce("orders")
    with pytest.raises(RefusedError, match="a producer still writes to orders"):
        harbour.undo(undone.change)
    late = harbour.apply(plan)
    assert [step.kind for step in late.steps if step.error is not None] == ["prove-quiet"]
    assert harbour.configs == OLD


def test_cutover_of_which_an_undo_took_back_a_part_is_restored(harbour):
    result = harbour.apply(harbour.plan(harbour.build_cutover()))
    plan, _ = harbour.undo(result.change)
    harbour.failing["put lake"] = RefusedError("no such transform")
    halfway = harbour.apply(plan)
    assert harbour.configs == {"lake": NEW["lake"], "shop": OLD["shop"]}
    again = harbour.apply(harbour.undo(halfway.change)[0])
    assert str(again.ending) == "done"
    assert harbour.configs == NEW


def test_undo_of_a_failed_cutover_leaves_out_what_is_restored_already(harbour):
    harbour.failing["put shop"] = RefusedError("no such transform")
    failed = harbour.apply(harbour.plan(harbour.build_cutover()))
    plan, steps = harbour.undo(failed.change)
    assert [step.kind for step in steps] == [
        "set-run-state", "set-run-state", "prove-stopped", "prove-stopped", "prove-untouched", "restore-group",
        "restore-group", "set-run-state", "set-run-state",
    ]  # fmt: skip
    assert str(harbour.apply(plan).ending) == "done"
    assert (harbour.configs, harbour.commits) == (OLD, BEFORE)
    assert harbour.states == {"lake": "RUNNING", "shop": "RUNNING"}


def test_connector_that_was_started_since_is_stopped_for_the_undo_and_runs_again(harbour):
    harbour.states["lake"] = "STOPPED"
    harbour.approach = lambda _: "nothing new"
    result = harbour.apply(harbour.plan(harbour.build_cutover()))
    assert harbour.states == {"lake": "STOPPED", "shop": "RUNNING"}
    harbour.states["lake"] = "RUNNING"
    del harbour.log[:]
    assert str(harbour.apply(harbour.undo(result.change)[0]).ending) == "done"
    assert harbour.log == ["stop shop", "stop lake", "put shop", "put lake", "start shop", "start lake"]
    assert harbour.configs == OLD


@pytest.mark.parametrize("where", ["stop shop", "catch up", "put lake", "put shop", "start lake"])
def test_killed_cutover_is_resumed(harbour, where):
    class Kill(BaseException):
        pass

    harbour.failing[where] = Kill()
    with pytest.raises(Kill):
        harbour.apply(harbour.plan(harbour.build_cutover()))
    harbour.sleep(1000)
    result = harbour.resume_change(harbour.open_change)
    assert str(result.ending) == "done"
    assert harbour.configs == NEW
    assert harbour.states == {"lake": "RUNNING", "shop": "RUNNING"}
    assert harbour.log.count("catch up") == 1


def test_deadline_is_no_reason_to_leave_anybody_stopped(harbour):
    harbour.failing["catch up"] = DeadlineError("Spark did not come to its end")
    harbour.apply(harbour.plan(harbour.build_cutover()))
    assert harbour.states == {"lake": "RUNNING", "shop": "RUNNING"}
