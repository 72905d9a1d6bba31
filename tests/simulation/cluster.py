"""A simulated Connect cluster: the truth, and what its REST API shows of it.

Held to what Connect does: writes go to the config topic one after the other, and each is whole. What is shown follows:
the config after the worker's next tick, the status after the owner of the connector has acted and written it. A stopped
connector shows STOPPED before its tasks are gone, a deleted one's status lingers, a new one has none for a moment.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from seamark.connect.model import ConnectorStatus, State, Task
from seamark.errors import AlreadyExistsError, NotFoundError
from seamark.kafka.model import HeldRecord
from tests.simulation.clock import Timeline

Config = dict[str, str]


@dataclass(slots=True)
class Truth:
    """What a connector really is. `failed` are its failed tasks.

    Tasks are made when it runs and taken away when it stops: a stopped one that is paused has none until it is resumed.
    """

    config: Config
    target: str = "RUNNING"
    failed: frozenset[int] = frozenset()
    tasks: int = 0

    def follow(self) -> None:
        """Have the tasks of the target state."""
        if self.target == "STOPPED":
            self.tasks = 0
        elif self.target == "RUNNING":
            self.tasks = int(self.config.get("tasks.max", "1"))


@dataclass(slots=True)
class Shown:
    """What is shown of one name, now and soon: (from when on, what)."""

    config: Config | None = None
    status: ConnectorStatus | None = None
    configs: deque[tuple[float, Config | None]] = field(default_factory=deque)
    statuses: deque[tuple[float, ConnectorStatus | None]] = field(default_factory=deque)


class Cluster:
    """The cluster. Its methods are what lands, not what is sent."""

    def __init__(self, timeline: Timeline, *, rng: random.Random, longest_lag: float) -> None:
        self.connectors: dict[str, Truth] = {}
        # The records of the offsets topic by their places.
        self.positions: dict[str, HeldRecord] = {}
        self.outage_until = 0.0
        self.rebalance_until = 0.0
        # Until then the offsets topic can't be read; the journal and Connect can.
        self.brokers_back_at = 0.0
        # The next status shows this late.
        self.slow_seconds = 0.0
        # The lag of what is not slow stays below this: it is what seamark is told to reckon with.
        self.longest_lag = longest_lag
        self._timeline = timeline
        self._rng = rng
        self._shown: dict[str, Shown] = {}

    def add(self, name: str, config: Config, *, target: str, failed: frozenset[int] = frozenset()) -> None:
        """A connector that has been there for long."""
        truth = self.connectors[name] = Truth(dict(config), "RUNNING", failed)
        truth.follow()
        truth.target = target
        truth.follow()
        self._shown[name] = Shown(config=truth.config, status=_build_status(truth))

    # --- what is shown -----------------------------------------------------------------------------------------

    def show_config(self, name: str) -> Config:
        """GET /connectors/NAME/config."""
        shown = self._show(name)
        if shown.config is None:
            raise NotFoundError(f"Connector {name} not found")
        return {**shown.config, "name": name}

    def show_status(self, name: str) -> ConnectorStatus:
        """GET /connectors/NAME/status."""
        shown = self._show(name)
        if shown.status is None:
            raise NotFoundError(f"No status found for connector {name}")
        if self._timeline.now < self.rebalance_until:
            return ConnectorStatus(State.UNASSIGNED, tasks=shown.status.tasks)
        return shown.status

    def hurry(self) -> None:
        """Let nothing show later than the longest lag from now."""
        latest = self._timeline.now + self.longest_lag
        for shown in self._shown.values():
            shown.statuses = deque((min(at, latest), status) for at, status in shown.statuses)

    # --- what lands --------------------------------------------------------------------------------------------

    def create(self, name: str, config: Mapping[str, str], *, target: str) -> None:
        """POST /connectors."""
        if name in self.connectors:
            raise AlreadyExistsError(f"Connector {name} already exists")
        self.connectors[name] = Truth(_bare(config), target)
        self._follow(name)

    def put(self, name: str, config: Mapping[str, str]) -> None:
        """PUT /connectors/NAME/config: creates what is not there, as Connect does."""
        if name not in self.connectors:
            self.create(name, config, target="RUNNING")
            return
        truth = self.connectors[name]
        truth.config, truth.failed = _bare(config), frozenset()
        self._follow(name)

    def delete(self, name: str) -> None:
        """DELETE /connectors/NAME."""
        self._find(name)
        del self.connectors[name]
        shown = self._show(name)
        shown.configs.append((self._later(shown.configs), None))
        shown.statuses.append((self._later(shown.statuses), None))

    def set_target(self, name: str, target: str) -> None:
        """PUT /connectors/NAME/pause, resume or stop."""
        truth = self._find(name)
        truth.target = target
        self._follow(name, config=False)

    def restart(self, name: str) -> None:
        """POST /connectors/NAME/restart?includeTasks=true&onlyFailed=true."""
        truth = self._find(name)
        truth.failed = frozenset()
        self._follow(name, config=False)

    def _find(self, name: str) -> Truth:
        if name not in self.connectors:
            raise NotFoundError(f"Unknown connector: {name}")
        return self.connectors[name]

    def _follow(self, name: str, *, config: bool = True) -> None:
        truth = self.connectors[name]
        truth.follow()
        shown = self._show(name)
        if config:
            shown.configs.append((self._later(shown.configs), truth.config))
        status = _build_status(truth)
        at = self._later(shown.statuses, slow=self.slow_seconds)
        self.slow_seconds = 0.0
        before = shown.statuses[-1][1] if shown.statuses else shown.status
        if status.state is State.STOPPED and before is not None and before.tasks:
            shown.statuses.append((at, ConnectorStatus(State.STOPPED, tasks=before.tasks)))
            at += self._rng.random() * 3
        shown.statuses.append((at, status))

    def _later(self, queue: deque[tuple[float, object]], *, slow: float = 0.0) -> float:
        """When something that lands now is shown: never before what landed earlier."""
        lag = self._rng.random() * self.longest_lag if self._rng.random() < 0.5 else 0.0
        return max(queue[-1][0] if queue else 0.0, self._timeline.now + lag + slow)

    def _show(self, name: str) -> Shown:
        shown = self._shown.get(name)
        if shown is None:
            shown = self._shown[name] = Shown()
        while shown.configs and shown.configs[0][0] <= self._timeline.now:
            shown.config = shown.configs.popleft()[1]
        while shown.statuses and shown.statuses[0][0] <= self._timeline.now:
            shown.status = shown.statuses.popleft()[1]
        return shown


def _bare(config: Mapping[str, str]) -> Config:
    return {key: value for key, value in config.items() if key != "name"}


def _build_status(truth: Truth) -> ConnectorStatus:
    if truth.target == "STOPPED":
        return ConnectorStatus(State.STOPPED)
    state = State(truth.target)
    tasks = tuple(Task(id=i, state=State.FAILED if i in truth.failed else state) for i in range(truth.tasks))
    return ConnectorStatus(state, tasks=tasks)
