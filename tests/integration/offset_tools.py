"""What the tests of offsets share: topics and connectors of their own, and records written byte by byte."""

from __future__ import annotations

import io
import json
import time
import uuid

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from seamark.kafka.partitioner import choose_partition
from tests.integration.rest import DEADLINE_SECONDS, call_until
from tests.integration.waits import await_topic, wait_for

JSON = {
    f"{kind}.converter{key}": value
    for kind in ("key", "value")
    for key, value in (("", "org.apache.kafka.connect.json.JsonConverter"), (".schemas.enable", "false"))
}


def is_done(status, _):
    return status in {200, 201, 202, 204}


def new_name(what):
    return f"{what}-{uuid.uuid4().hex[:8]}"


def read_partition(bootstrap, topic, number=0):
    """Every value of a partition. Offsets alone do not tell how many: transactions leave a marker behind each."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "offset-tools", "enable.auto.commit": False}
    consumer, found = Consumer({**settings, "enable.partition.eof": True}), []
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(DEADLINE_SECONDS)
            assert message is not None, f"{topic}-{number} gave nothing for {DEADLINE_SECONDS} s"
            if message.error() is not None:
                assert message.error().name() == "_PARTITION_EOF", message.error()
                return found
            found.append(message.value())
    finally:
        consumer.close()


def read_writes(servers, topic, key):
    """Every value of a key that still lies in a topic, the oldest first, by a reader of our own."""
    settings = {"bootstrap.servers": servers, "group.id": "offset-tools", "enable.auto.commit": False}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    values, deadline = [], time.monotonic() + DEADLINE_SECONDS
    try:
        count = len(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, choose_partition(key, partitions=count), OFFSET_BEGINNING)])
        while True:
            assert time.monotonic() < deadline, f"{topic} was not read within {DEADLINE_SECONDS} s"
            for message in consumer.consume(1000, timeout=0.1):
                if message.error() is not None:
                    assert message.error().name() == "_PARTITION_EOF", message.error()
                    return values
                if message.key() == key:
                    values.append(message.value())
    finally:
        consumer.close()


class Brokers:
    """Topics of a test's own, and records written into any."""

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self.made = []

    def make_topic(self, name, *, partitions=3, **config):
        topic = NewTopic(name, partitions, replication_factor=1, config={"cleanup.policy": "compact", **config})
        self._admin.create_topics([topic])[name].result(DEADLINE_SECONDS)
        self.made.append(name)
        await_topic(self._admin, name, partitions)
        return name

    def count_partitions(self, topic):
        """How many a topic has. A broker that has not heard of it says none: then it is asked again."""
        return wait_for(
            lambda: len(self._admin.list_topics(topic, timeout=30).topics[topic].partitions), bool, f"the topic {topic}"
        )

    def write(self, topic, *records, partition=None):
        """Write (key, value) pairs, each where Java would put it, or on one partition."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        failures = []
        partitions = self.count_partitions(topic)
        for key, value in records:
            where = choose_partition(key, partitions=partitions) if partition is None else partition
            note = lambda error, _: failures.append(error) if error else None  # noqa: E731
            producer.produce(topic, key=key, value=value, partition=where, on_delivery=note)
        assert producer.flush(DEADLINE_SECONDS) == 0
        assert failures == []

    def read_values(self, topic):
        """Every value of a topic, as JSON, up to its end now."""
        partitions = range(self.count_partitions(topic))
        return [json.loads(value) for number in partitions for value in read_partition(self.bootstrap, topic, number)]

    def clean(self, *more):
        """Delete every topic that was made, and more; one that is not there is fine."""
        names, self.made = [*self.made, *more], []
        for future in self._admin.delete_topics(names).values() if names else ():
            error = future.exception(DEADLINE_SECONDS)
            assert error is None or error.args[0].name() == "UNKNOWN_TOPIC_OR_PART", error


class Connect:
    """Connectors of a test's own on one worker."""

    def __init__(self, url):
        self.url = url
        self.made = []

    def put(self, name, config):
        call_until(f"{self.url}/connectors/{name}/config", is_done, method="PUT", body=config)
        if name not in self.made:
            self.made.append(name)

    def put_file_source(self, name, file, *, topic, **more):
        config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": topic}
        self.put(name, {**config, **JSON, **more})

    def do(self, name, verb):
        call_until(f"{self.url}/connectors/{name}/{verb}", is_done, method="PUT")

    def await_state(self, name, state, *, tasks=None):
        def is_there(status, answer):
            if status != 200 or answer["connector"]["state"] != state:
                return False
            return tasks is None or [task["state"] for task in answer["tasks"]] == [state] * tasks

        call_until(f"{self.url}/connectors/{name}/status", is_there)

    def await_offsets(self, name, is_there):
        """What REST says, once it is what is waited for: the offsets by their partitions' texts."""

        def is_so(status, answer):
            return status == 200 and is_there([entry["offset"] for entry in answer["offsets"]])

        return call_until(f"{self.url}/connectors/{name}/offsets", is_so)["offsets"]

    def delete(self, name):
        call_until(f"{self.url}/connectors/{name}", lambda status, _: status in {204, 404}, method="DELETE")

    def clean(self):
        for name in self.made:
            self.delete(name)


def run_connect_offsets(*argv):
    """`connect-offsets` in this process: exit code, standard output, standard error."""
    from seamark.cli.connect_offsets import execute  # noqa: PLC0415
    from seamark.cli.session import Session  # noqa: PLC0415

    out, err = io.StringIO(), io.StringIO()
    code = execute([str(word) for word in argv], session=Session(out=out, err=err, stdin=io.StringIO()))
    return code, out.getvalue(), err.getvalue()
