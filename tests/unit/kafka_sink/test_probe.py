"""What samples of keys tell about the rule that placed them."""

from __future__ import annotations

from math import gcd

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.kafka_sink.routing import Partitioner, Placement, Routing, probe_samples, suggest_routing

KEYS = [f"key-{number}".encode() for number in range(300)]


def place(rule, partitions, keys=KEYS):
    routing = Routing(rule, partitions, partitions)
    return [(routing.choose(key, source=0), key) for key in keys]


@pytest.mark.parametrize("rule", [Partitioner.MURMUR2, Partitioner.CRC32])
@pytest.mark.parametrize("partitions", [2, 6, 12, 100])
def test_pure_rule_is_told_with_its_counts(rule, partitions):
    probe = probe_samples([*place(rule, partitions), (1, None)], partitions=partitions)
    assert (probe.placement, probe.rule) == (Placement(rule.value), rule)
    assert (probe.records, probe.keyless) == (301, 1)
    found = {one.rule: one for one in probe.evidence}
    assert (found[rule].fitting, found[rule].misplaced) == (300, 0)
    assert f"{rule}: 300 of 300 keys fit" in probe.words
    assert suggest_routing(probe, targets=5) == Routing(rule, partitions, targets=5)


@pytest.mark.parametrize("rule", [Partitioner.MURMUR2, Partitioner.CRC32])
@pytest.mark.parametrize(("before", "after"), [(6, 12), (5, 6), (1, 3), (3, 8), (4, 12)])
def test_grown_topic_names_the_former_count(rule, before, after):
    probe = probe_samples(place(rule, before, KEYS[:150]) + place(rule, after, KEYS[150:]), partitions=after)
    assert (probe.placement, probe.rule, probe.grown_from) == (Placement.GROWN, rule, before)
    assert f"had {before} partitions" in probe.words
    assert suggest_routing(probe, targets=5) == Routing(rule, after, targets=5, modulus=gcd(before, after))


def test_grown_with_old_keys_only_in_the_sample():
    probe = probe_samples(place(Partitioner.MURMUR2, 6), partitions=12)
    assert (probe.placement, probe.grown_from) == (Placement.GROWN, 6)


def test_two_kinds_of_producers_are_mixed():
    probe = probe_samples(
        place(Partitioner.MURMUR2, 12, KEYS[:220]) + place(Partitioner.CRC32, 12, KEYS[220:]), partitions=12
    )
    assert (probe.placement, probe.rule) == (Placement.MIXED, Partitioner.MURMUR2)
    assert suggest_routing(probe, targets=6) is None


def test_a_few_misplaced_keys_make_no_growth():
    stray = [(part, key) for (_, key), part in zip(place(Partitioner.MURMUR2, 12, KEYS[:3]), (1, 2, 3), strict=True)]
    probe = probe_samples(place(Partitioner.MURMUR2, 12) + stray, partitions=12)
    assert probe.placement is Placement.MIXED


def test_explicit_partitions_are_unknown():
    probe = probe_samples([(number % 12, key) for number, key in enumerate(KEYS)], partitions=12)
    assert (probe.placement, probe.rule) == (Placement.UNKNOWN, None)
    assert suggest_routing(probe, targets=6) is None


@pytest.mark.parametrize("keys", [KEYS[:1], KEYS[:3], [KEYS[0]] * 500])
def test_too_few_keys_prove_nothing(keys):
    probe = probe_samples(place(Partitioner.MURMUR2, 12, keys), partitions=12)
    assert probe.placement is Placement.UNKNOWN
    assert suggest_routing(probe, targets=6) is None


def test_one_partition_tells_nothing():
    assert probe_samples(place(Partitioner.MURMUR2, 1), partitions=1).placement is Placement.UNKNOWN


def test_without_keys_partitions_stay_together():
    probe = probe_samples([(number % 6, None) for number in range(50)], partitions=6)
    assert probe.placement is Placement.KEYLESS
    assert suggest_routing(probe, targets=4) == Routing(Partitioner.MURMUR2, 6, targets=4)
    assert "no record has a key (50 records seen, 50 without a key" in probe.words


def test_no_sample_is_keyless_and_says_so():
    probe = probe_samples([], partitions=6)
    assert (probe.placement, probe.records) == (Placement.KEYLESS, 0)


def test_empty_keys_are_no_evidence_for_crc32():
    # librdkafka's default spreads them.
    probe = probe_samples([*place(Partitioner.CRC32, 6), (3, b""), (4, b"")], partitions=6)
    assert probe.placement is Placement.CRC32


@given(st.lists(st.tuples(st.integers(0, 11), st.none() | st.binary(max_size=8)), max_size=40))
def test_any_samples_are_judged(samples):
    probe = probe_samples(samples, partitions=12)
    assert probe.records == len(samples)
    assert probe.words
    if probe.placement is Placement.GROWN:
        assert probe.grown_from
