"""Metadata of commits, whose words only the second client tells truly."""

from __future__ import annotations

from types import SimpleNamespace

from seamark.kafka.groups import Committed
from seamark.kafka.kafka_python import load
from tests.unit.kafka.test_brokers import FakeBrokersClient, FakeSecond, done, open_brokers, spot


class Broken:
    """A partition whose metadata the client can't read: it is not ended as it expects."""

    def __init__(self, number, offset):
        self.topic, self.partition, self.offset, self.leader_epoch, self.error = "t", number, offset, None, None

    @property
    def metadata(self):
        return b"\xee\xff".decode()


class TestMetadata:
    def open(self, second):
        committed = {
            "marked": done(SimpleNamespace(topic_partitions=[spot("t", 0, 5), Broken(1, 6), spot("t", 2, 7)])),
            "plain": done(SimpleNamespace(topic_partitions=[spot("t", 0, 8)])),
        }
        committed["marked"].result().topic_partitions[2].metadata = "garbage"
        client = FakeBrokersClient(committed=committed)
        return open_brokers(client, build_second=second.build)

    def test_the_words_of_metadata_come_from_the_second_client(self):
        structs = load("kafka.structs")
        held = structs.OffsetAndMetadata
        answer = {structs.TopicPartition("t", 1): held(6, "é", 4), structs.TopicPartition("t", 2): held(9, "later", -1)}
        second = FakeSecond(committed={"marked": answer})

        reading = self.open(second).read_committed({"marked": None, "plain": None})

        assert second.groups == ["marked"]
        assert [found.offsets for found in reading] == [
            {("t", 0): Committed(5), ("t", 1): Committed(6, "é", 4), ("t", 2): Committed(9, "later")},
            {("t", 0): Committed(8)},
        ]

    def test_without_metadata_there_is_no_second_call(self):
        second = FakeSecond()
        reading = self.open(second).read_committed({"marked": None, "plain": None}, with_metadata=False)
        assert dict(reading.items[0].offsets) == {
            ("t", 0): Committed(5),
            ("t", 1): Committed(6),
            ("t", 2): Committed(7),
        }
        assert second.closed == 0

    def test_metadata_that_can_not_be_read_fails_its_groups_alone(self):
        second = FakeSecond(committed=load("kafka.errors").KafkaTimeoutError("late"))
        reading = self.open(second).read_committed({"marked": None, "plain": None})
        assert [found.group for found in reading] == ["plain"]
        assert list(reading.failures) == ["marked"]
