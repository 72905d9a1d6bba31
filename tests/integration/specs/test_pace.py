"""`apply --parallel --wait-stable` on real workers. The config topic shows when each connector was created."""

from __future__ import annotations

import io
import json
import uuid
from itertools import pairwise

import pytest
from confluent_kafka import Consumer, TopicPartition

from seamark.changes.timing import STABLE_SECONDS
from seamark.cli.main import execute
from seamark.cli.session import Session
from tests.integration.rest import call

pytestmark = pytest.mark.timeout(600)
PARALLEL = 3


def run(*argv):
    out, err = io.StringIO(), io.StringIO()
    code = execute(argv, session=Session(out=out, err=err, stdin=io.StringIO()))
    assert code == 0, out.getvalue() + err.getvalue()
    return out.getvalue()


def read_times(bootstrap, topic, prefix):
    """When the config topic got the first record of each connector whose name begins so, in seconds."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "enable.auto.commit": False})
    try:
        end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1]
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = {}
        for _ in range(end):
            message = consumer.poll(5)
            if message is None:
                break
            key = (message.key() or b"").decode()
            if key.startswith(f"connector-{prefix}") and message.value() is not None:
                found.setdefault(key.removeprefix("connector-"), message.timestamp()[1] / 1000)
        return found
    finally:
        consumer.close()


@pytest.mark.parametrize("cluster", ["connect", "connect-3-5-2"])
def test_each_group_of_connectors_waits_for_stable_workers(stack, tmp_path, monkeypatch, cluster):
    endpoint = stack.connect[cluster]
    name = f"pace-{uuid.uuid4().hex[:6]}"
    config = {
        "current": "dev",
        "contexts": {
            "dev": {
                "journal": "file",
                "journal_folder": str(tmp_path / "journal"),
                "policy": {"files": ["/**"]},
                "kafka": {"bootstrap.servers": stack.kafka.bootstrap_servers},
                "connect": {cluster: {"urls": list(endpoint.urls), "worker_config": endpoint.worker_config}},
                "pace": {"parallel": PARALLEL, "wait_stable": True},
            }
        },
    }
    (tmp_path / "seamark.yaml").write_text(json.dumps(config))
    monkeypatch.setenv("SEAMARK_CONFIG", str(tmp_path / "seamark.yaml"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "in.txt").write_text("")
    names = [f"{name}-{number}" for number in range(8)]
    settings = {"connector.class": "FileStreamSource", "tasks.max": 1, "file": str(tmp_path / "in.txt"), "topic": name}
    spec = {"connectors": [{"name": one, "config": settings} for one in names]}
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))

    said = run("apply", "-f", str(tmp_path / "spec.yaml"), "--yes")
    try:
        assert "Pace: 3 at once; each group waits until the workers are stable." in said
        times = sorted(read_times(stack.kafka.bootstrap_servers, endpoint.config_topic, name).values())
        assert len(times) == len(names)
        groups = [[times[0]]]
        for before, at in pairwise(times):
            if at - before >= STABLE_SECONDS:
                groups.append([])
            groups[-1].append(at)
        assert [len(group) for group in groups] == [3, 3, 2]
        # The pace of the context is overridden, and nothing waits.
        said = run("destroy", "-f", str(tmp_path / "spec.yaml"), "--yes")
        assert "Pace: 3 at once" in said
    finally:
        for one in names:
            call(f"{endpoint.urls[0]}/connectors/{one}", method="DELETE")
