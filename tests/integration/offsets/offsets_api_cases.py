"""Apache Kafka's own integration cases of the offsets API, through seamark.

Each case has the name of its test in Kafka's `OffsetsApiIntegrationTest`, 27 in all, the same in 3.9 and in 4.x. What
they do is carried over: how many partitions and records, which positions, in which order. They drive seamark instead
of REST. Where Kafka's test expects a refusal that seamark is ahead of, the case says what seamark does, and that
nothing was changed.
"""

from __future__ import annotations

import json

import pytest

from seamark.errors import NotFoundError, SeamarkError
from tests.integration.offsets.offsets_api_stage import (
    OWN_GROUP,
    RECORDS,
    TASKS,
    Blocked,
    Exactly,
    Hurried,
    Lines,
    Sink,
    check_rest_refuses,
    elsewhere,
    make_source,
    own_topic,
    run_cli,
)

# Exit codes: the call is wrong, a rule says no.
USAGE, REFUSED = 64, 5

CASES = {}
EXACTLY_ONCE = {
    "testAlterSourceConnectorOffsetsExactlyOnceSupportEnabled",
    "testResetSourceConnectorOffsetsExactlyOnceSupportEnabled",
}


def case(name):
    """Note a case under its name in Kafka's test."""

    def note(function):
        CASES[name] = function
        return function

    return note


# ---- reading


@case("testGetNonExistentConnectorOffsets")
def get_of_nobody(rig, kafka, other):
    with pytest.raises(NotFoundError):
        rig.fleet.offsets.get(rig.name("nobody"))


def check_sink_is_read(rig, kafka, **config):
    sink = Sink(rig, kafka, 5, **config)
    sink.start()
    kafka.produce(sink.topic, 5)
    sink.await_at(2 * RECORDS)
    sink.check_group()


@case("testGetSinkConnectorOffsets")
def get_sink(rig, kafka, other):
    check_sink_is_read(rig, kafka)


@case("testGetSinkConnectorOffsetsOverriddenConsumerGroupId")
def get_sink_with_its_own_group(rig, kafka, other):
    check_sink_is_read(rig, kafka, **{OWN_GROUP: rig.name("own-group")})


@case("testGetSinkConnectorOffsetsDifferentKafkaClusterTargeted")
def get_sink_of_another_cluster(rig, kafka, other):
    check_sink_is_read(rig, other, **elsewhere(other, "consumer"))


def check_source_is_read(source):
    source.start()
    source.more()
    source.await_at(2 * RECORDS)
    assert source.count_records() >= 2 * RECORDS * source.partitions


@case("testGetSourceConnectorOffsets")
def get_source(rig, kafka, other):
    check_source_is_read(make_source(rig, kafka))


@case("testGetSourceConnectorOffsetsCustomOffsetsTopic")
def get_source_with_its_own_topic(rig, kafka, other):
    source = Lines(rig, kafka, **own_topic(rig, kafka))
    check_source_is_read(source)
    assert rig.read_raw(source.name, topic=source.config["offsets.storage.topic"])


@case("testGetSourceConnectorOffsetsDifferentKafkaClusterTargeted")
def get_source_of_another_cluster(rig, kafka, other):
    check_source_is_read(Lines(rig, other, **elsewhere(other, "producer")))


# ---- altering


@case("testAlterOffsetsNonExistentConnector")
def alter_nobody(rig, kafka, other):
    name = rig.name("nobody")
    file = rig.folder / "body.json"
    file.write_text(json.dumps({"offsets": [{"partition": {}, "offset": {}}]}))
    with pytest.raises(NotFoundError):
        rig.fleet.offsets.move(name, source=file)
    code, text = run_cli(rig, "offsets", "move", name, "--from-file", str(file), "--yes")
    assert code == 1
    assert name in text


@case("testAlterOffsetsNonStoppedConnector")
def alter_what_is_not_stopped(rig, kafka, other):
    """Connect refuses. seamark stops it, and lets it go on as it was."""
    source = Lines(rig, kafka)
    source.start()
    check_rest_refuses(source, source.place(5), "STOPPED state")
    source.await_at(RECORDS)
    source.alter(source.place(5))
    source.await_tasks(1)
    source.await_at(RECORDS)
    # At least: a rebalance may let a task deliver the same once more.
    assert source.count_records() >= RECORDS + 5

    rig.client.pause(source.name)
    source.await_tasks(1, "PAUSED")
    check_rest_refuses(source, source.place(5), "STOPPED state")
    source.await_at(RECORDS)
    before = source.count_records()
    source.alter(source.place(5))
    # Connect makes no tasks for one that was stopped and then paused.
    source.await_tasks(0, "PAUSED")
    source.await_at(5)
    assert source.count_records() == before
    source.resume()
    source.await_tasks(1)
    source.await_at(RECORDS)
    assert source.count_records() >= before + 5


