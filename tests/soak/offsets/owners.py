"""Those whose offsets are moved: what they have in common, and what all of them share."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from seamark.devstack.process import wait_until

FILE = "org.apache.kafka.connect.file.FileStream"
STATES = ("RUNNING", "RUNNING", "PAUSED", "STOPPED")
# A connector must be where it is meant to be within this, also when a worker was killed and tasks move.
REST_SECONDS = 300
# Connect 4.3.1 was seen to publish a task's config and to give the task to no worker for ten minutes, over many
# rebalances; a restart did not help, a stop and a resume did. That is not seamark's doing: it is counted, and mended.
UNASSIGNED_SECONDS = 60


@dataclass(frozen=True)
class Wish:
    """What seamark is asked for, and what is held when it is done."""

    arguments: tuple[str, ...]
    after: dict


@dataclass
class Site:
    """What all lanes of a run share."""

    stack: object
    rest: object
    ledger: object
    commits: object
    brokers: object
    folder: Path
    producer: object
    # A source and a group that nobody may touch; others copy from them.
    idle_source: object = None
    idle_group: object = None

    def read_topic(self, topic):
        """Every record of a topic with one partition."""
        end = self.brokers.read_ends(topic, 1)[0]
        config = {"bootstrap.servers": self.stack.kafka.bootstrap_servers, "group.id": "soak-reader", "log_level": 0}
        consumer = Consumer(config)
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            records, deadline = [], time.monotonic() + REST_SECONDS
            while len(records) < end:
                assert time.monotonic() < deadline, f"{topic} could not be read to {end}"
                records += [record for record in consumer.consume(1000, 0.5) if record.error() is None]
        finally:
            consumer.close()
        return records


class Owner:
    """A connector at rest: it runs and has read everything, or it is paused or stopped."""

    word = ""
    states = STATES
    # Whether an undo puts the very bytes back.
    is_exact = False

    def __init__(self, site, rng):
        self.site, self.rng = site, rng
        self.name = f"soak-{self.word}-{uuid.uuid4().hex[:8]}"
        self.owner = self.name
        self.state = "RUNNING"
        self.counts = Counter()
        self._taskless_since = None

    def hold(self):
        """What the store holds now: partition to position, as seamark's files spell them."""
        raise NotImplementedError

    def hold_raw(self):
        """The same to the byte, where the store has bytes of its own."""
        return self.hold()

    def set_state(self, state):
        """Let it run, pause or stop, past seamark, and wait until it is at rest."""
        verb = {"RUNNING": "resume", "PAUSED": "pause", "STOPPED": "stop"}[state]
        self.site.rest.call("PUT", f"/connectors/{self.name}/{verb}")
        self.state = state
        self.come_to_rest()

    def come_to_rest(self):
        """Wait until Connect shows what it is meant to do and, if it runs, until it has read everything."""
        wait_until(self._is_at_rest, f"{self.name} was {self.state}", seconds=REST_SECONDS, every_seconds=0.5)

    def _is_at_rest(self):
        state, tasks = self.site.rest.read_status(self.name)
        if "FAILED" in (state, *tasks):
            self.counts["restarts"] += 1
            self.site.rest.call("POST", f"/connectors/{self.name}/restart?includeTasks=true&onlyFailed=true")
            return False
        if state == self.state == "RUNNING" and not tasks:
            self._mend_unassigned()
            return False
        self._taskless_since = None
        if state != self.state or set(tasks) - {self.state}:
            return False
        # One that is stopped has no tasks, and one that was paused while it was stopped gets none before it runs.
        return self._has_read_all() if self.state == "RUNNING" else self.state == "PAUSED" or not tasks

    def _mend_unassigned(self):
        """What a person does with a connector whose tasks nobody is given."""
        now = time.monotonic()
        self._taskless_since = self._taskless_since or now
        if now - self._taskless_since < UNASSIGNED_SECONDS or not self.site.rest.call(
            "GET", f"/connectors/{self.name}/tasks"
        ):
            return
        self.counts["tasks nobody was given"] += 1
        self._taskless_since = None
        for verb in ("stop", "resume"):
            self.site.rest.call("PUT", f"/connectors/{self.name}/{verb}")

    def find_unwritten(self, wanted, since):
        """A sentence if it can be told that this was not written since; only the records of a topic tell it."""
        del wanted, since
        return ""

    def write_export(self, positions):
        """A file that says where it stands."""
        path = self.site.folder / f"{self.name}-{uuid.uuid4().hex[:6]}.json"
        path.write_text(json.dumps({self.owner: self.spell(positions)}))
        return path

    def end(self):
        self.site.rest.call("DELETE", f"/connectors/{self.name}")
