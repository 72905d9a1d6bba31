"""The plan of a copy: made, refused with every reason, saved, loaded, extended, explained."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from seamark.copies.plan.plan import (
    CopyRequest,
    Limits,
    TimeMark,
    TopicEnd,
    dump_plan,
    extend_plan,
    load_plan,
    plan_copy,
)
from seamark.copies.plan.target_configs import TargetBrokers
from seamark.errors import RefusedError, UsageError
from seamark.kafka.model import TopicConfig
from seamark.kafka_sink.routing import Partitioner, Routing, probe_samples
from seamark.spark.slices import OffsetRange

KEYS = [f"key-{number}".encode() for number in range(200)]
SOURCE = TopicEnd("cluster-a", "orders", topic_id="id-1", partitions=12, replication_factor=3)
TARGET = TopicEnd("cluster-a", "orders-6", topic_id="", partitions=6, replication_factor=3)
KNOWN = frozenset({"retention.ms", "retention.bytes", "message.timestamp.type", "message.timestamp.before.max.ms"})


def probe(rule=Partitioner.MURMUR2, *, partitions=12, grown_from=None):
    placed = Routing(rule, 1, targets=partitions)
    before = Routing(rule, 1, targets=grown_from or partitions)
    samples = [(placed.choose(key, source=0), key) for key in KEYS[:100]]
    return probe_samples(samples + [(before.choose(key, source=0), key) for key in KEYS[100:]], partitions=partitions)


REQUEST = CopyRequest(
    id="01PLAN",
    made_at="2026-11-15T12:00:00Z",
    source=SOURCE,
    target=TARGET,
    probe=probe(),
    ranges=tuple(OffsetRange(partition, 100, 200) for partition in range(12)),
    source_configs={"retention.ms": TopicConfig("3600000", "DYNAMIC_TOPIC_CONFIG")},
    around=TargetBrokers(KNOWN),
    limits=Limits(500),
    index={partition: [TimeMark(1000, 130), TimeMark(2000, 160)] for partition in range(12)},
)


def test_a_plan_holds_all_that_will_be_done():
    plan = plan_copy(REQUEST)
    assert plan.refusals == ()
    assert plan.require_accepted() == Routing(Partitioner.MURMUR2, 12, targets=6)
    assert plan.size == 1200
    assert [one.until_ms for one in plan.slices] == [1000, 2000, None]
    assert {one.key: one.value for one in plan.configs}["retention.ms"] == "-1"
    assert "every key is on the partition that murmur2 assigns" in plan.evidence
    assert "offsets, leader epochs" in plan.notes[-1]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"probe": probe_samples([], partitions=12)}, None),
        ({"probe": probe_samples([(1, b"a"), (2, b"b")], partitions=12)}, "the partitioner of the source is unknown"),
        ({"target": replace(SOURCE, partitions=6)}, "the same topic"),
        ({"source": replace(SOURCE, topic="__consumer_offsets")}, "__consumer_offsets is an internal topic of Kafka"),
        ({"ranges": REQUEST.ranges[:11]}, "bounds of some source partitions"),
        ({"target_offsets": 5}, "has 5 offsets already"),
        ({"target_offsets": 0}, None),
        ({"around": TargetBrokers(frozenset())}, "do not report which configs"),
        (
            {"source_configs": {"min.insync.replicas": TopicConfig("4", "DYNAMIC_TOPIC_CONFIG")}},
            "min.insync.replicas=4",
        ),
    ],
)
def test_every_reason_against_it_is_said(change, reason):
    plan = plan_copy(replace(REQUEST, **change))
    assert plan.is_refused == (reason is not None)
    if reason:
        assert reason in " ".join(plan.refusals)
        with pytest.raises(RefusedError) as caught:
            plan.require_accepted()
        assert reason in caught.value.cause
        assert "create a new plan" in caught.value.hint


def test_all_reasons_are_said_at_once():
    plan = plan_copy(replace(REQUEST, target=replace(SOURCE, partitions=6), target_offsets=5))
    assert len(plan.refusals) == 2


def test_a_person_may_say_the_rule():
    few = probe_samples([(1, b"a"), (2, b"b")], partitions=12)
    plan = plan_copy(replace(REQUEST, probe=few, rule=Partitioner.CRC32))
    assert plan.require_accepted() == Routing(Partitioner.CRC32, 12, targets=6, modulus=1)
    assert any("as requested; the samples do not confirm it" in note for note in plan.notes)


def test_a_rule_that_the_samples_prove_keeps_what_they_tell():
    assert plan_copy(replace(REQUEST, rule=Partitioner.MURMUR2)).require_accepted().modulus == 12
    assert plan_copy(replace(REQUEST, rule=Partitioner.PARTITION)).require_accepted() == Routing(
        Partitioner.PARTITION, 12, targets=6
    )


def test_a_grown_source_is_said():
    plan = plan_copy(replace(REQUEST, probe=probe(grown_from=4)))
    assert plan.require_accepted() == Routing(Partitioner.MURMUR2, 12, targets=6, modulus=4)
    assert any("had 4 partitions before" in note for note in plan.notes)
    loose = plan_copy(replace(REQUEST, probe=probe(grown_from=11)))
    assert loose.require_accepted().modulus == 1
    assert any("shuffled" in note for note in loose.notes)


@pytest.mark.parametrize("change", [{}, {"target_offsets": 5}, {"probe": probe_samples([(1, b"a")], partitions=12)}])
def test_a_plan_survives_its_file(change):
    plan = plan_copy(replace(REQUEST, **change))
    text = dump_plan(plan)
    assert load_plan(text) == plan
    assert load_plan(text.encode()) == plan
    assert dump_plan(load_plan(text)) == text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"made_at": "2026-11-16T12:00:00Z"}, "was changed after it was written"),
        ({"refusals": []}, "was changed after it was written"),
        ({"more": 1}, "can't be read"),
    ],
)
def test_a_changed_file_is_refused(change, message):
    data = plan_copy(replace(REQUEST, target_offsets=5)).to_dict() | change
    with pytest.raises(UsageError) as caught:
        load_plan(json.dumps(data))
    assert message in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("text", ["", '{"format_version":1}', "{" * 5000])
def test_what_is_no_plan_is_refused(text):
    with pytest.raises(UsageError):
        load_plan(text)


def test_parts_that_do_not_belong_together_are_refused():
    plan = plan_copy(REQUEST)
    with pytest.raises(UsageError, match="does not match 12 source and 6 target partitions"):
        replace(plan, routing=Routing(Partitioner.MURMUR2, 12, targets=5))
    with pytest.raises(RefusedError, match="do not cover the topic"):
        replace(plan, slices=plan.slices[1:])


def test_a_plan_is_extended_by_what_came_since():
    plan = plan_copy(REQUEST)
    ends = {partition: 200 + partition for partition in range(12)}
    longer = extend_plan(plan, ends, {}, limits=Limits(40))
    assert longer.slices[:3] == plan.slices
    assert [one.number for one in longer.slices] == list(range(5))
    assert longer.size == 1200 + 66
    assert longer.id == plan.id
    assert load_plan(dump_plan(longer)) == longer
    with pytest.raises(UsageError, match="end earlier than before"):
        extend_plan(plan, ends | {3: 199}, {}, limits=Limits(40))
    with pytest.raises(UsageError, match="partitions of the source have changed"):
        extend_plan(plan, ends | {12: 5}, {}, limits=Limits(40))
