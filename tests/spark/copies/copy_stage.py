"""The stage of a copy under faults: its topics and plan, its driver, and what can be done to those who work for it."""

from __future__ import annotations

import time
from uuid import uuid4

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from seamark.copies.plan.plan import CopyPlan, Limits, TopicEnd, cut_slices, dump_plan
from seamark.copies.plan.progress import read_progress
from seamark.kafka_sink.control_reads import read_records
from seamark.kafka_sink.routing import Partitioner, Routing
from seamark.spark.slices import OffsetRange
from tests.fault.toxic import Door, Toxiproxy
from tests.spark.driver_stage import WAIT_SECONDS, DriverStage, wait_for

# Shorter than by default, so that a stall is past them within half a minute.
CLIENT = {
    "kafka.transaction.timeout.ms": "60000",
    "kafka.socket.timeout.ms": "10000",
    "kafka.request.timeout.ms": "8000",
}
STALL_SECONDS = 25
_TRANSACTION_PARTITIONS = 10


class CopyStage(DriverStage):
    """One copy on one stack. With three brokers its topics have three copies, two of which must be there."""

    program = "tests.spark.copy_driver"

    def __init__(self, stack, folder, *, shape, slices, source=None, seed=0):
        super().__init__(stack, folder, seed=seed)
        self.shape = shape
        self.control = f"control-{uuid4().hex[:8]}"
        self._admin = AdminClient({"bootstrap.servers": self.servers})
        self._slices = slices
        self.source = source or self.make_topic(shape[0])
        self.target = self.make_topic(shape[1])
        self.plan = None

    def make_topic(self, partitions):
        brokers = len(self.servers.split(","))
        name = f"t-{uuid4().hex[:8]}"
        configs = {"retention.ms": "-1", "min.insync.replicas": str(min(2, brokers))}
        made = self._admin.create_topics([NewTopic(name, partitions, min(3, brokers), config=configs)])
        made[name].result(timeout=30)
        return name

    def make_plan(self):
        """The plan of all that is in the source now."""
        ends = self.read_ends(self.source, self.shape[0])
        ranges = tuple(OffsetRange(partition, 0, end) for partition, end in ends.items())
        limits = Limits(max(1, sum(ends.values()) // self._slices))
        self.plan = CopyPlan(
            id=uuid4().hex,
            made_at="2026-11-16T00:00:00Z",
            source=TopicEnd("c", self.source, "", partitions=self.shape[0], replication_factor=1),
            target=TopicEnd("c", self.target, "", partitions=self.shape[1], replication_factor=1),
            routing=Routing(Partitioner.MURMUR2, *self.shape),
            evidence="a test",
            ranges=ranges,
            slices=cut_slices(ranges, {}, limits=limits),
            configs=(),
        )
        (self.folder / "plan.json").write_text(dump_plan(self.plan))

    def read_ends(self, topic, partitions, *, isolation=IsolationLevel.READ_UNCOMMITTED):
        spots = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(partitions)}
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            futures = self._admin.list_offsets(spots, isolation_level=isolation, request_timeout=20)
            try:
                return {spot.partition: future.result(30).offset for spot, future in futures.items()}
            except KafkaException:
                # Where a broker was killed, leaders have moved, and a client learns of it when it asks again.
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.5)

    def build_job(self):
        return {
            "plan": str(self.folder / "plan.json"),
            "progress": str(self.folder / "done"),
            "source_servers": self.servers,
            "target_servers": self.stack.kafka.door_servers or self.servers,
            "control_topic": self.control,
            "client": CLIENT,
        }

    @property
    def done(self):
        """How many slices are done, as the driver says."""
        file = self.folder / "done"
        return int(file.read_text() or 0) if file.exists() else 0

    def await_transaction(self):
        """Wait until somebody writes to the target: a transaction is open there. Gives whether the copy goes on."""
        return (
            wait_for(
                lambda: "through" if self.keep_alive() else ("open" if self.is_written() else ""), "a task was writing"
            )
            == "open"
        )

    def is_written(self):
        every = self.read_ends(self.target, self.shape[1])
        stable = self.read_ends(self.target, self.shape[1], isolation=IsolationLevel.READ_COMMITTED)
        return any(every[partition] > stable[partition] for partition in every)

    def stall_leader(self):
        """Nothing goes to or comes from the broker that leads the target's first partition, for a while."""
        described = self._admin.list_topics(self.target, timeout=30).topics[self.target]
        self._stall(described.partitions[0].leader)
        self.counts["leader_stalls"] += 1

    def stall_coordinator(self):
        """The same of the broker that coordinates the transactions of the first task."""
        name = f"seamark.sink.{self.plan.id}.0"
        number = 0
        for letter in name:
            number = (31 * number + ord(letter)) & 0xFFFFFFFF
        partition = (number & 0x7FFFFFFF) % _TRANSACTION_PARTITIONS
        described = self._admin.list_topics("__transaction_state", timeout=30).topics["__transaction_state"]
        self._stall(described.partitions[partition].leader)
        self.counts["coordinator_stalls"] += 1

    def _stall(self, broker):
        door = Door(Toxiproxy(self.stack.toxiproxy.api), f"broker-{broker}", "")
        door.poison("timeout", timeout=0)
        time.sleep(STALL_SECONDS)
        door.cure("timeout")

    def read_progress(self):
        """What the control records say, read when all is over."""
        config = {"bootstrap.servers": self.servers}
        records = read_records(config, self.control, job=self.plan.id, patience_seconds=120)
        return read_progress(self.plan.id, self.plan.slices, records)

    def remove(self):
        """Take the topics away."""
        for future in self._admin.delete_topics([self.source, self.target, self.control], request_timeout=30).values():
            future.exception(timeout=60)
