"""The tests of offset changes can fail: three planted bugs each turn them red, and without one they are green.

The bugs are patches that stand here; the product has no switch for them.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, TopicPartition

from seamark.connectors.run_state import SetRunState
from seamark.kafka.transaction import ExactWriter
from seamark.offsets.codec.codec import encode_key
from seamark.offsets.write import action as offset_route
from seamark.offsets.write.action import ChangeOffsets
from seamark.offsets.write.guards import VerifyOffsets
from seamark.offsets.write.steps import WriteOffsets
from tests.fault.offsets.offset_lane import LINES, OFFSETS_PARTITIONS, Lane

pytestmark = [pytest.mark.offset_fault, pytest.mark.timeout(400)]


@pytest.fixture
def lane(own_stack, tmp_path):
    """A source whose offset stands in two records, on two partitions of the offsets topic: both must be written."""
    lane = Lane(own_stack, tmp_path, kind="source")
    lane.create()
    lane.places = lane.write_stray(lane.build_offset(LINES))
    yield lane
    lane.delete()


def read_newest(lane):
    """The newest value of its key on each partition of the offsets topic, byte by byte, by a reader of our own."""
    consumer = Consumer({"bootstrap.servers": lane.stack.kafka.bootstrap_servers, "group.id": "newest"})
    topic, wanted, found = lane.endpoint.offsets_topic, encode_key(lane.name, lane.partition), {}
    try:
        for number in range(OFFSETS_PARTITIONS):
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)
            consumer.assign([TopicPartition(topic, number, low)])
            while low < high:
                message = consumer.poll(60)
                assert message is not None, f"{topic}-{number} gave nothing for 60 s"
                low = message.offset() + 1
                if message.key() == wanted:
                    found[number] = message.value()
    finally:
        consumer.close()
    return found


def is_assigned(status, answer):
    """Whether a status says what it is meant to do: while a rebalance goes on a stopped one too shows UNASSIGNED."""
    return status == 200 and answer["connector"]["state"] != "UNASSIGNED"


def look(lane):
    """What is wrong with a move of a running source whose records are written one by one; nothing where all is well."""
    seen = {}

    def note():
        seen["state"] = lane.call("GET", "/status", until=is_assigned)["connector"]["state"]
        seen["values"] = read_newest(lane)

    ended = lane.change(hooks={"ended verify": note})
    wrong = [] if ended.is_done else [f"it is not done: {ended.ending}, {ended.said}"]
    value = json.dumps(lane.build_offset(1), separators=(",", ":")).encode()
    if seen.get("values") != dict.fromkeys(lane.places, value):
        wrong.append(f"when it was verified the topic held {seen.get('values')}, not {value!r} on {lane.places}")
    if seen.get("state") != "STOPPED":
        wrong.append(f"when it was verified it was {seen.get('state')}")
    return wrong


def write_one_variant(patch):
    """Of several records of one offset only the first is written, and nobody asks for the others."""
    find = offset_route.find_read_records
    patch.setattr(offset_route, "find_read_records", lambda held: find(held)[:1])


def write_to_the_wrong_partition(patch):
    """A record goes to the partition beside its own."""
    write = ExactWriter.write

    def astray(self, records, **more):
        moved = [replace(one, partition=(one.partition + 1) % OFFSETS_PARTITIONS) for one in records]
        return write(self, moved, **more)

    patch.setattr(ExactWriter, "write", astray)


def restore_before_verify(patch):
    """The connector runs again before its offsets were looked at."""
    derive = ChangeOffsets.steps

    def hasty(self, seen):
        steps = list(derive(self, seen))
        verify = next(number for number, (step, _) in enumerate(steps) if isinstance(step, VerifyOffsets))
        restore = next(n for n, (step, _) in enumerate(steps) if n > verify and isinstance(step, SetRunState))
        steps.insert(restore, steps.pop(verify))
        return tuple(steps)

    patch.setattr(ChangeOffsets, "steps", hasty)


@pytest.mark.parametrize("plant", [write_one_variant, write_to_the_wrong_partition, restore_before_verify])
def test_planted_bug_is_found(lane, monkeypatch, plant):
    plant(monkeypatch)
    # What never shows is waited for this long; a minute is for topics whose leader moves.
    monkeypatch.setattr(WriteOffsets, "settle_seconds", 4.0)
    found = look(lane)
    monkeypatch.undo()
    assert found, f"nobody noticed: {plant.__doc__}"
    print(plant.__name__, found)


def test_without_a_bug_nothing_is_found(lane):
    # A rebalance must not be taken for a bug: so its requests are repeated for as long as a real operator's.
    lane.be_patient()
    assert look(lane) == []
