"""A copy through the command line: planned, run, killed, gone on with by its id, followed, verified."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from seamark.kafka.partitioner import choose_partition
from seamark.kafka_sink.routing import Partitioner, Routing
from tests.spark.kafka_side import OLD_MS, WAIT_SECONDS

ROOT = Path(__file__).parents[3]
ROWS, SOURCES, TARGETS = 24_000, 6, 4
# On a busy machine a session alone takes a minute.
RUN_SECONDS = 900


class Desk:
    """One operator after the other, each in a process of its own: what they share is Kafka and the context."""

    def __init__(self, stack, kafka, folder):
        self.kafka, self.folder = kafka, folder
        settings = {"bootstrap.servers": kafka.servers}
        context = {"journal": "file", "journal_folder": str(folder / "journal"), "insecure": True, "kafka": settings}
        (folder / "seamark.yaml").write_text(json.dumps({"current": "dev", "contexts": {"dev": context}}))
        self.environ = {
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            "SEAMARK_CONFIG": str(folder / "seamark.yaml"),
            "SEAMARK_SPARK_JARS": stack.spark.jars,
            "SEAMARK_SPARK_MASTER": "local[2]",
        }

    def start(self, *argv):
        return subprocess.Popen(
            [sys.executable, "-m", "seamark.cli", "copies", *argv],
            env=self.environ,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *argv, code=0):
        started = self.start(*argv)
        out, err = started.communicate(timeout=RUN_SECONDS)
        assert started.returncode == code, out + err
        return out, err

    def work(self, verb, *argv, code=0):
        """A command that knows the control topic of this test, and may start Spark."""
        small = ("--conf", "spark.ui.enabled=false", "--conf", "spark.driver.memory=1g") if verb != "status" else ()
        return self.run(verb, *argv, "--control-topic", self.kafka.control, *small, code=code)

    def status(self, plan):
        return json.loads(self.work("status", plan, "-o", "json")[0])


@pytest.fixture
def desk(stack, kafka, tmp_path):
    return Desk(stack, kafka, tmp_path)


def fill(kafka, topic, numbers):
    producer = Producer({"bootstrap.servers": kafka.servers, "linger.ms": 20})
    for number in numbers:
        key = f"key-{number % 700}".encode()
        producer.produce(
            topic,
            key=key,
            value=str(number).encode(),
            headers=[("n", str(number).encode())],
            partition=choose_partition(key, partitions=SOURCES),
            timestamp=OLD_MS + number,
        )
        producer.poll(0)
    assert producer.flush(WAIT_SECONDS) == 0


def kill_after_a_slice(desk, plan):
    """Run a plan until a slice is done, and kill the driver with nothing said."""
    started = desk.start("run", plan, "--yes", "--control-topic", desk.kafka.control, "--rate", "2000")
    deadline = time.monotonic() + RUN_SECONDS
    heard = []
    for line in started.stderr:
        heard.append(line)
        if "slice 1 of" in line:
            break
        assert time.monotonic() < deadline, f"no slice was done after {RUN_SECONDS} s: {heard}"
    assert started.poll() is None, "".join(heard)
    started.send_signal(signal.SIGKILL)
    assert started.wait(timeout=60) == -signal.SIGKILL
    started.stdout.close()
    started.stderr.close()


def test_copy_is_planned_killed_gone_on_with_followed_and_verified(desk, kafka):
    source = kafka.topic(partitions=SOURCES)
    fill(kafka, source, range(ROWS))
    target = f"{source}-{TARGETS}"
    kafka._made.append(target)
    shape = f"{SOURCES}:{TARGETS}"
    desk.run("plan", source, "--partitions", shape, "--slice-records", "4000", "--out", "plan.json")
    plan = json.loads((desk.folder / "plan.json").read_text())
    kill_after_a_slice(desk, "plan.json")
    # The laptop is lost: the file is gone, and only the id is left.
    (desk.folder / "plan.json").unlink()
    broken_off = desk.status(plan["id"])
    assert broken_off["state"] == "UNFINISHED"
    assert 1 <= broken_off["slices_done"] < len(plan["slices"])
    assert broken_off["next"] == f"seamark copies run {plan['id']}"
    # Meanwhile the source goes on.
    fill(kafka, source, range(ROWS, ROWS + 3000))
    out, _ = desk.work("run", plan["id"][:16], "--follow", "--max-lag", "0")
    assert "✓ COPIED" in out
    compare(kafka.read(source), kafka.read(target))
    # A second run is told that all is done, and starts no Spark: a master that is nowhere does not matter.
    out, err = desk.work("run", plan["id"], "--master", "spark://127.0.0.1:1")
    assert "nothing was written" in err
    done = desk.status(plan["id"])
    assert (done["state"], done["records"], done["generation"], done["behind"]) == ("COPIED", ROWS + 3000, 2, 0)
    for level in ("quick", "full"):
        report = json.loads(desk.work("verify", plan["id"], "--level", level, "-o", "json")[0])
        assert (report["passed"], report["level"]) == (True, level)
    # A record that the copy knows nothing of.
    fill_foreign(kafka, target)
    out, _ = desk.work("verify", plan["id"], "--level", "standard", code=1)
    assert "foreign record" in out


def fill_foreign(kafka, topic):
    producer = Producer({"bootstrap.servers": kafka.servers})
    producer.produce(topic, key=b"stranger", value=b"x", partition=0)
    assert producer.flush(WAIT_SECONDS) == 0


def compare(read, written):
    """Every record is there once, where its key belongs, and in the order of its source partition."""
    routing = Routing(Partitioner.MURMUR2, SOURCES, TARGETS)

    def tell(record):
        return record.key, record.value, record.headers, record.timestamp_ms

    assert len(read) == len(written) == ROWS + 3000
    sources = {tell(record): record.partition for record in read}
    assert len(sources) == len(read)
    for origin in range(SOURCES):
        for target in range(TARGETS):
            wanted = [
                tell(record)
                for record in sorted(read, key=lambda one: one.offset)
                if record.partition == origin and routing.choose(record.key, source=origin) == target
            ]
            found = [
                tell(record)
                for record in sorted(written, key=lambda one: one.offset)
                if record.partition == target and sources[tell(record)] == origin
            ]
            assert found == wanted
