"""`offsets:` of spec files on real workers: a new source and a new sink start there, and an undo removes both."""

from __future__ import annotations

import json
import time
import uuid

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import seamark
from seamark.context import open_context
from tests.integration.rest import call

pytestmark = pytest.mark.timeout(600)
LINES = [f"line {number}" for number in range(10)]
SKIPPED = 6


def open_fleet(stack, cluster, folder):
    endpoint = stack.connect[cluster]
    context = {
        "journal": "file",
        "journal_folder": str(folder / "journal"),
        "policy": {"files": ["/**"]},
        "kafka": {"bootstrap.servers": stack.kafka.bootstrap_servers},
        "connect": {cluster: {"urls": list(endpoint.urls), "worker_config": endpoint.worker_config}},
    }
    (folder / "seamark.yaml").write_text(json.dumps({"current": "dev", "contexts": {"dev": context}}))
    environ = {"SEAMARK_CONFIG": str(folder / "seamark.yaml"), "XDG_STATE_HOME": str(folder / "state")}
    return seamark.Fleet(open_context(environ=environ))


def read_topic(bootstrap, topic, number):
    """The first records of a topic of one partition, once there are so many."""
    settings = {"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "enable.auto.commit": False}
    consumer = Consumer({**settings, "allow.auto.create.topics": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = []
        deadline = time.monotonic() + 120
        while len(found) < number and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                found.append(message.value().decode())
        return found
    finally:
        consumer.close()


def wait_for_lines(path, number):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and (not path.exists() or len(path.read_text().splitlines()) < number):
        time.sleep(0.5)
    return path.read_text().splitlines()


@pytest.mark.parametrize("cluster", ["connect", "connect-3-5-2"])
def test_new_source_and_new_sink_start_at_their_offsets(stack, tmp_path, cluster):
    name = f"start-{uuid.uuid4().hex[:6]}"
    text = "".join(f"{line}\n" for line in LINES)
    (tmp_path / "in.txt").write_text(text)
    producer = Producer({"bootstrap.servers": stack.kafka.bootstrap_servers})
    for line in LINES:
        # What the sink's worker converts with its JSON or text converter.
        producer.produce(f"{name}-sink", json.dumps(line).encode(), partition=0)
    assert producer.flush(60) == 0
    json_values = {
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    text_values = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
    source = {"connector.class": "FileStreamSource", "tasks.max": 1, "file": str(tmp_path / "in.txt")}
    sink = {"connector.class": "FileStreamSink", "tasks.max": 1, "file": str(tmp_path / "out.txt")}
    at = len("".join(f"{line}\n" for line in LINES[:SKIPPED]))
    spec = [
        {
            "name": f"{name}-source",
            "config": {**source, **text_values, "topic": f"{name}-source"},
            "offsets": [{"partition": {"filename": str(tmp_path / "in.txt")}, "offset": {"position": at}}],
        },
        {
            "name": f"{name}-sink",
            "config": {**sink, **json_values, "topics": f"{name}-sink"},
            "offsets": [
                {
                    "partition": {"kafka_topic": f"{name}-sink", "kafka_partition": 0},
                    "offset": {"kafka_offset": SKIPPED},
                }
            ],
        },
    ]
    (tmp_path / "spec.yaml").write_text(json.dumps({"connectors": spec}))
    url = stack.connect[cluster].urls[0]
    try:
        with open_fleet(stack, cluster, tmp_path) as fleet:
            result = fleet.apply(fleet.plan(tmp_path / "spec.yaml"))
            assert result.is_done, result.failures
            assert read_topic(stack.kafka.bootstrap_servers, f"{name}-source", len(LINES) - SKIPPED) == LINES[SKIPPED:]
            assert wait_for_lines(tmp_path / "out.txt", len(LINES) - SKIPPED) == LINES[SKIPPED:]
            assert fleet.plan(tmp_path / "spec.yaml").is_empty
            undone = fleet.apply(fleet.undo(result.change))
            assert undone.is_done, undone.failures
            assert {f"{name}-source", f"{name}-sink"}.isdisjoint(call(f"{url}/connectors")[1])
            assert not [one for one in fleet.offsets.orphans().items if name in one.owner]
    finally:
        for kind in ("source", "sink"):
            call(f"{url}/connectors/{name}-{kind}", method="DELETE")
