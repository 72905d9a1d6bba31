"""The stage of a copy under faults: its topics and plan, its driver, and what can be done to those who work for it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from uuid import uuid4

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from seamark.devstack.control import ask
from seamark.kafka.control_scan import read_records
from seamark.pipelines.copy_plan import CopyPlan, TopicEnd, dump_plan
from seamark.pipelines.cutting import Limits, cut_slices
from seamark.pipelines.progress import read_progress
from seamark.pipelines.routing import Routing, Rule
from seamark.pipelines.slices import OffsetRange
from tests.fault.toxic import Door, Toxiproxy

ROOT = Path(__file__).parents[2]
WAIT_SECONDS = 600
# Shorter than by default, so that a stall is past them within half a minute.
CLIENT = {
    "kafka.transaction.timeout.ms": "60000",
    "kafka.socket.timeout.ms": "10000",
    "kafka.request.timeout.ms": "8000",
}
STALL_SECONDS = 25
_TRANSACTION_PARTITIONS = 10


def wait_for(check, sentence, seconds=WAIT_SECONDS, every=0.05):
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, f"waited {seconds} s until {sentence}"
        time.sleep(every)
    return found


class CopyStage:
    """One copy on one stack. With three brokers its topics have three copies, two of which must be there."""

    def __init__(self, stack, folder, *, shape, slices, source=None, seed=0):
        self.stack, self.folder, self.shape = stack, Path(folder), shape
        self.random = random.Random(seed)
        self.counts = Counter()
        self.servers = stack.kafka.bootstrap_servers
        self.control = f"control-{uuid4().hex[:8]}"
        self._admin = AdminClient({"bootstrap.servers": self.servers})
        self._slices = slices
        self.source = source or self.make_topic(shape[0])
        self.target = self.make_topic(shape[1])
        self.process = None
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
            routing=Routing(Rule.MURMUR2, *self.shape),
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

    def start_driver(self):
        """Start the driver, or start it again: it goes on with the same plan."""
        events = self.folder / "events"
        events.mkdir(exist_ok=True)
        job = {
            "master": self.stack.spark.master,
            "jars": self.stack.spark.jars,
            "plan": str(self.folder / "plan.json"),
            "progress": str(self.folder / "done"),
            "source_servers": self.servers,
            "target_servers": self.stack.kafka.door_servers or self.servers,
            "control_topic": self.control,
            "client": CLIENT,
            "conf": {"spark.eventLog.dir": events.as_uri()},
        }
        path = self.folder / "job.json"
        path.write_text(json.dumps(job))
        self.counts["runs"] += 1
        with (self.folder / f"driver-{self.counts['runs']}.log").open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.copy_driver", str(path)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def done(self):
        """How many slices are done, as the driver says."""
        file = self.folder / "done"
        return int(file.read_text() or 0) if file.exists() else 0

    def keep_alive(self):
        """A driver that has failed is started again, as a person would. Gives whether the copy is through."""
        code = self.process.poll()
        if code is None:
            return False
        if code == 0:
            return True
        self.counts["failed_runs"] += 1
        text = (self.folder / f"driver-{self.counts['runs']}.log").read_text()
        assert self.counts["failed_runs"] <= 3, f"the driver failed again and again: {text[-4000:]}"
        self.start_driver()
        return False

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

    def executors(self):
        """The executors of this stack, by process id: others may run on the same machine."""
        ours = {f":{entry.port}" for entry in self.stack.servers if entry.kind == "spark-worker"}
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_text().split("\0")
            except OSError:
                continue
            if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in words and any(
                word.startswith("spark://Worker@") and word[word.rindex(":") :] in ours for word in words
            ):
                found.append(int(folder.name))
        return found

    def kill_executor(self):
        found = self.executors()
        if found:
            os.kill(self.random.choice(found), signal.SIGKILL)
            self.counts["executor_kills"] += 1

    def kill_driver(self):
        # The JVM is a child of the Python process, and both are the driver.
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)
        self.counts["driver_kills"] += 1
        self.start_driver()

    def restart_broker(self):
        """SIGKILL, and a new start."""
        name = f"broker-{self.random.randint(1, len(self.servers.split(',')))}"
        ask(Path(self.stack.folder), "restart", name)
        self.counts["broker_restarts"] += 1

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

    def count_tasks(self):
        """Of all runs: tasks that were lost with their executor, that failed, and speculative copies."""
        found = Counter(lost_tasks=0, failed_tasks=0, speculative_tasks=0)
        for file in (self.folder / "events").iterdir():
            for line in file.read_text().splitlines():
                if not line.startswith('{"Event":"SparkListenerTaskEnd"'):
                    continue
                try:
                    event = json.loads(line)
                except ValueError:
                    continue
                reason = event["Task End Reason"]["Reason"]
                found["lost_tasks"] += reason == "ExecutorLostFailure"
                found["failed_tasks"] += reason == "ExceptionFailure"
                found["speculative_tasks"] += event["Task Info"]["Speculative"]
        return found

    def end(self):
        """End the driver, whatever it does."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(30)

    def remove(self):
        """Take the topics away."""
        for future in self._admin.delete_topics([self.source, self.target, self.control], request_timeout=30).values():
            future.exception(timeout=60)
