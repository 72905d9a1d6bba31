"""Records of connectors that are gone, written and taken away on a topic in memory."""

from __future__ import annotations

import pytest

from seamark.changes.step import Intent, Observed, build_step
from seamark.errors import RefusedError
from seamark.kafka.model import HeldRecord
from seamark.offsets.write.records import WriteRecords
from tests.ports import MethodPorts

A = HeldRecord("t", 0, b'["gone",{"a":1}]', b'{"p":1}')
B = HeldRecord("t", 1, b'["gone",{"b":1}]', b'{"p":2}')
PURGE = WriteRecords(("one", "two"), ("gone",), (HeldRecord("t", 0, A.key), HeldRecord("t", 1, B.key)))


class Topic(MethodPorts):
    """A world of two clusters that share a topic."""

    def __init__(self, *records):
        self.held = {record.place: record for record in records}
        self.names = {"one": ("lives",), "two": ()}
        self.asked = ""
        self.time = 0.0
        self.slow = 0.0

    @property
    def clock(self):
        return self

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.time += seconds

    def connect(self, cluster):
        self.asked = cluster
        return self

    def read_names(self):
        self.time += self.slow
        return self.names[self.asked]

    def left_offsets(self, _cluster):
        return self

    def read(self, owners):
        assert tuple(owners) == ("gone",)
        return tuple(self.held.values())

    def write(self, owners, records):
        assert tuple(owners) == ("gone",)
        self.held |= {record.place: record for record in records}


def perform(step, world):
    intent = step.intend(world)
    assert step.observe(world, intent) is Observed.BEFORE
    step.perform(world, intent)
    assert step.observe(world, intent) is Observed.AFTER
    return intent


def test_records_are_taken_away_and_put_back_to_the_byte():
    world = Topic(A, B)
    intent = perform(PURGE, world)
    assert [record.value for record in world.held.values()] == [None, None]
    perform(PURGE.undo(Intent.from_dict(intent.to_dict())), world)
    assert world.held == {A.place: A, B.place: B}


def test_one_half_is_in_between_and_another_value_is_somebody_elses():
    world = Topic(A, B)
    intent = PURGE.intend(world)
    world.write(("gone",), [HeldRecord("t", 0, A.key)])
    assert PURGE.observe(world, intent) is Observed.BETWEEN
    world.write(("gone",), [HeldRecord("t", 1, B.key, b'{"p":3}')])
    assert PURGE.observe(world, intent) is Observed.FOREIGN


@pytest.mark.parametrize("cluster", ["one", "two"])
def test_an_owner_that_is_there_after_all_is_a_refusal(cluster):
    world = Topic(A, B)
    world.names[cluster] = ("gone", "other")
    with pytest.raises(RefusedError, match=f"{cluster}/gone was created meanwhile"):
        PURGE.perform(world, PURGE.intend(world))
    assert world.held == {A.place: A, B.place: B}


def test_it_comes_back_from_a_plan_as_it_was():
    assert build_step(PURGE.to_data(lane="x")) == PURGE
    assert PURGE.describe() == "delete 2 records of offsets/one/gone in the topic"
    assert PURGE.subject == "offsets/one/gone"
