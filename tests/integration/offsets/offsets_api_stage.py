"""What Kafka's cases of the offsets API are played with: sinks and sources, their topics, and who disturbs them."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import termios
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from seamark.core.offsets import spell_identity
from seamark.errors import NotFoundError
from tests.integration.waits import DEADLINE_SECONDS, await_topic, wait_for

RECORDS = 10
TASKS = 2
STRING = "org.apache.kafka.connect.storage.StringConverter"
PLAIN = {"key.converter": STRING, "value.converter": STRING}
MIRROR = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
OWN_GROUP = "consumer.override.group.id"


class Kafka:
    """The brokers that a case's records are in: those of its cluster, or others."""

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.made = []

    def make_topic(self, name, partitions):
        self.made.append(name)
        self.admin.create_topics([NewTopic(name, partitions, 1)])[name].result(DEADLINE_SECONDS)
        await_topic(self.admin, name, partitions)
        return name

    def _count(self, name):
        topic = self.admin.list_topics(timeout=30).topics.get(name)
        return 0 if topic is None else len(topic.partitions)

    def produce(self, topic, partitions, *, value=b"value", count=RECORDS):
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        for partition in range(partitions):
            for _ in range(count):
                producer.produce(topic, value, key=b"key", partition=partition)
        assert producer.flush(DEADLINE_SECONDS) == 0

    def count_records(self, topic):
        """All records of a topic. A broker that has not heard of it yet is asked again."""
        partitions = wait_for(lambda: self._count(topic), bool, f"the topic {topic}")
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "offsets-api", "enable.auto.commit": False}
        )
        try:
            ends = [
                consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)[1]
                for number in range(partitions)
            ]
        finally:
            consumer.close()
        return sum(ends)

    def list_groups(self):
        return {found.group_id for found in self.admin.list_consumer_groups().result(DEADLINE_SECONDS).valid}

    def count_members(self, group):
        found = self.admin.describe_consumer_groups([group])[group].result(DEADLINE_SECONDS)
        return len(found.members)

    def read_committed(self, group):
        """What a group holds, past Connect."""
        asked = ConsumerGroupTopicPartitions(group)
        found = self.admin.list_consumer_group_offsets([asked])[group].result(DEADLINE_SECONDS)
        return {(one.topic, one.partition): one.offset for one in found.topic_partitions if one.offset >= 0}

    def clean(self, groups=()):
        for future in self.admin.delete_topics(self.made).values() if self.made else ():
            future.exception(DEADLINE_SECONDS)
        for future in self.admin.delete_consumer_groups(list(groups)).values() if groups else ():
            future.exception(DEADLINE_SECONDS)


class Owner:
    """A connector of a case, looked at and moved through seamark."""

    def __init__(self, rig, kafka, word):
        self.rig, self.kafka = rig, kafka
        self.name = rig.name(word)

    def read(self):
        """What seamark shows: offsets by partition."""
        found = self.rig.plan(lambda: self.rig.fleet.offsets.get(self.name))
        assert found.route == "store", found.notes
        return {spell_identity(one.partition): one.offset for one in found.offsets}

    def await_read(self, wanted, what):
        """Wait until seamark shows this, and REST the same."""
        wait_for(self.read, lambda found: found == wanted, f"{self.name}: {what}")
        # A worker lists what it has read of the topic so far: one that lags names no partition, or an older place.
        wait_for(self.read_told, lambda told: told == wanted, f"{self.name}: {what}, by REST as by the store")

    def read_told(self):
        return {spell_identity(one.partition): one.offset for one in self.rig.client.read_offsets(self.name)}

    def await_tasks(self, count, state="RUNNING"):
        def read():
            # A connector has no status before a worker has it.
            with suppress(NotFoundError):
                return self.rig.client.read_status(self.name)

        wait_for(
            read,
            lambda found: found and found.state == state and [task.state for task in found.tasks] == [state] * count,
            f"{count} tasks of {self.name} to be {state}",
        )

    def stop(self):
        self.rig.stop(self.name)

    def resume(self):
        self.rig.client.resume(self.name)

    def write_body(self, body):
        """A file with the body of a request, as Kafka's tests send it."""
        file = self.rig.folder / f"{self.name}.json"
        file.write_text(body if isinstance(body, str) else json.dumps(body))
        return file

    def alter(self, offsets):
        """Give partitions other offsets, as one change."""
        body = {"offsets": [{"partition": partition, "offset": offset} for partition, offset in offsets]}
        return self.rig.apply(self.plan_move(self.write_body(body)))

    def plan_move(self, file):
        return self.rig.plan(lambda: self.rig.fleet.offsets.move(self.name, source=file))

    def plan_forget(self):
        return self.rig.plan(lambda: self.rig.fleet.offsets.reset(self.name))

    def forget(self):
        return self.rig.apply(self.plan_forget())


