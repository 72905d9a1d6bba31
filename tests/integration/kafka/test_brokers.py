"""The brokers' port and the steps on it, against three real brokers."""

from __future__ import annotations

import secrets
import subprocess
import time
from contextlib import suppress

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from seamark.changes.outcome import Outcome
from seamark.changes.step import Observed
from seamark.errors import AlreadyExistsError, NotFoundError, RefusedError, RejectedError, UnreachableError
from seamark.groups.actions import DeleteGroup, MoveGroup
from seamark.kafka.brokers import Brokers
from seamark.kafka.groups import Committed, GroupType
from seamark.kafka.model import LogOffsets, OffsetAndTimestamp, OffsetSpec
from seamark.topics.actions import AlterTopicConfig, CreateTopic, DeleteTopic, GrowTopic
from tests.unit.changes.brokers import BrokerWorld


class RealWorld(BrokerWorld):
    """Real brokers and the real clock."""

    def now(self):
        return time.time()

    def sleep(self, seconds):
        time.sleep(seconds)


@pytest.fixture(scope="module")
def config(stack):
    return {"bootstrap.servers": stack.kafka.bootstrap_servers}


@pytest.fixture(scope="module")
def brokers(config):
    with Brokers(config) as opened:
        yield opened


@pytest.fixture
def world(brokers, tmp_path):
    return RealWorld(brokers, tmp_path)


@pytest.fixture
def name(brokers):
    """A name of this test's own. A topic and a group of it are deleted after the test."""
    made = f"test-brokers-{secrets.token_hex(4)}"
    yield made
    for delete in (brokers.delete_topic, brokers.delete_group):
        with suppress(NotFoundError, UnreachableError):
            delete(made)


@pytest.fixture
def topic(brokers, name):
    """A topic of two partitions with five records in the first one, a second apart in time."""
    brokers.create_topic(name, partitions=2, replication_factor=3, configs={"min.insync.replicas": "2"})
    await_topic(brokers, name)
    return name


def await_topic(brokers, name, *, partitions=2):
    """Each broker hears of it in its own time, and any of them may answer: several good answers in a row."""

    def is_there():
        found = brokers.read_topics([name]).items
        return bool(found) and len(found[0].led_spots) == partitions

    wait_until(lambda: all(is_there() for _ in range(6)))


def await_gone(brokers, name):
    """Each broker hears of it in its own time, and any of them may answer."""
    wait_until(lambda: not any(brokers.read_topics([name]).items for _ in range(6)))


def await_configs(brokers, name, wanted):
    """The same for its own configs."""
    wait_until(lambda: all(brokers.read_topics([name]).items[0].own_configs == wanted for _ in range(6)))


def wait_until(is_so, *, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.1)


def write(config, topic, count, *, partition=0):
    """Records a second apart in time, the last one of now."""
    producer = Producer({**config, "acks": "all"})
    now = int(time.time() * 1000)
    for number in range(count):
        producer.produce(topic, b"v", partition=partition, timestamp=now - 1000 * (count - 1 - number))
    assert producer.flush(20) == 0


class Member:
    """A consumer in a group, until it is closed."""

    def __init__(self, config, group, topic, *, protocol="classic"):
        session = {"session.timeout.ms": 30000, "heartbeat.interval.ms": 1000} if protocol == "classic" else {}
        self._consumer = Consumer(
            {**config, "group.id": group, "client.id": "a-member", "group.protocol": protocol, **session}
        )
        self._consumer.subscribe([topic])
        wait_until(self._is_assigned)

    def _is_assigned(self):
        self._consumer.poll(0.2)
        return bool(self._consumer.assignment())

    def commit(self, topic, partition, offset):
        self._consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)

    def close(self):
        self._consumer.close()