def check_sink_is_altered(rig, kafka, **config):
    sink = Sink(rig, kafka, 3, **config)
    sink.start()
    sink.await_members(TASKS)
    sink.stop()
    sink.await_members(0)
    assert sink.count_lines() >= 3 * RECORDS
    sink.alter([(sink.partition(0), None), *((sink.partition(number), {"kafka_offset": 5}) for number in (1, 2))])
    sink.await_at(5, (1, 2))
    sink.alter([(sink.partition(number), {"kafka_offset": 3}) for number in (1, 2)])
    sink.await_at(3, (1, 2))
    sink.resume()
    sink.await_tasks(TASKS)
    sink.await_at(RECORDS)
    sink.check_group()
    # All of the partition that was forgotten, and seven of each of the others.
    assert sink.count_lines() >= 3 * RECORDS + RECORDS + 2 * 7


@case("testAlterSinkConnectorOffsets")
def alter_sink(rig, kafka, other):
    check_sink_is_altered(rig, kafka)


@case("testAlterSinkConnectorOffsetsOverriddenConsumerGroupId")
def alter_sink_with_its_own_group(rig, kafka, other):
    check_sink_is_altered(rig, kafka, **{OWN_GROUP: rig.name("own-group")})


@case("testAlterSinkConnectorOffsetsDifferentKafkaClusterTargeted")
def alter_sink_of_another_cluster(rig, kafka, other):
    check_sink_is_altered(rig, other, **elsewhere(other, "consumer"))


def check_zombie_is_seen(rig, kafka, change):
    """A task that does not end keeps its place in the group. Connect refuses, and seamark does before it asks."""
    path = rig.folder / "pipe"
    blocked = Blocked(path)
    try:
        sink = Sink(rig, kafka, 1, tasks=1, file=path)
        sink.start()
        kafka.produce(sink.topic, 1, value=b"x" * 1000, count=blocked.records)
        blocked.await_full()
        sink.stop()
        before = kafka.read_committed(sink.group)
        assert kafka.count_members(sink.group) == 1, "the task has ended: nothing is tried here"
        check_rest_refuses(sink, [(sink.partition(0), None)], "zombie sink task")
        planned = change(sink)
        rig.fleet._world._clock = Hurried()
        result = rig.fleet.apply(planned)
        assert not result.is_done
        assert f"group {sink.group} still has members" in str(
            [(step.error.message, step.error.cause) for step in result.steps if step.error is not None]
        )
        assert kafka.read_committed(sink.group) == before
        # In a neighbour's rebalance it shows UNASSIGNED for a moment.
        sink.await_tasks(0, "STOPPED")
        blocked.open()
        sink.await_members(0)
    finally:
        blocked.open()
        blocked.close()


@case("testAlterSinkConnectorOffsetsZombieSinkTasks")
def alter_sink_with_a_zombie(rig, kafka, other):
    def plan(sink):
        body = {"offsets": [{"partition": sink.partition(0), "offset": None}]}
        return sink.plan_move(sink.write_body(body))

    check_zombie_is_seen(rig, kafka, plan)


SINK_BODIES = (
    "{}",
    '{"offsets": []}',
    '{"offsets": [{}]}',
    '{"offsets": [{"partition": null, "offset": null}]}',
    '{"offsets": [{"partition": {}, "offset": null}]}',
    '{"offsets": [{"partition": {"kafka_topic": "TOPIC", "kafka_partition": "not a number"}, "offset": null}]}',
    '{"offsets": [{"partition": {"kafka_topic": "TOPIC", "kafka_partition": 1}, "offset": {}}]}',
    '{"offsets": [{"partition": {"kafka_topic": "TOPIC", "kafka_partition": 1}, "offset": {"kafka_offset": "none"}}]}',
)
SOURCE_BODIES = (
    "[]",
    "{}",
    '{"key": []}',
    '{"offsets": []}',
    '{"offsets": {}}',
    '{"offsets": [123]}',
    '{"offsets": [{"key": "val"}]}',
    '{"offsets": [{"partition": []]}]}',
)


def check_bodies(owner, bodies):
    before = owner.read()
    assert before
    for body in bodies:
        with pytest.raises(SeamarkError) as caught:
            owner.plan_move(owner.write_body(body))
        assert caught.value.exit_code in {USAGE, REFUSED} or isinstance(caught.value, NotFoundError), body
    assert owner.read() == before
    # In a neighbour's rebalance it shows UNASSIGNED for a moment.
    owner.await_tasks(0, "STOPPED")


