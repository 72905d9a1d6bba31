"""Records of a source are mended, and cleaned out of a log in memory, whose cleaner works when it is told to."""

from __future__ import annotations

import pytest

from seamark.change.step import Intent, Observed
from seamark.change.steps.cleaning import CLEANING, AwaitCleaned, LendTopicConfig, LevelRecords
from seamark.change.steps.mend import MendOffsets, VerifyMended
from seamark.errors import DeadlineError, RefusedError, UnknownOutcomeError, UnreachableError, UnsettledError
from seamark.model.connector import State
from seamark.model.held_offset import HeldRecord
from seamark.offsets.mending import MendRule, settle_rule
from tests.unit.change.odd_topic import ASIDE, FARTHER, HOME, KEY, PARTITION, World, home

AT_HOME, STRAY = HeldRecord("t", HOME, KEY, b'{"p":2}'), HeldRecord("t", ASIDE, KEY, b'{"p":9}')
RULE = MendRule(PARTITION, HOME, KEY)
MEND = MendOffsets("game", "orders", "t", (RULE,), clean=True, gone=(STRAY.place,))
AWAIT = AwaitCleaned("game", "t", (HeldRecord("t", ASIDE, KEY),), 20.0)
LEVEL = LevelRecords("game", "orders", "t", (settle_rule(RULE, home),), clean=True)
VERIFY = VerifyMended("game", "orders", "t", (settle_rule(RULE, home),), clean=True)


def perform(step, world):
    intent = Intent.from_dict(step.intend(world).to_dict())
    assert step.observe(world, intent) is Observed.BEFORE
    step.perform(world, intent)
    assert step.observe(world, intent) is Observed.AFTER
    return intent


def test_a_stray_is_cleaned_away_and_what_is_at_home_is_told_again():
    world = World(AT_HOME, STRAY)
    intent = perform(MEND, world)
    assert world.held() == {(HOME, KEY): b'{"p":2}', (ASIDE, KEY): None}
    # What is emptied comes before what holds the value, and some time before it.
    assert [record.partition for record, _ in world.log[-2:]] == [ASIDE, HOME]
    assert world.log[-1][1] - world.log[-2][1] >= 2000
    assert "gone after" in AWAIT.perform(world, Intent(None, None))
    assert world.rolled == 2
    perform(LEVEL, world)
    assert world.held() == {(HOME, KEY): b'{"p":2}'}
    assert VERIFY.perform(world, Intent(None, None)) is None
    back = MEND.undo(intent)
    assert [(record.partition, record.value) for record in back.records] == [(ASIDE, b'{"p":9}'), (HOME, b'{"p":2}')]


def test_what_a_running_task_stored_until_its_stop_counts():
    world = World(AT_HOME, STRAY, HeldRecord("t", HOME, KEY, b'{"p":3}'))
    perform(MEND, world)
    assert world.held()[HOME, KEY] == b'{"p":3}'


def test_a_cleaner_that_does_not_come_leaves_no_tombstone_in_the_way():
    world = World(AT_HOME, STRAY, rounds=1000)
    perform(MEND, world)
    with pytest.raises(DeadlineError, match="did not clean topic/t within 20 s"):
        AWAIT.perform(world, Intent(None, None))
    perform(LEVEL, world)
    assert world.held() == {(HOME, KEY): b'{"p":2}', (ASIDE, KEY): b'{"p":2}'}
    with pytest.raises(RefusedError, match="are not what they should be"):
        VERIFY.perform(world, Intent(None, None))


def test_a_copy_that_was_not_emptied_keeps_its_value():
    world = World(AT_HOME, STRAY, HeldRecord("t", FARTHER, KEY))
    perform(LEVEL, world)
    assert world.held() == {(HOME, KEY): b'{"p":2}', (ASIDE, KEY): b'{"p":9}', (FARTHER, KEY): b'{"p":2}'}


def test_one_that_nobody_can_tell_the_state_of_is_asked_again():
    world = World(AT_HOME)
    world.state = State.UNASSIGNED
    with pytest.raises(UnsettledError):
        LEVEL.intend(world)