class TestReads:
    def test_all_topics_with_ids_leaders_and_configs(self, brokers, topic):
        reading = brokers.read_all_topics()

        assert reading.is_complete
        names = [found.name for found in reading]
        assert names == sorted(names)
        (found,) = [one for one in reading if one.name == topic]
        assert len(found.partitions) == 2
        assert found.replication_factor == 3
        assert (found.min_isr, found.own_configs) == (2, {"min.insync.replicas": "2"})
        assert (found.under_replicated, found.under_min_isr, found.leaderless) == ((), (), ())
        assert len(found.topic_id) == 22
        assert any(one.is_internal for one in reading if one.name == "__consumer_offsets")

    def test_a_topic_made_anew_has_another_id(self, brokers, topic):
        (first,) = brokers.read_topics([topic]).items
        brokers.delete_topic(topic)
        await_gone(brokers, topic)
        brokers.create_topic(topic, partitions=2, replication_factor=3)
        await_topic(brokers, topic)

        assert brokers.read_topics([topic]).items[0].topic_id != first.topic_id

    def test_bounds_edges_and_times(self, brokers, topic, config):
        write(config, topic, 5)
        spots = [(topic, 0), (topic, 1)]

        assert brokers.read_bounds(spots).found == {(topic, 0): LogOffsets(0, 5), (topic, 1): LogOffsets(0, 0)}
        newest = brokers.read_log_offsets(spots, at=OffsetSpec.NEWEST).found
        assert newest[topic, 1] is None
        assert newest[topic, 0].offset == 4
        at = newest[topic, 0].timestamp_ms
        assert abs(at / 1000 - time.time()) < 60
        assert brokers.read_log_offsets(spots, at=at - 2500).found == {
            (topic, 0): OffsetAndTimestamp(2, at - 2000, leader_epoch=0),
            (topic, 1): None,
        }
        assert brokers.read_log_offsets(spots, at=at + 1).found == {(topic, 0): None, (topic, 1): None}

    def test_bounds_of_a_partition_that_is_not_there_fail_alone(self, brokers, topic):
        reading = brokers.read_bounds([(topic, 0), (topic, 99), (f"{topic}-no", 0)])

        assert set(reading.failures) == {(topic, 99), (f"{topic}-no", 0)}
        assert all(isinstance(error, NotFoundError) for error in reading.failures.values())
        assert reading.found == {(topic, 0): LogOffsets(0, 0)}

    def test_sizes_are_told_by_every_broker(self, brokers, topic, config):
        write(config, topic, 5)

        reading = brokers.read_sizes({topic: [0, 1]})

        assert reading.is_complete
        (size,) = reading.items
        assert len(size.replicas) == 6
        assert len(size.by_broker) == 3
        assert size.by_partition[0] > 0
        assert size.by_partition[1] == 0

    @pytest.mark.parametrize("protocol", ["classic", "consumer"])
    def test_a_group_with_members_of_each_protocol(self, brokers, topic, config, protocol):
        member = Member(config, topic, topic, protocol=protocol)
        try:
            wait_until(lambda: brokers.read_members([topic]).items[0].members[0].assignment)
            (group,) = brokers.read_members([topic])
            assert group.type is GroupType.of(protocol)
            assert group.state == "STABLE"
            assert not group.is_quiet
            (found,) = group.members
            assert (found.client_id, found.assignment) == ("a-member", ((topic, 0), (topic, 1)))
            assert found.host
            (listing,) = [one for one in brokers.read_all_groups() if one.name == topic]
            assert (listing.type, listing.state, listing.protocol) == (GroupType.of(protocol), "STABLE", "consumer")
        finally:
            member.close()
        wait_until(lambda: brokers.read_members([topic]).items[0].is_quiet)

    def test_share_groups_are_listed_and_have_no_offsets(self, brokers, topic, stack):
        share = f"share-{topic}"
        tool = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
        command = ["java", "-Xmx128m", "-cp", f"{stack.kafka.libs}/*", tool, "--topic", topic, "--group", share]
        with subprocess.Popen(
            [*command, "--bootstrap-server", stack.kafka.bootstrap_servers],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as member:
            try:
                wait_until(lambda: share in {found.name for found in brokers.read_all_groups()}, seconds=120)
            finally:
                member.kill()
        reading = brokers.read_all_groups()
        (found,) = [one for one in reading if one.name == share]
        assert reading.is_complete
        assert (found.type, found.protocol, found.has_offsets) == (GroupType.SHARE, "share", False)
        assert share not in {one.name for one in brokers.read_consumer_groups()}

    def test_commits_with_metadata_and_epoch(self, brokers, topic):
        wanted = {(topic, 0): Committed(3, "by hand", 0), (topic, 1): Committed(0)}
        brokers.alter_group_offsets(topic, wanted)

        (found,) = brokers.read_committed({topic: None})
        assert found.offsets == wanted
        (found,) = brokers.read_committed({topic: [(topic, 1), (topic, 7)]})
        assert found.offsets == {(topic, 1): Committed(0)}

    def test_a_group_that_never_was(self, brokers, name):
        assert brokers.read_committed({name: None}).items[0].offsets == {}
        assert brokers.read_groups([name]).items[0].state == "DEAD"
        assert brokers.read_members([name]).items[0].is_quiet


class TestRefusals:
    def test_what_is_there_already(self, brokers, topic):
        with pytest.raises(AlreadyExistsError):
            brokers.create_topic(topic, partitions=1, replication_factor=1)

    def test_what_is_not_there(self, brokers, name):
        for act in (
            lambda: brokers.delete_topic(name),
            lambda: brokers.grow_topic(name, partitions=3),
            lambda: brokers.alter_topic_config(name, values={"retention.ms": "1"}),
            lambda: brokers.delete_group(name),
            lambda: brokers.delete_group_offsets(name, [(name, 0)]),
        ):
            with pytest.raises(NotFoundError):
                act()

    def test_what_the_brokers_do_not_take(self, brokers, topic, name):
        for act in (
            lambda: brokers.create_topic("no/slash", partitions=1, replication_factor=1),
            lambda: brokers.create_topic(f"{name}-x", partitions=1, replication_factor=9),
            lambda: brokers.create_topic(f"{name}-x", partitions=1, configs={"nonsense": "1"}),
            lambda: brokers.grow_topic(topic, partitions=1),
            lambda: brokers.alter_topic_config(topic, values={"retention.ms": "many"}),
        ):
            with pytest.raises(RejectedError):
                act()
        assert len(brokers.read_topics([topic]).items[0].partitions) == 2

    @pytest.mark.parametrize("protocol", ["classic", "consumer"])
    def test_a_group_in_use(self, brokers, topic, config, protocol):
        member = Member(config, topic, topic, protocol=protocol)
        try:
            member.commit(topic, 0, 0)
            for act in (
                lambda: brokers.alter_group_offsets(topic, {(topic, 0): Committed(1)}),
                lambda: brokers.delete_group_offsets(topic, [(topic, 0)]),
                lambda: brokers.delete_group(topic),
            ):
                with pytest.raises(RefusedError):
                    act()
            assert brokers.read_committed({topic: None}).items[0].offsets[topic, 0].offset == 0
        finally:
            member.close()


class TestSteps:
    def test_a_topic_is_created_and_undone_and_made_again(self, brokers, world, name):
        step = CreateTopic(name, 3, 3, {"cleanup.policy": "compact, delete", "min.cleanable.dirty.ratio": "0.50"})
        done = world.apply(step)
        assert done.is_done
        await_topic(brokers, name, partitions=3)
        assert brokers.read_topics([name]).items[0].own_configs["cleanup.policy"] == "compact,delete"

        back = world.undo(done)
        assert back.is_done
        await_gone(brokers, name)

        assert world.undo(back).is_done
        await_topic(brokers, name, partitions=3)

    def test_a_topic_with_records_is_not_undone(self, brokers, world, name, config):
        done = world.apply(CreateTopic(name, 1, 3))
        write(config, name, 1)

        result = world.undo(done)

        assert result.steps[0].outcome is Outcome.DID_NOT_HAPPEN
        wait_until(lambda: brokers.read_topics([name]).items)

    def test_what_is_left_to_the_brokers(self, brokers, world, name):
        assert world.apply(CreateTopic(name)).is_done
        wait_until(lambda: brokers.read_topics([name]).items)

    def test_growing(self, brokers, world, topic):
        assert world.apply(GrowTopic(topic, 5)).is_done
        await_topic(brokers, topic, partitions=5)

    def test_configs_are_put_back_exactly(self, brokers, world, topic):
        brokers.alter_topic_config(topic, values={"retention.ms": "5000", "segment.ms": "7000"})
        before = {"min.insync.replicas": "2", "retention.ms": "5000", "segment.ms": "7000"}
        await_configs(brokers, topic, before)
        step = AlterTopicConfig(topic, {"retention.ms": "9000", "cleanup.policy": "compact"}, remove=("segment.ms",))

        done = world.apply(step)

        assert done.is_done
        wanted = {"min.insync.replicas": "2", "retention.ms": "9000", "cleanup.policy": "compact"}
        await_configs(brokers, topic, wanted)
        assert world.undo(done).is_done
        await_configs(brokers, topic, before)

    def test_a_deleted_topic_is_exported_and_its_commits_go_with_it(self, brokers, world, topic, config):
        write(config, topic, 4)
        brokers.alter_group_offsets(topic, {(topic, 0): Committed(2, "m")})
        intent = DeleteTopic(topic).intend(world)

        assert intent.extra["bounds"] == {"0": [0, 4], "1": [0, 0]}
        assert intent.extra["groups"][topic] == {"0": {"offset": 2, "metadata": "m"}}
        assert world.apply(DeleteTopic(topic)).is_done
        await_gone(brokers, topic)

    def test_a_group_is_moved_and_put_back_exactly(self, brokers, world, topic, config):
        write(config, topic, 5)
        brokers.alter_group_offsets(topic, {(topic, 0): Committed(3, "by hand", 0)})
        step = MoveGroup(topic, {topic: {0: Committed(1), 1: Committed(0)}})

        done = world.apply(step)

        assert done.is_done
        assert brokers.read_committed({topic: None}).items[0].offsets == {
            (topic, 0): Committed(1),
            (topic, 1): Committed(0),
        }
        assert world.undo(done).is_done
        assert brokers.read_committed({topic: None}).items[0].offsets == {(topic, 0): Committed(3, "by hand", 0)}

    def test_a_group_that_never_was_is_moved_and_undone_to_nothing(self, brokers, world, topic):
        done = world.apply(MoveGroup(topic, {topic: {0: Committed(0), 1: Committed(0)}}))
        assert done.is_done

        assert world.undo(done).is_done

        assert brokers.read_committed({topic: None}).items[0].offsets == {}

    @pytest.mark.parametrize("protocol", ["classic", "consumer"])
    def test_a_group_is_deleted_and_brought_back(self, brokers, world, topic, config, protocol):
        write(config, topic, 5)
        member = Member(config, topic, topic, protocol=protocol)
        member.commit(topic, 0, 4)
        refused = world.apply(DeleteGroup(topic))
        assert isinstance(refused.steps[0].error, RefusedError)
        member.close()
        wait_until(lambda: brokers.read_groups([topic]).items[0].is_quiet)
        before = brokers.read_committed({topic: None}).items[0].offsets
        assert before[topic, 0].offset == 4

        done = world.apply(DeleteGroup(topic))

        assert done.is_done
        assert brokers.read_groups([topic]).items[0].state == "DEAD"
        assert world.undo(done).is_done
        assert brokers.read_committed({topic: None}).items[0].offsets == before

    def test_a_commit_in_an_open_transaction_is_not_taken_for_settled(self, brokers, world, topic, config):
        brokers.alter_group_offsets(topic, {(topic, 0): Committed(0)})
        step = MoveGroup(topic, {topic: {0: Committed(1)}})
        producer = Producer({**config, "transactional.id": f"tx-{topic}"})
        consumer = Consumer({**config, "group.id": topic})
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, 3)], consumer.consumer_group_metadata(), 20)
        try:
            with Brokers(config, timeout_seconds=2) as hasty:
                # It is connected, and knows the coordinator: what ends it then is the open transaction alone.
                wait_until(lambda: hasty.read_groups([topic]).is_complete)
                with pytest.raises(UnreachableError) as caught:
                    step.intend(RealWorld(hasty))
            assert "UNSTABLE" in caught.value.context["kafka_error"]
        finally:
            producer.abort_transaction(20)
            consumer.close()
        # The brokers need a moment to end it; a plan waits so long, too.
        wait_until(lambda: brokers.read_committed({topic: None}, only_stable=True).is_complete)
        assert step.observe(world, step.intend(world)) is Observed.BEFORE
