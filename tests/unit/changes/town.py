"""A Connect cluster in memory that many threads may act on at once, and a journal in a folder."""

from __future__ import annotations

import threading
import time

from seamark.changes.action import When
from seamark.changes.actor import Actor
from seamark.changes.executor import Executor
from seamark.changes.file_journal import FileJournal
from seamark.changes.locks import cluster_lock
from seamark.changes.recovery import Recovery
from seamark.changes.timing import ChangeTiming, Pace
from seamark.connect.model import Connector, ConnectorStatus, State, Task
from seamark.core.refs import ConnectorType
from seamark.errors import NotFoundError
from tests.ports import MethodPorts
from tests.step_list import build_step_list, plan_actions

CLUSTER = "town"
PACE = Pace(at_once=16, writers=4)
CLASS = {"connector.class": "Town"}
# So much faster does the town's clock go than ours.
SPEED = 50
TIMING = ChangeTiming(
    in_flight_seconds=10.0,
    begin_seconds=100.0,
    send_seconds=10.0,
    shows_seconds=2.0,
    foreign_seconds=1.0,
    look_seconds=0.25,
)


class Town(MethodPorts):
    """An `Environment` with one Connect cluster. A config with `fails` fails its task; `hangs` blocks the request."""

    def __init__(self):
        self.configs = {}
        self.writes = []
        self.hanging = threading.Event()
        self.reached = threading.Event()
        self.reads = 0
        self._mutex = threading.Lock()
        self.writing = 0
        self.most_writing = 0
        self.broken = None

    # the world

    @property
    def clock(self):
        return self

    def now(self):
        return time.time() * SPEED

    def sleep(self, seconds):
        time.sleep(seconds / SPEED)

    def connect(self, _cluster):
        return self

    def reveal(self, reference):
        return f"revealed {reference}"

    def seal(self, value):
        return f"seal of {len(value)}"

    # its cluster

    def read_names(self):
        return tuple(self.configs)

    def read_connectors(self):
        self.reads += 1
        return tuple(self.read_connector(name) for name in list(self.configs))

    def read_connector(self, name):
        return Connector(name, CLUSTER, ConnectorType.SOURCE, self.read_config(name), self._status(name))

    def read_config(self, name):
        if name not in self.configs:
            raise NotFoundError(name)
        return {"name": name, **self.configs[name]}

    def read_status(self, *names):
        return self._status(names[-1])

    def create_connector(self, name, config, *, initial_state=None):
        del initial_state
        self._write("create", name, dict(config))

    def put_config(self, name, config):
        self._write("put", name, dict(config))

    def delete_connector(self, name):
        self._write("delete", name, None)

    def _status(self, name):
        if name not in self.configs:
            raise NotFoundError(name)
        failed = "fails" in self.configs[name]
        task = Task(0, State.FAILED if failed else State.RUNNING, trace="Boom: no such table\n\tat x" if failed else "")
        return ConnectorStatus(State.RUNNING, tasks=(task,))

    def _write(self, verb, name, config):
        with self._mutex:
            self.writing += 1
            self.most_writing = max(self.most_writing, self.writing)
        try:
            if self.broken is not None:
                raise self.broken
            if config and "hangs" in config:
                self.reached.set()
                assert self.hanging.wait(20), "nobody let the hanging one go"
            time.sleep(0.002)
            with self._mutex:
                self.writes.append((verb, name))
                if config is None:
                    self.configs.pop(name)
                else:
                    self.configs[name] = config
        finally:
            with self._mutex:
                self.writing -= 1


def build_plan(town, *lanes):
    """A plan; a lane is a row of steps, a pair of a step and True is a fallback."""
    actions = [
        build_step_list(f"lane-{number}", lane, locks=(cluster_lock(CLUSTER),), marked=When.FALLBACK)
        for number, lane in enumerate(lanes)
    ]
    plan, prepared = plan_actions(actions, world=town, title="many", context="town")
    return plan, list(prepared.steps)


def build_executor(town, journal, *, by="me", pace=PACE):
    return Executor(journal, town, actor=Actor(by), timing=TIMING, pace=pace)


def apply(town, folder, *lanes, pace=PACE, journal=None):
    """Plan and apply."""
    plan, steps = build_plan(town, *lanes)
    return build_executor(town, journal or open_journal(folder), pace=pace).apply(plan, steps)


def recover(town, folder, *, pace=PACE):
    return Recovery(build_executor(town, open_journal(folder), by="other", pace=pace))


def open_journal(folder):
    return FileJournal(folder)
