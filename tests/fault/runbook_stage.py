"""A small stack for a runbook: file sources, their topics and file sinks, and what is in each.

It is a test's own, so the names are those of the pages: context dev, cluster game, source log-purchase, sink lake.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from confluent_kafka.admin import AdminClient, ConfigResource

import seamark
from seamark.connect.client import ConnectClient
from seamark.context import open_context
from seamark.devstack.client import ask
from seamark.devstack.process import wait_until
from seamark.errors import SeamarkError
from seamark.offsets.service import Route
from tests.integration.offset_tools import read_partition

ROOT = Path(__file__).parents[2]
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
STRING = "org.apache.kafka.connect.storage.StringConverter"
PATIENCE_SECONDS = 120
ROW_BYTES = len("pur-000000\n")
_PLAIN = {"tasks.max": "1", "key.converter": STRING, "value.converter": STRING}


class RunbookStage:
    """One stack, the context file of its operator, and the folder in which he types."""

    def __init__(self, stack, folder, *, clusters=(("game", "connect"),), **settings):
        self.stack, self.folder = stack, folder
        self.endpoints = {name: stack.connect[key] for name, key in clusters}
        self.clients = {name: ConnectClient(found.urls, cluster=name) for name, found in self.endpoints.items()}
        self.admin = AdminClient({"bootstrap.servers": stack.kafka.bootstrap_servers})
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SEAMARK_")},
            "SEAMARK_CONFIG": str(self._write_context(settings)),
            "XDG_STATE_HOME": str(folder / "state"),
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        }

    def _write_context(self, settings):
        connect = {
            name: {"urls": list(found.urls), "worker_config": found.worker_config}
            for name, found in self.endpoints.items()
        }
        # Short, so that a lost answer is settled within seconds.
        context = {"in_flight_timeout": "5s", "policy": {"files": ["/**"]}, **settings, "connect": connect}
        context["kafka"] = {"bootstrap.servers": self.stack.kafka.bootstrap_servers}
        file = self.folder / "seamark.yaml"
        file.write_text(json.dumps({"current": "dev", "contexts": {"dev": context}}))
        return file

    def close(self):
        """Let the connections go; the servers end with the stack."""
        for client in self.clients.values():
            client.close()

    def kill_worker(self, cluster="game"):
        """End the only worker of a cluster."""
        self._signal("kill", cluster)

    def restart_worker(self, cluster="game"):
        """Start the only worker of a cluster again; gives back when it answers."""
        self._signal("restart", cluster)

    def _signal(self, command, cluster):
        (url,) = self.endpoints[cluster].urls
        (server,) = [found for found in self.stack.servers if url.endswith(f":{found.port}")]
        ask(Path(self.stack.folder), command, server.name)

    def delete_topic(self, name):
        """The accident, or what the page has done by Kafka's own program."""
        self.admin.delete_topics([name])[name].result(30)

    def list_topics(self):
        """The names of all topics."""
        return set(self.admin.list_topics(timeout=30).topics)

    def count_partitions(self, topic):
        """How many partitions a topic has."""
        return len(self.admin.list_topics(topic, timeout=30).topics[topic].partitions)

    def read_policy(self, topic):
        """Its `cleanup.policy`."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        return self.admin.describe_configs([resource])[resource].result(30)["cleanup.policy"].value

    def write_rows(self, count, *, kind="purchase"):
        """So many rows more for a source."""
        rows = len(self.read_rows(kind))
        with (self.folder / f"{kind}.txt").open("a") as file:
            file.writelines(f"{kind[:3]}-{number:06}\n" for number in range(rows, rows + count))

    def read_rows(self, kind="purchase"):
        """What a source has to read."""
        file = self.folder / f"{kind}.txt"
        return file.read_text().splitlines() if file.exists() else []

    def count_topic(self, topic="purchase"):
        """How often each row is in the topic."""
        values = read_partition(self.stack.kafka.bootstrap_servers, topic)
        return Counter(value.decode() for value in values)

    def count_sink(self, file="lake.txt"):
        """How often each row is where the sink delivers."""
        path = self.folder / file
        return Counter(path.read_text().splitlines()) if path.exists() else Counter()

    def build_source(self, kind="purchase"):
        """The config of a source of such rows."""
        return {**_PLAIN, "connector.class": SOURCE, "file": str(self.folder / f"{kind}.txt"), "topic": kind}

    def build_sink(self, topics="purchase", *, file="lake.txt"):
        """The config of a sink that writes a line for each record."""
        return {**_PLAIN, "connector.class": SINK, "file": str(self.folder / file), "topics": topics}

    def create(self, name, config, *, cluster="game"):
        """A connector that runs."""
        wait_until(lambda: self._put(name, config, cluster), f"Connect took {name}", seconds=PATIENCE_SECONDS)
        self.await_running(name, cluster=cluster)

    def _put(self, name, config, cluster):
        try:
            self.clients[cluster].put_config(name, config)
        except SeamarkError as error:
            # The leader changes while a worker joins.
            if not error.retryable:
                raise
            return False
        return True

    def find_states(self, name, *, cluster="game"):
        """The states of a connector and its tasks; none where Connect can't say."""
        try:
            status = self.clients[cluster].read_status(name)
        except SeamarkError:
            return ()
        return (str(status.state), *(str(task.state) for task in status.tasks))

    def await_running(self, name, *, cluster="game"):
        """It runs, with its one task."""
        wait_until(
            lambda: self.find_states(name, cluster=cluster) == ("RUNNING", "RUNNING"),
            f"{name} ran",
            seconds=PATIENCE_SECONDS,
        )

    def await_delivered(self, *kinds, file="lake.txt"):
        """Every row has come to the sink's file."""
        rows = {row for kind in kinds or ("purchase",) for row in self.read_rows(kind)}
        wait_until(lambda: set(self.count_sink(file)) >= rows, f"every row was in {file}", seconds=PATIENCE_SECONDS)

    def await_stored(self, owner, rows):
        """A source has stored that it has read so many rows."""
        self.await_committed(owner, rows * ROW_BYTES)

    def await_committed(self, owner, position):
        """A connector of one partition stands there."""
        wait_until(
            lambda: self._try_positions(owner) == [position],
            f"{owner} stood at {position}",
            seconds=PATIENCE_SECONDS,
            every_seconds=1,
        )

    def _try_positions(self, owner):
        """Where a connector stands; None while nobody can tell."""
        try:
            return self.read_positions(owner)
        except SeamarkError as error:
            if not error.retryable:
                raise
            return None

    def run(self, *arguments, code=0, failpoint=None):
        """A command of seamark's, typed in the folder: what it said."""
        done = subprocess.run(
            [sys.executable, "-m", "tests.fault.cli", *arguments],
            cwd=self.folder,
            env=self.environ | ({"SEAMARK_FAILPOINT": failpoint} if failpoint else {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode == code, (arguments, done.returncode, said)
        return said

    def read_positions(self, owner):
        """Where a connector stands, as its store says."""
        with seamark.Fleet(open_context(environ=self.environ)) as fleet:
            return [next(iter(found.offset.values())) for found in fleet.offsets.get(owner, route=Route.STORE).offsets]
