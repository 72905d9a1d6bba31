"""kill -9 in the middle of a change of offsets topics; then `journal resume`: moved, running, no line read twice."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Consumer, TopicPartition

from seamark.devstack.process import wait_until
from tests.fault.rig import SETTLE_SECONDS, is_hindered
from tests.integration.waits import TRIES

OWN = "offsets.storage.topic"
# stop 0 · prove 1 · make the topic 2 · carry 3 · verify 4 · config 5 · resume 6
POINTS = (
    "after-perform:0",
    "after-intent:2",
    "after-intent:3",
    "after-perform:3",
    "after-outcome:4",
    "after-perform:5",
    "after-perform:6",
)


@pytest.mark.parametrize("point", POINTS)
def test_killed_relocation_is_finished_by_resume_and_reads_no_line_again(kafka_rig, count_records, point):
    rig = kafka_rig
    _await_end(rig)
    # A task that a neighbour's rebalance starts again before its first flush reads its lines again: that is Connect's.
    before = _count_first(rig, count_records)
    topic = f"{rig.name}-offsets"
    code, _, err = _begin(rig, topic, failpoint=f"{point}:kill")
    assert code == -9, (code, err)
    change = rig.changes()[0]
    assert change["state"] == "open", change
    code, _, err = rig.resume(change["change"])
    assert code == 0, err
    assert rig.changes()[0]["state"] == "done"
    assert rig.config()[OWN] == topic
    wait_until(rig.runs, f"{rig.name} ran again", seconds=SETTLE_SECONDS)
    with rig.input.open("a") as file:
        file.write("three\n")
    wait_until(lambda: count_records(rig.name) > before, "the third line was there", seconds=SETTLE_SECONDS)
    _await_end(rig)
    # The third may come twice, where a rebalance ends its task before the flush; the first two never.
    assert set(_read_from(rig, before, count_records(rig.name))) == {"three"}


def _count_first(rig, count_records):
    """How many records there are; a broker that has not heard of the topic yet would say none."""
    seen = []

    def are_there():
        seen[:] = [count_records(rig.name)]
        return seen[0] >= 2

    wait_until(are_there, f"{rig.name} had its first records", seconds=SETTLE_SECONDS, every_seconds=0.3)
    return seen[0]


def _begin(rig, topic, *, failpoint):
    """The command; again where a rebalance kept it from its point."""
    for _ in range(TRIES):
        wait_until(rig.runs, f"{rig.name} ran", seconds=SETTLE_SECONDS)
        ended = rig.seamark(
            "offsets", "relocate", rig.name, "--topic", topic, "--progress-timeout", "0s", "--yes", failpoint=failpoint
        )
        if not is_hindered(*ended):
            break
        rig.finish()
    return ended


def _read_from(rig, begin, end):
    """The lines of these records."""
    consumer = Consumer({"bootstrap.servers": rig.stack.kafka.bootstrap_servers, "group.id": "relocate"})
    lines = []
    try:
        consumer.assign([TopicPartition(rig.name, 0, begin)])
        while len(lines) < end - begin:
            message = consumer.poll(60)
            assert message is not None, f"{rig.name} gave nothing for 60 s"
            assert message.error() is None, message.error()
            lines.append(json.loads(message.value()))
    finally:
        consumer.close()
    return lines


def _await_end(rig):
    """The position of the whole file is stored."""

    def is_there():
        found = rig.read(f"/connectors/{rig.name}/offsets")["offsets"]
        return [one["offset"] for one in found] == [{"position": rig.input.stat().st_size}]

    wait_until(is_there, f"{rig.name} stood at its end", seconds=SETTLE_SECONDS, every_seconds=0.3)
