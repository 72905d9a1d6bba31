"""Where records go, and which partitions feed which."""

from __future__ import annotations

import ctypes
from collections import defaultdict
from math import gcd

import pytest
from confluent_kafka import cimpl
from hypothesis import given
from hypothesis import strategies as st

from seamark.errors import UsageError
from seamark.kafka.partitioner import choose_partition
from seamark.kafka_sink.routing import Partitioner, Routing

SHAPES = [(12, 6), (6, 12), (12, 8), (6, 5), (8, 3), (6, 6), (8, 12), (100, 30), (3, 7), (1, 4), (4, 1)]
KEYS = [f"key-{number}".encode() for number in range(4000)]


def native_crc32(key, partitions):
    """`consistent`, by librdkafka itself."""
    found = ctypes.PyDLL(cimpl.__file__).rd_kafka_msg_partitioner_consistent
    pointer = ctypes.c_void_p
    found.argtypes = [pointer, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int32, pointer, pointer]
    found.restype = ctypes.c_int32
    return found(None, key, len(key), partitions, None, None)


@given(st.binary(min_size=1, max_size=60), st.integers(1, 500))
def test_crc32_is_what_librdkafka_does(key, partitions):
    assert Routing(Partitioner.CRC32, 1, partitions).choose(key, source=0) == native_crc32(key, partitions)


@given(st.binary(max_size=60), st.integers(1, 500))
def test_murmur2_is_what_java_does(key, partitions):
    assert Routing(Partitioner.MURMUR2, 1, partitions).choose(key, source=0) == choose_partition(
        key, partitions=partitions
    )


def test_crc32_keeps_empty_keys_where_consistent_puts_them():
    # `consistent` has them all in 0, `consistent_random` anywhere: both are served by the rule for missing keys.
    assert native_crc32(b"", 6) == 0
    assert Routing(Partitioner.CRC32, 6, 4).choose(b"", source=0) == native_crc32(b"", 4)
    assert Routing(Partitioner.CRC32, 6, 4).choose(b"", source=5) == 1


@pytest.mark.parametrize("rule", [Partitioner.MURMUR2, Partitioner.CRC32])
@pytest.mark.parametrize(("sources", "targets"), SHAPES)
def test_graph_is_exactly_what_keys_do(rule, sources, targets):
    routing = Routing(rule, sources, targets)
    at_source = Routing(rule, sources, sources)
    seen = defaultdict(set)
    for key in KEYS if sources * targets < 1000 else [f"{number}".encode() for number in range(30000)]:
        source = at_source.choose(key, source=0)
        seen[source].add(routing.choose(key, source=source))
    for source in range(sources):
        seen[source].add(routing.choose(None, source=source))
    assert {source: tuple(sorted(found)) for source, found in seen.items()} == {
        source: routing.targets_of(source) for source in range(sources)
    }


@st.composite
def routings(draw):
    sources = draw(st.integers(1, 40))
    modulus = draw(st.sampled_from([number for number in range(1, sources + 1) if sources % number == 0]))
    return Routing(draw(st.sampled_from(Partitioner)), sources, draw(st.integers(1, 40)), modulus=modulus)


@given(routings())
def test_both_sides_of_the_graph_agree(routing):
    sources, targets = routing.sources, routing.targets
    edges = {(p, t) for p in range(sources) for t in routing.targets_of(p)}
    assert edges == {(p, t) for t in range(targets) for p in routing.sources_of(t)}
    assert edges == {(p, t) for p in range(sources) for t in range(targets) if routing.feeds(p, target=t)}
    assert routing.needs_shuffle == any(len(routing.sources_of(t)) > 1 for t in range(targets))


@given(routings(), st.integers(0, 39))
def test_records_without_a_key_stay_within_the_graph(routing, source):
    chosen = routing.choose(None, source=source % routing.sources)
    assert routing.feeds(source % routing.sources, target=chosen)


@pytest.mark.parametrize("rule", [Partitioner.MURMUR2, Partitioner.CRC32])
@pytest.mark.parametrize(("before", "sources", "targets"), [(6, 12, 6), (4, 12, 8), (6, 9, 12), (5, 6, 3), (3, 12, 24)])
def test_graph_of_a_grown_topic_is_exactly_what_keys_do(rule, before, sources, targets):
    routing = Routing(rule, sources, targets, modulus=gcd(before, sources))
    edges = set()
    for count in (before, sources):
        placed = Routing(rule, 1, count)
        edges |= {(placed.choose(key, source=0), routing.choose(key, source=0)) for key in KEYS}
    allowed = {(source, target) for source in range(sources) for target in routing.targets_of(source)}
    assert edges <= allowed
    assert {target for _, target in edges} == set(range(targets))


@pytest.mark.parametrize(
    ("shape", "lanes", "shuffle"),
    [
        ((12, 6), 6, True),
        ((6, 12), 6, False),
        ((12, 8), 4, True),
        ((6, 5), 1, True),
        ((8, 3), 1, True),
        ((6, 6), 6, False),
    ],
)
def test_shapes_of_the_issue(shape, lanes, shuffle):
    routing = Routing(Partitioner.MURMUR2, *shape)
    assert (routing.lanes, routing.needs_shuffle) == (lanes, shuffle)


def test_explicit_partitions_keep_their_number():
    routing = Routing(Partitioner.PARTITION, 6, 8)
    assert [routing.choose(b"any", source=source) for source in range(6)] == [0, 1, 2, 3, 4, 5]
    assert routing.sources_of(7) == ()
    assert not routing.needs_shuffle


def test_a_loose_routing_lets_any_source_feed_any_target():
    routing = Routing(Partitioner.MURMUR2, 6, 12, modulus=1)
    assert routing.targets_of(3) == tuple(range(12))
    assert routing.needs_shuffle


def test_no_topic_has_no_partition():
    with pytest.raises(UsageError, match="invalid number of partitions 0"):
        Routing(Partitioner.MURMUR2, 6, 0)
    with pytest.raises(UsageError, match="invalid modulus 4: it must divide 6"):
        Routing(Partitioner.MURMUR2, 6, 5, modulus=4)


@given(routings())
def test_routing_survives_json(routing):
    assert Routing.from_dict(routing.to_dict()) == routing


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"rule": "fnv1a"}, "not one of murmur2, crc32, partition"),
        ({"rule": 1}, "not a string"),
        ({"sources": True}, "not an integer"),
        ({"targets": -1}, "not an integer"),
        ({"modulus": None}, "not an integer"),
        ({"more": 1}, "unknown keys: ['more']"),
    ],
)
def test_a_changed_routing_is_refused(change, cause):
    data = Routing(Partitioner.MURMUR2, 6, 5).to_dict() | change
    with pytest.raises(UsageError) as caught:
        Routing.from_dict(data)
    assert cause in caught.value.cause
    assert caught.value.hint
