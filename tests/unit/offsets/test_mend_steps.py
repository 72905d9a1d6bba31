"""Records of a source are mended in a log in memory."""

from __future__ import annotations

import pytest

from seamark.changes.step import Intent, Observed
from seamark.connect.model import State
from seamark.errors import RefusedError, UnknownOutcomeError
from seamark.kafka.model import HeldRecord
from seamark.offsets.repair.action import RepairRecords, VerifyRepaired
from seamark.offsets.repair.rules import RepairRule, settle_rule
from tests.unit.offsets.odd_topic import ASIDE, FARTHER, HOME, KEY, PARTITION, Environment, home

AT_HOME, STRAY = HeldRecord("t", HOME, KEY, b'{"p":2}'), HeldRecord("t", ASIDE, KEY, b'{"p":9}')
RULE = RepairRule(PARTITION, HOME, KEY)
MEND = RepairRecords("game", "orders", "t", (RULE,))
VERIFY = VerifyRepaired("game", "orders", "t", (settle_rule(RULE, home),))


def perform(step, world):
    intent = Intent.from_dict(step.intend(world).to_dict())
    assert step.observe(world, intent) is Observed.BEFORE
    step.perform(world, intent)
    assert step.observe(world, intent) is Observed.AFTER
    return intent


def test_a_stray_and_a_tombstone_get_the_value_of_home_and_are_put_back():
    world = Environment(AT_HOME, STRAY, HeldRecord("t", FARTHER, KEY))
    with pytest.raises(RefusedError, match="are not as written"):
        VERIFY.perform(world, Intent(None, None))
    intent = perform(MEND, world)
    assert world.held() == dict.fromkeys([(HOME, KEY), (ASIDE, KEY), (FARTHER, KEY)], b'{"p":2}')
    assert VERIFY.perform(world, Intent(None, None)) is None
    assert {(one.partition, one.value) for one in MEND.undo(intent).records} == {
        (ASIDE, b'{"p":9}'),
        (FARTHER, None),
        (HOME, b'{"p":2}'),
    }


def test_what_a_running_task_stored_until_its_stop_counts():
    world = Environment(AT_HOME, STRAY, HeldRecord("t", HOME, KEY, b'{"p":3}'))
    perform(MEND, world)
    assert world.held()[HOME, KEY] == b'{"p":3}'


def test_a_running_connector_is_not_written_under():
    world = Environment(AT_HOME, STRAY)
    intent = MEND.intend(world)
    world.state = State.RUNNING
    with pytest.raises(RefusedError, match="is not stopped"):
        MEND.perform(world, intent)


def test_one_half_that_was_written_is_unknown_and_in_between():
    world = Environment(AT_HOME, STRAY)
    step = RepairRecords("game", "orders", "t", (RepairRule(PARTITION, ASIDE, KEY, said=True),))
    world.write([HeldRecord("t", FARTHER, KEY, b'{"p":4}')])
    intent = step.intend(world)
    world.breaks_after = 2
    with pytest.raises(UnknownOutcomeError):
        step.perform(world, intent)
    world.is_down = False
    assert step.observe(world, intent) is Observed.BETWEEN
    step.perform(world, intent)
    assert step.observe(world, intent) is Observed.AFTER
    world.write([HeldRecord("t", HOME, KEY, b'{"p":5}')])
    assert step.observe(world, intent) is Observed.FOREIGN
