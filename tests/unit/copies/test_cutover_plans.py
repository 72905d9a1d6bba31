"""Plans of cut-overs: who takes part, what is said of each, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from seamark.changes.plan import Plan
from seamark.copies.cutover.planner import CutoverOptions
from seamark.copies.plan.plan import build_back_name
from seamark.copies.run.runner import CopyRunOptions
from seamark.errors import NotFoundError, RefusedError, UsageError
from seamark.kafka.groups import Committed, GroupMember
from tests.unit.copies.test_copy_plans import Desk
from tests.unit.fleet.living import SINK_CONFIG, SOURCE, register

SOURCE_CONFIG = {"connector.class": SOURCE, "topic": "t"}


@pytest.fixture
def desk(tmp_path, monkeypatch):
    made = Desk(tmp_path, monkeypatch)
    made.game.add("lake", SINK_CONFIG)
    made.game.add("shop", SOURCE_CONFIG)
    made.brokers.add_group("connect-lake", {("t", n): 990 for n in range(4)})
    made.brokers.add_group("report", {("t", n): 10 for n in range(4)})
    made.brokers.topics["t"].configs = {"min.insync.replicas": "1"}
    made.copy = made.plan().plan
    made.fleet.copies.run(made.copy)
    return made


def plan(desk, **options):
    return desk.fleet.copies.cutover(desk.copy.id, CutoverOptions(**options))


def test_plan_names_everybody_and_what_becomes_of_them(desk):
    planned = plan(desk, allow_aborted_records=True)
    subjects = [effect.subject for effect in planned.effects]
    assert subjects == [
        "connector/game/lake", "connector/game/shop", "group/connect-lake", "group/report", "topic/t-2",
    ]  # fmt: skip
    fields = {field.key: (field.before, field.after) for effect in planned.effects[:2] for field in effect.fields}
    assert fields == {"topics": ("t", "t-2"), "topic": ("t", "t-2")}
    assert set(planned.plan.locks) >= {"data.t", "data.t-2", "group.report"}
    assert any(lock.startswith("group.connect-lake@") for lock in planned.plan.locks)
    assert any("until a producer writes to the new topic" in note for note in planned.plan.notes)
    assert any("would reprocess" in consequences for effect in planned.effects for consequences in effect.consequences)
    # Nothing but the target was made.
    assert [write[0] for write in desk.brokers.writes] == ["create_topic"]


def test_saved_plan_says_the_same_when_it_is_reviewed(desk):
    planned = plan(desk, allow_aborted_records=True)
    saved = Plan.from_file(json.loads(json.dumps(planned.plan.to_file())))
    assert not saved.steps
    registered = register(desk.fleet, saved)
    reviewed = desk.fleet.review(registered)
    assert (replace(reviewed.plan, id=""), reviewed.effects) == (planned.plan, planned.effects)
    assert reviewed.needs == planned.needs


def test_plan_for_the_same_name_deletes_the_topic_and_says_so(desk):
    planned = plan(desk, in_place=True, allow_aborted_records=True)
    assert [effect.subject for effect in planned.effects if effect.sign.value == "-"] == ["topic/t"]
    assert any("can't be undone once the topic is deleted" in note for note in planned.plan.notes)
    assert not any(field.key == "topics" for effect in planned.effects for field in effect.fields)
    assert any(step.insists for step in planned.plan.steps)
    (made,) = [step for step in planned.plan.steps if step.kind == "create-topic"]
    assert made.arguments["configs"] == {choice.key: choice.value for choice in desk.copy.configs}
    assert made.arguments["configs"]["min.insync.replicas"] == "1"


def test_topic_is_not_deleted_with_what_the_copy_left_out(desk):
    part = desk.plan(to="part", since=400).plan
    desk.fleet.copies.run(part)
    with pytest.raises(RefusedError, match="t can't be recreated from this copy") as caught:
        desk.fleet.copies.cutover(part.id, CutoverOptions(in_place=True))
    assert "1600 offsets before the start of the copy" in caught.value.cause
    planned = desk.fleet.copies.cutover(part.id, CutoverOptions(allow_aborted_records=True))
    assert any("1600 offsets of t before the start of the copy are not in part" in note for note in planned.plan.notes)


def test_nobody_can_be_left_with_a_topic_that_is_made_anew(desk):
    with pytest.raises(UsageError, match="--exclude-group can't be used with --in-place: t"):
        plan(desk, in_place=True, leave=("report",))


def test_sinks_are_told_to_read_committed_records(desk):
    planned = plan(desk, read_committed=True)
    (sink,) = [effect for effect in planned.effects if effect.subject == "connector/game/lake"]
    assert ("consumer.override.isolation.level", None, "read_committed") in [
        (field.key, field.before, field.after) for field in sink.fields
    ]
    sees = {
        data.arguments["group"]: data.arguments["sees_aborted"]
        for data in planned.plan.steps
        if data.kind == "translate-group"
    }
    # How a plain group reads nobody can tell.
    assert sees == {"connect-lake": False, "report": True}


def test_group_with_members_is_refused_or_left(desk):
    member = GroupMember("m", "c", "h", assignment=(("t", 0),))
    desk.brokers.add_group("report", {("t", 0): 10}, state="STABLE", members=(member,))
    with pytest.raises(RefusedError, match="t has active consumers that seamark can't stop") as caught:
        plan(desk)
    assert "--exclude-group report" in caught.value.hint
    planned = plan(desk, leave=("report",))
    assert "group/report" not in [effect.subject for effect in planned.effects]
    assert any("report is not changed and stays on t" in note for note in planned.plan.notes)


def test_sink_with_a_pattern_can_only_go_in_place(desk):
    desk.game.add("wide", {"connector.class": SINK_CONFIG["connector.class"], "topics.regex": "t"})
    with pytest.raises(RefusedError, match="connector game/wide can't be switched to topic t-2"):
        plan(desk)
    assert "connector/game/wide" in [effect.subject for effect in plan(desk, in_place=True).effects]


def test_name_that_a_pattern_takes_is_no_target(desk):
    desk.game.add("wide", {"connector.class": SINK_CONFIG["connector.class"], "topics.regex": "t-.*"})
    draft = desk.plan("4:3")
    assert draft.plan.is_refused
    assert "connector/game/wide has topics.regex 't-.*'" in draft.plan.refusals[0]


def test_connector_of_another_kafka_is_refused(desk):
    desk.game.add("far", {**SINK_CONFIG, "consumer.override.bootstrap.servers": "far:9092"})
    with pytest.raises(RefusedError, match="game/far can't be switched: it uses another Kafka cluster"):
        plan(desk)


def test_copy_that_was_never_run_is_not_cut_over(desk):
    with pytest.raises(NotFoundError, match="was never run"):
        desk.fleet.copies.cutover(desk.plan("4:3").plan)


def test_finish_refuses_a_topic_that_a_reader_was_not_carried_from(desk):
    with pytest.raises(RefusedError, match="t is still needed") as caught:
        desk.fleet.copies.cleanup(desk.copy.id)
    assert "connect-lake, report has offsets in it, and none in t-2" in caught.value.cause


@pytest.fixture
def turned(desk):
    """Everybody is with the target."""
    desk.game.add("lake", {**SINK_CONFIG, "topics": "t-2"})
    desk.game.add("shop", {**SOURCE_CONFIG, "topic": "t-2"})
    for group in ("connect-lake", "report"):
        desk.brokers.groups[group].offsets |= {("t-2", 0): desk.brokers.groups[group].offsets["t", 0]}
    return desk


def test_finish_deletes_what_nobody_uses(turned):
    planned = turned.fleet.copies.cleanup(turned.copy.id)
    assert [(effect.sign.value, effect.subject) for effect in planned.effects] == [("-", "topic/t")]


def test_finish_refuses_what_somebody_has_written_to_the_source_since(turned):
    logs = turned.brokers.topics["t"].logs
    logs[1] += [0]
    logs[3] += [0, 0]
    with pytest.raises(RefusedError, match="t has 3 offsets that were never copied to t-2") as caught:
        turned.fleet.copies.cleanup(turned.copy.id)
    assert caught.value.cause == "offsets after the copied ones: partition 1 has 1, partition 3 has 2"
    assert f"seamark copies run {turned.copy.id} --follow --max-lag 0" in caught.value.hint
    # What it says to do does it, also behind what others have written to the target.
    turned.brokers.topics["t-2"].logs[0] += [0]
    turned.fleet.copies.run(turned.copy.id, options=CopyRunOptions(follow=True, lag=0))
    assert [effect.subject for effect in turned.fleet.copies.cleanup(turned.copy.id).effects] == ["topic/t"]


def test_finish_sees_partitions_that_came_later_and_not_what_retention_took(turned):
    source = turned.brokers.topics["t"]
    source.logs.append([0, 0])
    with pytest.raises(RefusedError, match="t has 2 offsets") as caught:
        turned.fleet.copies.cleanup(turned.copy.id)
    assert caught.value.cause == "offsets after the copied ones: partition 4 has 2"
    source.starts[4] = 2
    assert turned.fleet.copies.cleanup(turned.copy.id)


def make_anew(desk):
    """The source is another topic of its name, as large as the copy."""
    desk.brokers.add_topic("t", partitions=2)
    for group in ("connect-lake", "report"):
        desk.brokers.groups[group].offsets |= {(topic, n): Committed(1) for topic in ("t", "t-2") for n in range(2)}


def test_finish_keeps_the_only_copy_of_a_topic_that_was_made_anew(turned):
    make_anew(turned)
    with pytest.raises(RefusedError, match="t-2 was never copied to t; nothing was deleted"):
        turned.fleet.copies.cleanup(turned.copy.id)


def test_finish_keeps_a_copy_that_is_not_wholly_back(desk):
    make_anew(desk)
    desk.fleet.copies.operations.begin_back(desk.copy.id)
    back = build_back_name(desk.copy.id)
    with pytest.raises(RefusedError, match="t-2 has 4002 offsets that were never copied to t;") as caught:
        desk.fleet.copies.cleanup(desk.copy.id)
    assert f"seamark copies run {back} --follow --max-lag 0" in caught.value.hint
    desk.fleet.copies.run(back)
    assert [effect.subject for effect in desk.fleet.copies.cleanup(desk.copy.id).effects] == ["topic/t-2"]
    desk.brokers.topics["t-2"].logs[1] += [0]
    with pytest.raises(RefusedError, match="t-2 has 1 offsets"):
        desk.fleet.copies.cleanup(desk.copy.id)