class Sink(Owner):
    """A file sink with two tasks, and a topic of its own."""

    def __init__(self, rig, kafka, partitions, *, word="sink", tasks=TASKS, file=None, **config):
        super().__init__(rig, kafka, word)
        self.partitions, self.tasks = partitions, tasks
        self.topic = kafka.make_topic(self.name, partitions)
        self.file = file or rig.folder / f"{self.name}.txt"
        self.group = config.get(OWN_GROUP, f"connect-{self.name}")
        self.config = {
            "connector.class": FILE_SINK,
            "tasks.max": str(tasks),
            "topics": self.topic,
            "file": str(self.file),
            **PLAIN,
            **config,
        }

    def start(self):
        self.kafka.produce(self.topic, self.partitions)
        self.rig.client.create_connector(self.name, self.config)
        self.await_tasks(self.tasks)
        self.await_at(RECORDS)

    def partition(self, number):
        return {"kafka_topic": self.topic, "kafka_partition": number}

    def await_at(self, offset, numbers=None):
        chosen = range(self.partitions) if numbers is None else numbers
        wanted = {spell_identity(self.partition(number)): {"kafka_offset": offset} for number in chosen}
        self.await_read(wanted, f"{len(wanted)} partitions at {offset}")
        committed = {(self.topic, number): offset for number in chosen}
        assert self.kafka.read_committed(self.group) == committed

    def count_lines(self):
        return len(self.file.read_text().splitlines())

    def await_members(self, count):
        wait_for(lambda: self.kafka.count_members(self.group), lambda found: found == count, f"{count} members")

    def check_group(self):
        """Where the config names a group, it is that one and not the usual one."""
        groups = wait_for(self.kafka.list_groups, lambda found: self.group in found, f"the group {self.group}")
        if OWN_GROUP in self.config:
            assert f"connect-{self.name}" not in groups


class Lines(Owner):
    """A file source: one task, one partition. Its position after N lines is 6 N."""

    partitions = 1
    tasks = 1

    def __init__(self, rig, kafka, *, word="lines", **config):
        super().__init__(rig, kafka, word)
        self.file = rig.folder / f"{self.name}.txt"
        self.file.write_text("")
        self.more()
        self.topic = kafka.make_topic(self.name, 1)
        base = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(self.file), "topic": self.topic}
        self.config = {**base, **PLAIN, **config}

    def more(self):
        """Ten lines more."""
        with self.file.open("a") as file:
            file.write("line!\n" * RECORDS)

    def place(self, records):
        return [({"filename": str(self.file)}, {"position": 6 * records} if records else None)]

    def start(self):
        self.rig.client.create_connector(self.name, self.config)
        self.await_tasks(self.tasks)
        self.await_at(RECORDS)

    def await_at(self, records):
        wanted = {spell_identity(partition): offset for partition, offset in self.place(records)}
        self.await_read(wanted, f"{records} records")

    def count_records(self):
        return self.kafka.count_records(self.topic)


class Copies(Lines):
    """MirrorMaker 2: two tasks, a partition each. Its position after N records is N - 1."""

    partitions = TASKS
    tasks = TASKS

    def __init__(self, rig, kafka):
        Owner.__init__(self, rig, kafka, "copies")
        self.source = kafka.make_topic(self.name, self.partitions)
        self.more()
        self.alias = f"{self.name}-from"
        self.topic = f"{self.alias}.{self.source}"
        kafka.made.append(self.topic)
        converter = "org.apache.kafka.connect.converters.ByteArrayConverter"
        self.config = {
            "connector.class": MIRROR,
            "tasks.max": str(TASKS),
            "topics": self.source,
            "source.cluster.alias": self.alias,
            "target.cluster.alias": f"{self.name}-to",
            "source.cluster.bootstrap.servers": kafka.bootstrap,
            "target.cluster.bootstrap.servers": kafka.bootstrap,
            "key.converter": converter,
            "value.converter": converter,
            "sync.topic.acls.enabled": "false",
            "sync.topic.configs.enabled": "false",
            "heartbeats.replication.enabled": "false",
            "emit.offset-syncs.enabled": "false",
            "replication.factor": "1",
            # It looks for topics when it starts, and a broker may not tell a new one yet.
            "refresh.topics.interval.seconds": "2",
        }

    def more(self):
        self.kafka.produce(self.source, self.partitions)

    def place(self, records):
        return [
            (
                {"cluster": self.alias, "partition": number, "topic": self.source},
                {"offset": records - 1} if records else None,
            )
            for number in range(self.partitions)
        ]