def test_what_holds_nothing_is_not_waited_for():
    other = MendRule({"table": "b"}, 0, b'["orders",{"table":"b"}]')
    world = World(AT_HOME, HeldRecord("t", home(other.key), other.key))
    perform(LevelRecords("game", "orders", "t", (settle_rule(RULE, home), settle_rule(other, home)), clean=True), world)


def test_a_running_connector_is_not_written_under():
    world = World(AT_HOME, STRAY, rounds=1000)
    perform(MEND, world)
    world.state = State.RUNNING
    with pytest.raises(RefusedError, match="is not stopped"):
        LEVEL.intend(world)
    with pytest.raises(RefusedError, match="is not stopped"):
        MEND.perform(world, MEND.intend(world))
    world.state = State.STOPPED
    intent = LEVEL.intend(world)
    world.state = State.RUNNING
    with pytest.raises(RefusedError, match="is not stopped"):
        LEVEL.perform(world, intent)
    clean = World(AT_HOME)
    clean.state = State.RUNNING
    assert LEVEL.intend(clean).before == LEVEL.intend(clean).after


def test_one_half_that_was_written_is_unknown_and_in_between():
    world = World(AT_HOME, STRAY)
    rule = MendRule(PARTITION, ASIDE, KEY, said=True)
    step = MendOffsets("game", "orders", "t", (rule,), clean=True, gone=(STRAY.place,))
    intent = step.intend(world)
    world.breaks_after = 1
    with pytest.raises(UnknownOutcomeError):
        step.perform(world, intent)
    world.is_down = False
    assert step.observe(world, intent) is Observed.BETWEEN
    # The value is at home before anything is emptied.
    assert world.held() == {(HOME, KEY): b'{"p":9}', (ASIDE, KEY): b'{"p":9}'}
    world.breaks_after = 2
    with pytest.raises(UnknownOutcomeError, match="1 record was emptied"):
        step.perform(world, intent)
    world.is_down = False
    assert step.observe(world, intent) is Observed.AFTER
    world.write([HeldRecord("t", HOME, KEY, b'{"p":5}')])
    assert step.observe(world, intent) is Observed.FOREIGN


def test_a_copy_that_came_since_the_plan_is_not_emptied():
    world = World(AT_HOME, STRAY, HeldRecord("t", FARTHER, KEY, b'{"p":4}'))
    with pytest.raises(RefusedError, match="came since the plan was made") as refused:
        MEND.intend(world)
    assert f"t-{FARTHER} " in refused.value.cause
    planned_without = MendOffsets("game", "orders", "t", (RULE,), clean=True)
    with pytest.raises(RefusedError, match="nothing was changed"):
        planned_without.intend(World(AT_HOME, STRAY))
    # Without a cleaning it gets the value, and nothing is emptied.
    level = MendOffsets("game", "orders", "t", (RULE,))
    assert level.intend(world).extra["gone"] == []


def test_copies_of_connectors_in_several_clusters_are_cleaned():
    world = World(AT_HOME, STRAY)
    perform(MEND, world)
    step = AwaitCleaned("other", "t", (HeldRecord("t", ASIDE, KEY),), 20.0, {"orders": "game"})
    assert "gone after" in step.perform(world, Intent(None, None))


def test_trouble_on_the_way_is_waited_out():
    world = World(AT_HOME, STRAY)
    perform(MEND, world)
    world.failing["read"] = UnreachableError("a broker is gone")
    assert "gone after" in AWAIT.perform(world, Intent(None, None))
    assert AWAIT.observe(world, Intent(None, None)) is Observed.AFTER


def test_configs_are_lent_and_come_back_without_an_undo():
    world = World()
    lend = LendTopicConfig("t", CLEANING)
    back = LendTopicConfig(
        "t", {"segment.ms": "5"}, tuple(key for key in CLEANING if key != "segment.ms"), returns=True
    )
    before = perform(lend, world)
    assert world.brokers.topics["t"].configs == CLEANING
    after = perform(back, world)
    assert world.brokers.topics["t"].configs == {"segment.ms": "5"}
    assert after.after == before.before
    assert lend.undo(before) is None
    assert "put the config of topic/t back" in back.describe()
