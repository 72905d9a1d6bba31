"""What the tests that move offsets share: a fleet with a journal of its own, and the offsets topics to the byte."""

from __future__ import annotations

import json
import time
import uuid

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

import seamark
from seamark.changes.outcome import Outcome
from seamark.changes.setup import make_setup
from seamark.connect.client import ConnectClient
from seamark.context import open_context
from seamark.kafka.partitioner import choose_partition
from tests.integration.meaning_stage import await_stopped
from tests.integration.offset_tools import Brokers
from tests.integration.waits import DEADLINE_SECONDS, TRIES, ask_patiently, says_hindered

WRITES = ("write-repairs", "write-offsets")


def build_context(stack, folder, *, cluster="connect", in_flight="5s", **more):
    """A context of one cluster, with its journal in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    endpoint = stack.connect[cluster]
    connect = {"urls": list(endpoint.urls), "worker_config": endpoint.worker_config, **more}
    context = {
        "journal": "file",
        "journal_folder": str(folder / "journal"),
        "in_flight_timeout": in_flight,
        "policy": {"files": ["/**"]},
        "kafka": {"bootstrap.servers": stack.kafka.bootstrap_servers},
        "connect": {"connect": connect},
    }
    file = folder / "seamark.yaml"
    file.write_text(json.dumps({"current": "dev", "contexts": {"dev": context}}))
    return {"SEAMARK_CONFIG": str(file), "XDG_STATE_HOME": str(folder / "state")}


class OffsetRig:
    """One fleet over one Connect cluster, and what lies in its topics."""

    def __init__(self, stack, folder, *, cluster="connect", **options):
        self.stack, self.folder = stack, folder
        self.endpoint = stack.connect[cluster]
        self.environ = build_context(stack, folder, cluster=cluster, **options)
        opened = open_context(environ=self.environ)
        make_setup(opened)
        self.fleet = seamark.Fleet(opened)
        self.client = ConnectClient(self.endpoint.urls)
        self.brokers = Brokers(stack.kafka.bootstrap_servers)
        self.run = f"o{uuid.uuid4().hex[:8]}"

    def close(self):
        """Leave nothing behind."""
        self.fleet.close()
        for name in [name for name in self.client.read_names() if name.startswith(self.run)]:
            # A task that still runs would make its topics anew behind us.
            self.stop(name)
            self.client.delete_connector(name)
        self.client.close()
        self.brokers.clean()

    def name(self, word):
        """A name that nobody else has."""
        return f"{self.run}-{word}"

    def plan(self, build):
        """Make a plan. A rebalance that lasts longer than a short `in_flight_timeout` allows is waited out."""
        return ask_patiently(build)

    def apply(self, planned, progress=None):
        """Carry a plan out, and expect that it is done; again where a rebalance kept it from its write."""
        assert planned.plan.steps, planned.plan.title
        for _ in range(TRIES):
            result = self.fleet.apply(planned, progress)
            if result.is_done or not is_hindered(result):
                break
        assert result.is_done, describe_failures(result)
        return result

    def undo(self, result):
        """Take a change back."""
        return self.apply(self.plan(lambda: self.fleet.undo(result.change)))

    def stop(self, name):
        """Stopped, and no task left."""
        await_stopped(self.client, name)

    def read_raw(self, name, *, topic=None):
        """The newest record of each key of a connector, by its partition of the offsets topic."""
        return read_raw(self.brokers, topic or self.endpoint.offsets_topic, name)

    def write_raw(self, key, value, *, topic=None, aside=0):
        """A record where workers would write it, or so many partitions aside; gives where it lies."""
        topic = topic or self.endpoint.offsets_topic
        count = self.brokers.count_partitions(topic)
        partition = (choose_partition(key, partitions=count) + aside) % count
        self.brokers.write(topic, (key, value), partition=partition)
        return partition, key


def describe_failures(result):
    """What each step that failed said, and why."""
    return [f"{step.words}: {step.error.message} ({step.error.cause})" for step in result.steps if step.error]


def is_hindered(result):
    """Whether a change is over and wrote nothing, and says that a rebalance is why: then it is to be repeated."""
    said = describe_failures(result)
    has_written = any(step.kind in WRITES and step.outcome is Outcome.DONE for step in result.steps)
    return result.ending is not None and not has_written and bool(said) and all(says_hindered(one) for one in said)


def read_raw(brokers, topic, name):
    """The newest record of each key that speaks of a connector: {(partition, key): value}."""
    settings = {"bootstrap.servers": brokers.bootstrap, "group.id": "offset-rig", "enable.auto.commit": False}
    settings |= {"enable.partition.eof": True, "isolation.level": "read_committed", "fetch.wait.max.ms": 10}
    consumer = Consumer(settings)
    found, ended = {}, set()
    count = brokers.count_partitions(topic)
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(count)])
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(ended) < count:
            assert time.monotonic() < deadline, f"{topic} was not read within {DEADLINE_SECONDS} s"
            for message in consumer.consume(1000, timeout=0.05):
                if message.error() is not None:
                    assert message.error().name() == "_PARTITION_EOF", message.error()
                    ended.add(message.partition())
                elif f'"{name}"'.encode() in (message.key() or b""):
                    found[message.partition(), message.key()] = message.value()
    finally:
        consumer.close()
    return found


def without_tombstones(raw):
    """What counts: a tombstone is as good as no record."""
    return {place: value for place, value in raw.items() if value is not None}
