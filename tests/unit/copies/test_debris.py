"""What lies in a target and is no record of the copy is found, to the offset."""

from __future__ import annotations

import random as randoms

from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.copies.plan.plan import Limits, cut_slices
from seamark.copies.plan.progress import AbortedRecords, find_aborted, list_ahead
from seamark.kafka_sink.control import Run
from seamark.kafka_sink.routing import Partitioner, Routing
from tests.unit.copies.simulation import Simulation, build_record, build_source


def run(target, first, last):
    count = last - first + 1
    return Run(0, target, count, first_source=0, last_source=count - 1, first_target=first, last_target=last)


def test_markers_are_no_debris_and_the_rest_is():
    records = [
        build_record("p", "s0", task=0, tasks=1, runs=(run(0, 0, 4), run(1, 2, 3))),
        build_record("p", "s1", task=0, tasks=1, runs=(run(0, 9, 9),)),
    ]
    debris = find_aborted(records, ends={0: 14, 1: 5, 2: 3})
    assert debris == (
        AbortedRecords(0, 6, 8),
        AbortedRecords(0, 11, 13),
        AbortedRecords(1, 0, 1),
        AbortedRecords(2, 0, 2),
    )
    assert [one.size for one in debris] == [3, 3, 2, 3]


def test_what_lies_ahead_of_a_reader():
    debris = (AbortedRecords(0, 6, 8), AbortedRecords(0, 11, 13), AbortedRecords(1, 0, 1))
    assert list_ahead(debris, {0: 8, 1: 2}) == (AbortedRecords(0, 8, 8), AbortedRecords(0, 11, 13))
    assert list_ahead(debris, {0: 14, 1: 2}) == ()


@settings(max_examples=50)
@given(st.integers(0, 2**32))
def test_debris_is_exactly_what_aborted_attempts_left(seed):
    random = randoms.Random(seed)
    source, ranges = build_source(random, sources=6)
    made = Simulation(Routing(Partitioner.MURMUR2, 6, targets=5), source, ranges)
    made.slices = cut_slices(ranges, {}, limits=Limits(40))
    made.copy(random=random)
    found = {
        (one.target, at)
        for one in find_aborted(made.progress().records, ends=made.ends)
        for at in range(one.first, one.last + 1)
    }
    assert found == made.aborted
