"""One worker of the fake: what an endpoint needs to know to answer."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from tests.fakes.connect import texts
from tests.fakes.connect.message import Refusal, Request
from tests.fakes.connect.plugins import PluginSpec, find_plugin
from tests.fakes.connect.state import FakeConnector, FakeState, Shown

LEADER = 0


@dataclass(frozen=True, slots=True)
class Setup:
    """How a fake cluster is set up."""

    version: str
    worker_ids: tuple[str, ...]
    plugins: tuple[PluginSpec, ...]
    topic_tracking: bool = True
    clock_skew_seconds: float = 0.0
    kafka_cluster_id: str = "kafka-1"

    @property
    def numbers(self) -> tuple[int, int]:
        """Major and minor version."""
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)

    def is_at_least(self, major: int, minor: int) -> bool:
        """Whether the version is this one or later."""
        return self.numbers >= (major, minor)


@dataclass(frozen=True, slots=True)
class Call:
    """A request with all that answers it: the state, the setup, and the connector's name where the path has one."""

    request: Request
    state: FakeState
    setup: Setup
    name: str = ""

    def connector(self, complaint: str) -> FakeConnector:
        """The connector, or a 404 with this complaint."""
        found = self.state.connectors.get(self.name)
        if found is None:
            raise Refusal(404, complaint)
        return found

    def hand_to_leader(self) -> Call:
        """The call as the leader gets it, from whichever worker was asked."""
        return self._hand_to(LEADER)

    def hand_to_owner(self) -> Call:
        """The call as the worker gets it that runs the connector."""
        return self._hand_to(self.owner_of(self.name))

    def owner_of(self, name: str) -> int:
        """The worker that runs a connector: any will do, but always the same."""
        return zlib.crc32(name.encode()) % len(self.setup.worker_ids)

    def _hand_to(self, worker: int) -> Call:
        if self.request.worker == worker:
            return self
        if self.request.first("forward") == "false":
            raise Refusal(409, texts.TWO_HOPS)
        # A fault of Connect's own: a worker that forwards quotes neither `;` nor `%`, so the next one takes the rest of
        # the name for a parameter, or unquotes it once more, and acts on another connector.
        return Call(self.request, self.state, self.setup, unquote(self.name.partition(";")[0]))

    def status_body(self, shown: Shown, *, name: str, kind: str) -> dict[str, Any]:
        """A status as REST tells it."""
        owner = self.owner_of(name)
        workers = self.setup.worker_ids
        connector = self._state_body(shown.state, workers[owner], shown.trace)
        traces = dict(enumerate(shown.task_traces))
        tasks = [
            {"id": number, **self._state_body(state, workers[(owner + number) % len(workers)], traces.get(number, ""))}
            for number, state in enumerate(shown.tasks)
        ]
        return {"name": name, "connector": connector, "tasks": tasks, "type": kind}

    def info_body(self, connector: FakeConnector) -> dict[str, Any]:
        """A connector's info as REST tells it."""
        tasks = [{"connector": connector.name, "task": number} for number in range(connector.task_count)]
        known = find_plugin(self.setup.plugins, connector.plugin.class_name) is not None
        kind = connector.plugin.type if known else "unknown"
        return {"name": connector.name, "config": connector.config, "tasks": tasks, "type": kind}

    def _state_body(self, state: str, worker_id: str, trace: str) -> dict[str, Any]:
        body: dict[str, Any] = {"state": state, "worker_id": worker_id}
        if trace:
            body["trace"] = trace
        if self.setup.is_at_least(4, 1):
            body["version"] = self.setup.version
        return body
