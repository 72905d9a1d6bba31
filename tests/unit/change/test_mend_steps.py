"""Records of a source are mended, and cleaned out of a log in memory, whose cleaner works when it is told to."""

from __future__ import annotations

import pytest

from seamark.change.step import Intent, Observed
from seamark.change.steps.cleaning import CLEANING, AwaitCleaned, LendTopicConfig, LevelRecords
from seamark.change.steps.mend import MendOffsets, VerifyMended
from seamark.errors import DeadlineError, RefusedError, UnknownOutcomeError, UnreachableError
from seamark.model.connector import ConnectorStatus, State
from seamark.model.held_offset import HeldRecord, OffsetWrite, TopicHolding
from seamark.offsets.codec import decode_key, decode_value
from seamark.offsets.grouping import build_home
from seamark.offsets.mending import MendRule, settle_rule
from tests.unit.change.brokers import FakeBrokers

PARTITIONS = 5
KEY = b'["orders",{"table":"a"}]'
home = build_home(PARTITIONS)
HOME, ASIDE = home(KEY), (home(KEY) + 1) % PARTITIONS
PARTITION = {"table": "a"}


class World:
    """A topic as a log, a connector that is stopped or not, and a cleaner that needs `rounds` rolled segments."""

    def __init__(self, *records, rounds=2):
        self.log = []
        self.time = 1000.0
        self.rounds = rounds
        self.rolled = 0
        self.state = State.STOPPED
        self.failing = {}
        self.brokers = FakeBrokers()
        self.brokers.add_topic("t", partitions=PARTITIONS, configs={"segment.ms": "5"})
        for record in records:
            self._append(record)

    @property
    def clock(self):
        return self

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.time += seconds

    def kafka(self):
        return self.brokers

    def offsets(self, _cluster, _name):
        return self

    def left_offsets(self, _cluster):
        return self

    def read_status(self, _cluster, _name):
        return ConnectorStatus(self.state, worker_id="w:1", tasks=())

    def read_topic(self, topic):
        if self.failing:
            raise self.failing.pop(next(iter(self.failing)))
        held = {record.place: record for record, _ in self.log if decode_key(record.key).connector == "orders"}
        return TopicHolding(topic, tuple(held.values()), home)

    def read_writes(self, partitions):
        assert list(partitions) == [PARTITION]
        found = [(at, record) for record, at in self.log if decode_key(record.key).connector == "orders"]
        return [[OffsetWrite(decode_value(record.value).offset, at) for at, record in found]]

    def write(self, records):
        for record in records:
            if record.value is not None and "write" in self.failing:
                raise self.failing.pop("write")
            self._append(record)
            if decode_key(record.key).connector == "seamark":
                assert (record.value, record.partition) == (None, home(record.key))
                self.rolled += 1
        if self.rolled >= self.rounds:
            newest = {record.place: (record, at) for record, at in self.log}
            self.log = [found for found in newest.values() if found[0].value is not None]

    def _append(self, record):
        self.time += 1
        self.log.append((record, int(self.time * 1000)))

    def held(self):
        """The newest of each place that speaks of the connector."""
        return {
            (record.partition, record.key): record.value
            for record, _ in self.log
            if decode_key(record.key).connector == "orders"
        }


AT_HOME, STRAY = HeldRecord("t", HOME, KEY, b'{"p":2}'), HeldRecord("t", ASIDE, KEY, b'{"p":9}')
RULE = MendRule(PARTITION, HOME, KEY)
MEND = MendOffsets("game", "orders", "t", (RULE,), clean=True)
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


def test_where_nothing_was_mended_there_is_nothing_to_level():
    world = World(AT_HOME, STRAY)
    intent = LEVEL.intend(world)
    assert intent.before == intent.after
    assert world.held() == {(HOME, KEY): b'{"p":2}', (ASIDE, KEY): b'{"p":9}'}


def test_a_running_connector_is_not_written_under():
    world = World(AT_HOME, STRAY, rounds=1000)
    perform(MEND, world)
    world.state = State.RUNNING
    with pytest.raises(RefusedError, match="is not stopped"):
        LEVEL.intend(world)
    with pytest.raises(RefusedError, match="is not stopped"):
        MEND.perform(world, MEND.intend(world))
    clean = World(AT_HOME)
    clean.state = State.RUNNING
    assert LEVEL.intend(clean).before == LEVEL.intend(clean).after


def test_one_half_that_was_written_is_unknown_and_in_between():
    world = World(AT_HOME, STRAY)
    rule = MendRule(PARTITION, ASIDE, KEY, said=True)
    step = MendOffsets("game", "orders", "t", (rule,), clean=True)
    intent = step.intend(world)
    world.failing["write"] = UnreachableError("no broker")
    with pytest.raises(UnknownOutcomeError, match="1 of 2 records were written"):
        step.perform(world, intent)
    world.failing.clear()
    assert step.observe(world, intent) is Observed.BETWEEN
    world.write([HeldRecord("t", HOME, KEY, b'{"p":5}')])
    assert step.observe(world, intent) is Observed.FOREIGN


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
