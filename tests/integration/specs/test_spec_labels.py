"""`labels:` of spec files on a real worker and the Kafka journal: selected by, changed without a restart, undone."""

from __future__ import annotations

import io
import json
import time
import uuid
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

import seamark
from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.context import open_context
from seamark.errors import PermissionDeniedError
from tests.integration.rest import call

pytestmark = pytest.mark.timeout(600)
CLUSTER = "connect"


class Team:
    """Connectors of two teams in one spec file, and a context with a journal in Kafka."""

    def __init__(self, stack, folder):
        self.stack = stack
        self.folder = folder
        self.name = f"labels-{uuid.uuid4().hex[:6]}"
        self.names = [f"{self.name}-{number}" for number in range(3)]
        endpoint = stack.connect[CLUSTER]
        self.url = endpoint.urls[0]
        self.worker_config = endpoint.worker_config
        self.context = {
            "journal": "kafka",
            "journal_topic": f"{self.name}-journal",
            "insecure": True,
            "policy": {"files": ["/**"]},
            "kafka": {"bootstrap.servers": stack.kafka.bootstrap_servers},
            "connect": {CLUSTER: {"urls": list(endpoint.urls), "worker_config": endpoint.worker_config}},
        }
        (folder / "in.txt").write_text("a line\n")

    def open_fleet(self, _name=None, **more):
        path = self.folder / "seamark.yaml"
        path.write_text(json.dumps({"current": "dev", "contexts": {"dev": {**self.context, **more}}}))
        environ = {"SEAMARK_CONFIG": str(path), "XDG_STATE_HOME": str(self.folder / "state")}
        return seamark.Fleet(open_context(environ=environ))

    def write(self, **labels):
        """Declare one connector for each number: `c0={…}` are the labels of the first."""
        shared = {"connector.class": "FileStreamSource", "file": str(self.folder / "in.txt"), "topic": self.name}
        entries = {name: {"labels": labels[f"c{number}"]} for number, name in enumerate(self.names)}
        (self.folder / "spec.yaml").write_text(json.dumps({"defaults": shared, "connectors": entries}))

    def run(self, *argv):
        """Run a command line, and return its standard output."""
        out, err = io.StringIO(), io.StringIO()
        code = execute(argv, session=Session(open_fleet=self.open_fleet, out=out, err=err))
        assert code == 0, err.getvalue()
        return out.getvalue()

    def count_records(self):
        """Count what Connect has stored of these connectors: each config, state and restart is a record.

        Not the states of tasks: a rebalance for a connector of another test writes them, too.
        """
        topic = self._read_setting("config.storage.topic")
        keys = read_keys(self.stack.kafka.bootstrap_servers, topic)
        return Counter(name for key in keys for name in self.names if name in key)

    def _read_setting(self, key):
        lines = Path(self.worker_config).read_text().splitlines()
        return next(line.partition("=")[2].strip() for line in lines if line.partition("=")[0].strip() == key)


def read_keys(bootstrap, topic):
    """The keys of all records of a topic."""
    settings = {"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "enable.auto.commit": False}
    consumer = Consumer({**settings, "enable.partition.eof": True, "auto.offset.reset": "earliest"})
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        left, keys, deadline = set(partitions), [], time.monotonic() + 60
        while left and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() is None:
                keys.append((message.key() or b"").decode(errors="replace"))
            else:
                left.discard(message.partition())
        assert not left
        return keys
    finally:
        consumer.close()


def test_labels_are_applied_selected_changed_without_a_restart_and_undone(stack, tmp_path):
    team = Team(stack, tmp_path)
    spec, gold = tmp_path / "spec.yaml", {"team": "game", "tier": "gold"}
    team.write(c0=gold, c1=gold, c2={"team": "shop"})
    try:
        with team.open_fleet() as fleet:
            fleet.journal.make_setup()
            first = fleet.apply(fleet.plan(spec))
            assert first.is_done, first.failures
            assert fleet.plan(spec).is_empty
        assert team.run("connectors", "list", "-l", "team=game", "-o", "name").split() == [
            f"{CLUSTER}/{name}" for name in team.names[:2]
        ]
        config = call(f"{team.url}/connectors/{team.names[0]}/config")[1]
        assert "labels" not in config
        assert "gold" not in json.dumps(config)

        # A label changes: neither the configs nor the wanted states that Connect stores do.
        stored = team.count_records()
        assert all(stored[name] >= 3 for name in team.names)
        team.write(c0={"team": "game", "tier": "silver"}, c1=gold, c2={"team": "shop"})
        with team.open_fleet() as fleet:
            changed = fleet.apply(fleet.plan(spec))
            assert changed.is_done, changed.failures
            assert [step.kind for step in changed.steps] == ["label-connector"]
            assert fleet.plan(spec).is_empty
        assert team.run("connectors", "list", "-l", "team=game", "-l", "tier!=gold", "-o", "name").split() == [
            f"{CLUSTER}/{team.names[0]}"
        ]
        assert changed.change in team.run("journal", "list", "-l", "tier=silver", "-o", "name").split()
        team.run("journal", "undo", changed.change, "--yes")
        item = json.loads(team.run("connectors", "show", team.names[0], "-o", "json"))
        assert item["labels"] == gold
        time.sleep(3)
        assert team.count_records() == stored

        # The same count sees a restart: the connectors of one team are paused.
        team.run("connectors", "pause", "-l", "team=shop", "--yes")
        deadline = time.monotonic() + 60
        while team.count_records() == stored and time.monotonic() < deadline:
            time.sleep(1)
        paused = team.count_records()
        assert paused[team.names[2]] > stored[team.names[2]]
        assert [paused[name] for name in team.names[:2]] == [stored[name] for name in team.names[:2]]

        # A role of one team covers its connectors only.
        roles = {"shop": {"principals": ["User:ANONYMOUS"], "allow": ["read", "operate"], "labels": {"team": "shop"}}}
        with team.open_fleet(roles=roles) as fleet:
            assert fleet.apply(fleet.connectors.resume(team.names[2])).is_done
            with pytest.raises(PermissionDeniedError, match="not allowed"):
                fleet.apply(fleet.connectors.pause(team.names[0]))
    finally:
        for name in team.names:
            call(f"{team.url}/connectors/{name}", method="DELETE")
