"""A connector as Connect tells it: its config, its state, its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from seamark.core.refs import ConnectorType


class State(StrEnum):
    """What Connect says a connector or a task is. A word we do not know becomes UNKNOWN."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    UNASSIGNED = "UNASSIGNED"
    RESTARTING = "RESTARTING"
    DESTROYED = "DESTROYED"
    UNKNOWN = "UNKNOWN"

    @classmethod
    def of(cls, word: str) -> State:
        """The state of that name, or UNKNOWN: a newer Connect may have words we never saw."""
        try:
            return cls(word.upper())
        except ValueError:
            return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class Task:
    """One task and where it runs. `trace` is the stack trace of a failed one."""

    id: int
    state: State
    worker_id: str = ""
    trace: str = ""


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """What the status topic says of a connector and its tasks."""

    state: State
    worker_id: str = ""
    trace: str = ""
    tasks: tuple[Task, ...] = ()
    version: str = ""


@dataclass(frozen=True, slots=True)
class Connector:
    """One connector of one Connect cluster.

    `status` is None where Connect had none to tell: the status topic lags behind a fresh create.
    """

    name: str
    cluster: str
    type: ConnectorType
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    status: ConnectorStatus | None = None

    @property
    def plugin(self) -> str:
        """The full class name of its plugin."""
        return self.config.get("connector.class", "")

    @property
    def owner(self) -> str:
        """How positions of this connector are addressed: CLUSTER/NAME."""
        return f"{self.cluster}/{self.name}"
