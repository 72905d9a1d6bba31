"""Offsets are moved under real connectors: stopped, written, verified, running again; and all of it undone."""

from __future__ import annotations

import json
import time
import uuid

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import seamark
from seamark.changes.setup import make_setup
from seamark.context import open_context
from seamark.core.offsets import Offset
from seamark.offsets.model import SafetyOptions
from seamark.offsets.write.plans import plan_write
from tests.integration.rest import DEADLINE_SECONDS, call, call_until

LINES = [f"line {number}" for number in range(200)]
TEXT = "".join(f"{line}\n" for line in LINES)


class Source:
    """A file source of two hundred lines, and the context of whoever moves it."""

    def __init__(self, stack, folder):
        self.name = f"move-{uuid.uuid4().hex[:8]}"
        self.file = folder / "in.txt"
        self.file.write_text(TEXT)
        self.endpoint = stack.connect["connect"]
        self.partition = {"filename": str(self.file)}
        cluster = {"urls": list(self.endpoint.urls), "worker_config": self.endpoint.worker_config}
        context = {
            "journal": "file",
            "journal_folder": str(folder / "journal"),
            "in_flight_timeout": "5s",
            "policy": {"files": ["/**"]},
            "kafka": {"bootstrap.servers": stack.kafka.bootstrap_servers},
            "connect": {"connect": cluster},
        }
        (folder / "seamark.yaml").write_text(json.dumps({"current": "dev", "contexts": {"dev": context}}))
        self.environ = {"SEAMARK_CONFIG": str(folder / "seamark.yaml"), "XDG_STATE_HOME": str(folder / "state")}
        self.url = f"{self.endpoint.urls[0]}/connectors/{self.name}"
        make_setup(open_context(environ=self.environ))

    def create(self):
        config = {
            "connector.class": "FileStreamSource",
            "tasks.max": "1",
            "file": str(self.file),
            "topic": self.name,
        }
        # Not a POST: where the answer of one is lost, the next is refused for ever.
        call_until(f"{self.url}/config", lambda status, _: status in {200, 201}, method="PUT", body=config)
        self.await_position(len(TEXT))

    def await_position(self, position):
        wanted = [{"partition": self.partition, "offset": {"position": position}}]
        call_until(f"{self.url}/offsets", lambda _, answer: answer is not None and answer["offsets"] == wanted)

    def open(self):
        return seamark.Fleet(open_context(environ=self.environ))

    def delete(self):
        call(self.url, method="DELETE")


@pytest.fixture
def source(stack, tmp_path):
    source = Source(stack, tmp_path)
    source.create()
    yield source
    source.delete()


@pytest.fixture
def read_topic(stack):
    """The values of a topic of one partition, once there are so many."""

    def read(topic, count):
        consumer = Consumer({"bootstrap.servers": stack.kafka.bootstrap_servers, "group.id": topic})
        consumer.assign([TopicPartition(topic, 0, 0)])
        found, deadline = [], time.monotonic() + DEADLINE_SECONDS
        while len(found) < count and time.monotonic() < deadline:
            found += [json.loads(message.value()) for message in consumer.consume(500, timeout=0.5)]
        # Nothing more comes.
        found += [json.loads(message.value()) for message in consumer.consume(500, timeout=1.0)]
        consumer.close()
        return found

    return read


def is_running(status, answer):
    return status == 200 and answer["connector"]["state"] == "RUNNING"


def check_read_on(found, already, lines):
    """It delivered these lines, and none before them. A rebalance may let Connect deliver the same once more."""
    new = found[already:]
    assert new[: len(lines)] == lines
    assert set(new) == set(lines)
    return len(found)


def test_source_is_rewound_verified_and_put_back(stack, source, read_topic):
    before = len(TEXT)
    half = len("".join(f"{line}\n" for line in LINES[:150]))
    already = check_read_on(read_topic(source.name, 200), 0, LINES)
    with source.open() as fleet:
        connector = fleet.connectors.get(source.name)
        planned = plan_write(
            fleet._open_offset_plan(),
            connector,
            [Offset(source.partition, {"position": half})],
            title="rewind it by fifty lines",
            safety=SafetyOptions(wait_seconds=DEADLINE_SECONDS),
        )
        assert [step.kind for step in planned.plan.steps] == [
            "set-run-state",
            "prove-stopped",
            "check-preview",
            "write-offsets",
            "verify-offsets",
            "set-run-state",
            "check-progress",
        ]
        result = fleet.apply(planned)
        assert result.is_done, result.failures
        assert result.steps[-1].note == f"file {source.file}, byte {before}"
        # It reads the last fifty lines again, and stands where it stood.
        call_until(f"{source.url}/status", is_running)
        source.await_position(before)
        already = check_read_on(read_topic(source.name, already + 50), already, LINES[150:])

        # It has caught up: nobody stops it for nothing.
        undo = fleet.undo(result.change)
        assert undo.is_empty
        assert undo.plan.notes == (
            f"connector/connect/{source.name} is already in its previous state and is not changed",
        )

        with source.file.open("a") as file:
            file.write("one more\n")
        source.await_position(before + len("one more\n"))
        undo = fleet.undo(result.change)
        kinds = [step.kind for step in planned.plan.steps if step.kind != "check-preview"]
        assert [step.kind for step in undo.plan.steps] == kinds
        back = fleet.apply(undo)
        assert back.is_done, back.failures
        # A slow machine may not have stored anything yet.
        assert back.steps[-1].note.startswith((f"file {source.file}, byte {before + 9}", "no new offset"))
        check_read_on(read_topic(source.name, already + 2), already, ["one more", "one more"])


def test_an_idle_source_is_told_as_idle(source):
    with source.open() as fleet:
        # A line that has no end yet. Behind the end of the file its task would go round and round and never end, also
        # when the connector is long deleted.
        with source.file.open("a") as file:
            file.write("x" * 1000)
        planned = fleet.offsets.move(source.name, to=len(TEXT) + 1000)
        result = fleet.apply(planned)
        assert result.is_done, result.failures
        assert result.steps[-1].note.startswith("no new offset within 2 s: no new data, or not flushed yet")


def test_a_write_of_somebody_else_after_the_move_is_a_failure(stack, source):
    """Past seamark, right before the connector runs again: what a zombie task would do."""
    with source.open() as fleet:
        planned = fleet.offsets.move(source.name, to=len(TEXT) + 1000)
        store = fleet._stores.find(fleet.connectors.get(source.name)).first
        stored = store.read([source.name]).offsets[0].evidence
        resume = fleet._write_clusters.client("connect").resume

        def resume_late(name):
            producer = Producer({"bootstrap.servers": stack.kafka.bootstrap_servers})
            value = json.dumps({"position": 7}, separators=(",", ":")).encode()
            producer.produce(source.endpoint.offsets_topic, value, stored.key, partition=stored.partition)
            assert producer.flush(30) == 0
            return resume(name)

        fleet._write_clusters.client("connect").resume = resume_late
        result = fleet.apply(planned)
        assert not result.is_done
        (error,) = result.failures.values()
        assert "another process wrote its offsets" in error.message
        assert f"seamark offsets history connect/{source.name}" in error.hint
        last = [entry for entry in fleet.journal.show(result.change) if entry.kind == "outcome"][-1]
        assert "another process wrote its offsets" in last.body["error"]["message"]
    call_until(f"{source.url}/status", is_running)
