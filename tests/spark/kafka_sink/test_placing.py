"""The fast way to a target partition says what the plan's routing says, for every rule and every kind of key."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.kafka_sink.hashing import build_placer
from seamark.kafka_sink.routing import Partitioner, Routing


@pytest.mark.parametrize("rule", list(Partitioner))
@given(
    records=st.lists(st.tuples(st.none() | st.binary(max_size=40), st.integers(0, 11)), max_size=50),
    targets=st.integers(1, 50),
)
def test_placer_says_what_the_routing_says(rule, records, targets):
    routing = Routing(rule, 12, targets)
    check(routing, records)


@given(st.lists(st.none() | st.binary(min_size=3, max_size=9), max_size=60), st.integers(0, 70), st.integers(1, 1000))
def test_keys_of_few_lengths_are_hashed_together_also_in_the_middle_of_a_batch(keys, begin, targets):
    check(Routing(Partitioner.MURMUR2, 12, targets), [(key, 5) for key in keys], begin=begin)


@pytest.mark.parametrize("length", [0, 1, 3, 4, 14, 33])
def test_keys_of_one_length_are_hashed_together(length):
    check(Routing(Partitioner.MURMUR2, 12, 7), [((bytes([number, 255]) * 20)[:length], 3) for number in range(256)])


@given(st.lists(st.none() | st.binary(max_size=9), max_size=60))
def test_keys_with_larger_offsets_are_placed_alike(keys):
    check(Routing(Partitioner.MURMUR2, 12, 7), [(key, 5) for key in keys], kind=pa.large_binary())


def check(routing, records, *, begin=0, kind=pa.binary()):  # noqa: B008 - a value that nobody changes
    keys = pa.array([key for key, _ in records], kind).slice(begin)
    sources = pa.array([source for _, source in records], pa.int32()).slice(begin)
    placed = build_placer(routing)(keys, sources).to_pylist()
    assert placed == [routing.choose(key, source=source) for key, source in records[begin:]]
