"""Offsets are moved under real connectors: stopped, written, verified, running again; and all of it undone."""

from __future__ import annotations

import json
import time
import uuid

import pytest
from confluent_kafka import Consumer, TopicPartition

import seamark
from seamark.context import open_context
from seamark.fleet.offset_plans import OffsetPlans
from seamark.fleet.setup import make_setup
from seamark.model.offset import Offset
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
            "in_flight": "5s",
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
        body = {"name": self.name, "config": config}
        call_until(f"{self.endpoint.urls[0]}/connectors", lambda status, _: status == 201, method="POST", body=body)
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


def build_plans(fleet):
    return OffsetPlans(fleet.context, clusters=fleet._clusters, world=lambda: fleet._world, actor=lambda: fleet._actor)


def test_source_is_rewound_verified_and_put_back(stack, source, read_topic):
    before = len(TEXT)
    half = len("".join(f"{line}\n" for line in LINES[:150]))
    with source.open() as fleet:
        connector = fleet.connectors.one(source.name)
        planned = build_plans(fleet).write(
            connector, [Offset(source.partition, {"position": half})], title="rewind it by fifty lines"
        )
        assert [step.kind for step in planned.plan.steps] == [
            "set-run-state",
            "prove-stopped",
            "check-preview",
            "write-offsets",
            "verify-offsets",
            "set-run-state",
        ]
        result = fleet.apply(planned)
        assert result.is_done, result.failures
        # It reads the last fifty lines again, and stands where it stood.
        call_until(f"{source.url}/status", lambda _, answer: answer["connector"]["state"] == "RUNNING")
        source.await_position(before)
        assert read_topic(source.name, 250) == LINES + LINES[150:]

        undo = fleet.undo(result.change)
        kinds = [step.kind for step in planned.plan.steps if step.kind != "check-preview"]
        assert [step.kind for step in undo.plan.steps] == kinds
        back = fleet.apply(undo)
        assert back.is_done, back.failures
        source.await_position(before)