class Exactly(Lines):
    """A file source of workers with exactly-once: the end of a transaction takes a place in the log, too."""

    def count_records(self):
        consumer = Consumer(
            {
                "bootstrap.servers": self.kafka.bootstrap,
                "group.id": "offsets-api",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
            }
        )
        consumer.assign([TopicPartition(self.topic, 0, 0)])
        count, deadline = 0, time.monotonic() + DEADLINE_SECONDS
        try:
            while (message := consumer.poll(1.0)) is None or message.error() is None:
                assert time.monotonic() < deadline, f"{self.topic} has no end after {DEADLINE_SECONDS} s"
                count += message is not None
        finally:
            consumer.close()
        return count


def make_source(rig, kafka):
    """Two tasks and two partitions where MirrorMaker is on the workers, as it is on those of the newest version."""
    return Copies(rig, kafka) if rig.endpoint.version == "4.3.1" else Lines(rig, kafka)


def elsewhere(other, client):
    """What sends a connector's clients to another Kafka cluster."""
    return {f"{one}.override.bootstrap.servers": other.bootstrap for one in (client, "admin")}


def own_topic(rig, kafka):
    """What gives a connector its own offsets topic; the worker makes it."""
    topic = rig.name("own-offsets")
    kafka.made.append(topic)
    return {"offsets.storage.topic": topic}


class Blocked:
    """A named pipe that nobody reads: a file sink blocks in it, and its task outlives the stop."""

    def __init__(self, path):
        os.mkfifo(path)
        self._pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._is_over = threading.Event()
        self._size = fcntl.fcntl(self._pipe, fcntl.F_GETPIPE_SZ)
        self.records = 2 * self._size // 1000
        self._drain = threading.Thread(target=self._read)

    def count_bytes(self):
        """How much is in it."""
        return int.from_bytes(fcntl.ioctl(self._pipe, termios.FIONREAD, bytes(4)), sys.byteorder)

    def await_full(self):
        """Until it takes no more: whoever writes into it now is blocked."""
        wait_for(self.count_bytes, lambda found: found > self._size * 3 // 4, "the pipe to be full")

    def open(self):
        """Read it from now on, so that whoever is blocked can end."""
        if not self._drain.is_alive():
            self._drain.start()

    def close(self):
        self._is_over.set()
        self._drain.join()
        os.close(self._pipe)

    def _read(self):
        while not self._is_over.is_set():
            with suppress(BlockingIOError):
                os.read(self._pipe, self._size)
            time.sleep(0.01)


class Hurried:
    """A clock that runs eight times as fast, for a deadline of a minute and a half."""

    def __init__(self):
        self._began_at, self._counter = time.time(), time.monotonic()

    def now(self):
        return self._began_at + 8 * (time.monotonic() - self._counter)

    def sleep(self, seconds):
        time.sleep(seconds / 8)


def run_cli(rig, *argv):
    """The command line: exit code and everything it said."""
    command = [sys.executable, "-m", "seamark.cli", *argv]
    done = subprocess.run(
        command,
        env={**os.environ, **rig.environ},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def check_rest_refuses(owner, offsets, why):
    """What Connect itself says, asked past seamark. Before 3.6 it knows no such request."""
    if owner.rig.endpoint.version.startswith("3.5."):
        why = "HTTP 405 Method Not Allowed"
    body = {"offsets": [{"partition": partition, "offset": offset} for partition, offset in offsets]}
    url = f"{owner.rig.endpoint.urls[0]}/connectors/{owner.name}/offsets"
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, method="PATCH", data=json.dumps(body).encode(), headers=headers)

    def ask():
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=DEADLINE_SECONDS)
        return caught.value.code, caught.value.read().decode()

    # A rebalance comes first, whoever caused it; a follower may hand the leader's words on under another number.
    wait_for(ask, lambda said: why in said[1], f"{owner.name} to be refused, because of {why}")
