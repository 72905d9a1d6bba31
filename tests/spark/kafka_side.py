"""The other side of the sink, by Kafka's own client: topics, and every record that a reader would get."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from uuid import uuid4

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from seamark.kafka.topics import TopicAdmin, TopicSpec
from seamark.kafka_sink.control import decode_control

# On a busy machine a broker is slow by the minute.
WAIT_SECONDS = 180
OLD_MS = 1_000_000_000_000


@dataclass(frozen=True)
class Found:
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple
    timestamp_ms: int


class KafkaSide:
    """Topics with names of their own."""

    def __init__(self, servers):
        self.servers = servers
        self.control = f"control-{uuid4().hex[:8]}"
        self._made = [self.control]
        self._admin = AdminClient({"bootstrap.servers": servers})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for future in self._admin.delete_topics(self._made, request_timeout=30).values():
            future.exception(timeout=30)

    def topic(self, partitions=3, **configs):
        """A new topic. Old timestamps stay in it."""
        name = f"t-{uuid4().hex[:8]}"
        settings = {"retention.ms": "-1", **{key.replace("_", "."): value for key, value in configs.items()}}
        self._admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(timeout=30)
        self._made.append(name)
        return name

    def forget_later(self, topic):
        """Take a topic away in the end that somebody else has made."""
        self._made += [topic] if topic else []

    def topic_id(self, topic):
        """What tells a topic from another of the same name."""
        with TopicAdmin({"bootstrap.servers": self.servers}) as admin:
            return admin.read_found([topic])[topic].topic_id

    def make_anew(self, topic, *, partitions, **configs):
        """Delete a topic and make another of its name."""
        former = self.topic_id(topic)
        self._admin.delete_topics([topic])[topic].result(timeout=30)
        with TopicAdmin({"bootstrap.servers": self.servers}) as admin:
            settings = {key.replace("_", "."): value for key, value in configs.items()}
            deadline = time.monotonic() + WAIT_SECONDS
            while not admin.create_topics([TopicSpec(topic, partitions, 1, settings)]):
                assert time.monotonic() < deadline, f"waited {WAIT_SECONDS} s until {topic} was gone"
                time.sleep(0.2)
        assert self.topic_id(topic) != former

    def fill(self, topic, rows):
        """Numbers from 0 on, each with itself as its key and in a header, and a second of 2001 as its time.

        Without transactions: their markers would have offsets that no record has.
        """
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 20})
        for number in range(rows):
            text = str(number).encode()
            producer.produce(topic, key=text, value=text, headers=[("from", text)], timestamp=OLD_MS + number)
        assert producer.flush(WAIT_SECONDS) == 0

    def delete_records(self, topic, starts):
        """Delete what is before these offsets, by partition."""
        spots = [TopicPartition(topic, number, offset) for number, offset in starts.items()]
        for future in self._admin.delete_records(spots).values():
            future.result(timeout=30)

    def grow(self, topic, partitions):
        """Add partitions."""
        self._admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(timeout=30)

    def read(self, topic, *, committed=True):
        """Every record of a topic; with `committed=False` also what was taken back."""
        isolation = "read_committed" if committed else "read_uncommitted"
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "spark-tests",
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        try:
            partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
            ends = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=30)[1] for p in partitions}
            consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
            return list(self._drain(consumer, ends=ends))
        finally:
            consumer.close()

    def _drain(self, consumer, *, ends):
        at = dict.fromkeys(ends, 0)
        deadline = time.monotonic() + WAIT_SECONDS
        while any(at[p] < end for p, end in ends.items()):
            assert time.monotonic() < deadline, f"waited {WAIT_SECONDS} s for the end of the topic: {at} of {ends}"
            for message in consumer.consume(1000, 0.2):
                if message.error() is None:
                    yield Found(
                        message.partition(),
                        offset=message.offset(),
                        key=message.key(),
                        value=message.value(),
                        headers=tuple(message.headers() or ()),
                        timestamp_ms=message.timestamp()[1],
                    )
                    at[message.partition()] = message.offset() + 1
                else:
                    assert message.error().name() == "_PARTITION_EOF", message.error()
                    # Of a reader of committed records it is where the oldest open transaction begins.
                    at[message.partition()] = max(at[message.partition()], message.offset())

    def count(self, topic, *, committed=True):
        """How often each value stands in a topic."""
        return Counter(record.value for record in self.read(topic, committed=committed))

    def records_of_tasks(self):
        """The control records, newest last."""
        return [decode_control(found.value, place="here") for found in self.read(self.control)]


def numbers(count):
    """What `count` says of a topic with each of so many numbers once."""
    return Counter({str(number).encode(): 1 for number in range(count)})