@case("testAlterSinkConnectorOffsetsInvalidRequestBody")
def alter_sink_with_nonsense(rig, kafka, other):
    sink = Sink(rig, kafka, 2)
    sink.start()
    sink.stop()
    check_bodies(sink, [body.replace("TOPIC", sink.topic) for body in SINK_BODIES])


def check_goes_on(source, again):
    """It reads so many records of each partition again, and stands where it stood."""
    before = source.count_records()
    assert before >= RECORDS * source.partitions
    source.resume()
    source.await_tasks(source.tasks)
    source.await_at(RECORDS)
    delivered = source.count_records() - before
    assert delivered >= again * source.partitions
    # A rebalance may move a task before it has stored its position: then it delivers the same once more, and all of it.
    assert delivered % again == 0, delivered
    assert delivered == again or not isinstance(source, Exactly), delivered


def check_source_is_altered(source):
    source.start()
    source.stop()
    source.alter(source.place(5))
    source.await_at(5)
    source.alter(source.place(7))
    source.await_at(7)
    check_goes_on(source, 3)


@case("testAlterSourceConnectorOffsets")
def alter_source(rig, kafka, other):
    check_source_is_altered(make_source(rig, kafka))


@case("testAlterSourceConnectorOffsetsCustomOffsetsTopic")
def alter_source_with_its_own_topic(rig, kafka, other):
    check_source_is_altered(Lines(rig, kafka, **own_topic(rig, kafka)))


@case("testAlterSourceConnectorOffsetsDifferentKafkaClusterTargeted")
def alter_source_of_another_cluster(rig, kafka, other):
    check_source_is_altered(Lines(rig, other, **elsewhere(other, "producer")))


@case("testAlterSourceConnectorOffsetsExactlyOnceSupportEnabled")
def alter_source_exactly_once(rig, kafka, other):
    check_source_is_altered(Exactly(rig, kafka))


@case("testAlterSourceConnectorOffsetsInvalidRequestBody")
def alter_source_with_nonsense(rig, kafka, other):
    source = Lines(rig, kafka)
    source.start()
    source.stop()
    check_bodies(source, SOURCE_BODIES)


# ---- resetting, which seamark calls forgetting


def check_is_forgotten(owner):
    owner.forget()
    owner.await_read({}, "nothing")
    # Once more is no error, and nothing to do.
    assert owner.plan_forget().is_empty
    owner.await_read({}, "nothing")


def check_sink_is_reset(rig, kafka, **config):
    sink = Sink(rig, kafka, 3, **config)
    sink.start()
    sink.await_members(TASKS)
    sink.stop()
    sink.await_members(0)
    check_is_forgotten(sink)
    assert kafka.read_committed(sink.group) == {}
    sink.resume()
    sink.await_tasks(TASKS)
    sink.await_at(RECORDS)
    sink.check_group()
    assert sink.count_lines() >= 2 * 3 * RECORDS


@case("testResetSinkConnectorOffsets")
def reset_sink(rig, kafka, other):
    check_sink_is_reset(rig, kafka)


@case("testResetSinkConnectorOffsetsOverriddenConsumerGroupId")
def reset_sink_with_its_own_group(rig, kafka, other):
    check_sink_is_reset(rig, kafka, **{OWN_GROUP: rig.name("own-group")})


@case("testResetSinkConnectorOffsetsDifferentKafkaClusterTargeted")
def reset_sink_of_another_cluster(rig, kafka, other):
    check_sink_is_reset(rig, other, **elsewhere(other, "consumer"))


@case("testResetSinkConnectorOffsetsZombieSinkTasks")
def reset_sink_with_a_zombie(rig, kafka, other):
    check_zombie_is_seen(rig, kafka, Sink.plan_forget)


def check_source_is_reset(source):
    source.start()
    source.stop()
    check_is_forgotten(source)
    check_goes_on(source, RECORDS)


@case("testResetSourceConnectorOffsets")
def reset_source(rig, kafka, other):
    check_source_is_reset(make_source(rig, kafka))


@case("testResetSourceConnectorOffsetsCustomOffsetsTopic")
def reset_source_with_its_own_topic(rig, kafka, other):
    check_source_is_reset(Lines(rig, kafka, **own_topic(rig, kafka)))


@case("testResetSourceConnectorOffsetsDifferentKafkaClusterTargeted")
def reset_source_of_another_cluster(rig, kafka, other):
    check_source_is_reset(Lines(rig, other, **elsewhere(other, "producer")))


@case("testResetSourceConnectorOffsetsExactlyOnceSupportEnabled")
def reset_source_exactly_once(rig, kafka, other):
    check_source_is_reset(Exactly(rig, kafka))
