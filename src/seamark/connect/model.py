"""A connector as Connect tells it: its config, its state, its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from seamark.connect.loggers import LoggerLevel
from seamark.core.refs import ConnectorType
from seamark.core.secrets import mask_text

__all__ = [
    "Connector",
    "ConnectorStatus",
    "FoldedTrace",
    "LoggerLevel",
    "OffsetsChange",
    "Plugin",
    "State",
    "Task",
    "Validation",
    "Wait",
    "Worker",
    "WorkerHealth",
    "clean_trace",
    "explain_trace",
    "fold_trace",
]


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

    `status` is None where Connect had none to tell: the status topic lags behind a fresh create. `labels` are those
    that seamark keeps in its journal; None if they weren't read.
    """

    name: str
    cluster: str
    type: ConnectorType
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    status: ConnectorStatus | None = None
    labels: Mapping[str, str] | None = field(default=None, compare=False)

    @property
    def plugin(self) -> str:
        """The full class name of its plugin."""
        return self.config.get("connector.class", "")

    @property
    def owner(self) -> str:
        """How positions of this connector are addressed: CLUSTER/NAME."""
        return f"{self.cluster}/{self.name}"


_CAUSE = "Caused by:"


@dataclass(frozen=True, slots=True)
class FoldedTrace:
    """The telling lines of a trace and how many were left out."""

    lines: tuple[str, ...]
    hidden: int

    @property
    def root(self) -> str:
        """The innermost cause, without its "Caused by:"."""
        return self.lines[-1].removeprefix(_CAUSE).strip() if self.lines else ""


def fold_trace(trace: str) -> FoldedTrace:
    """The first line and every "Caused by" line, without secrets.

    A message that goes over several lines keeps its first only; the whole is shown by `-o wide`.
    """
    lines = clean_trace(trace)
    kept = tuple(text.strip() for index, text in enumerate(lines) if index == 0 or text.strip().startswith(_CAUSE))
    return FoldedTrace(kept, len(lines) - len(kept))


def explain_trace(trace: str) -> str:
    """One line that says what failed and why: the first line, and the innermost cause where there is one."""
    folded = fold_trace(trace)
    if not folded.lines:
        return "without a trace"
    first = folded.lines[0]
    return first if len(folded.lines) == 1 else f"{first} ({folded.root})"


def clean_trace(trace: str) -> list[str]:
    """Every line of a trace, without secrets and without the blanks at the ends."""
    return [text.rstrip().replace("\t", "    ") for text in mask_text(trace).split("\n") if text.strip()]


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """A config key that a plugin defines (KIP-769). `default` is None where the plugin defines none."""

    name: str
    type: str
    is_required: bool = False
    default: str | None = None
    importance: str = ""
    documentation: str = ""
    group: str = ""

    @property
    def is_password(self) -> bool:
        """Whether values of the key are secrets."""
        return self.type == "PASSWORD"


@dataclass(frozen=True, slots=True)
class Validation:
    """What a plugin says of a config. `errors` holds the keys that have any, `secret` those of the type PASSWORD."""

    plugin: str
    error_count: int
    errors: Mapping[str, tuple[str, ...]]
    secret: frozenset[str] = frozenset()

    @property
    def is_valid(self) -> bool:
        """Whether Connect would accept the config."""
        return self.error_count == 0


@dataclass(frozen=True, slots=True)
class OffsetsChange:
    """The answer to a change of offsets that Connect carried out.

    `may_be_external` says that the plugin did not look at the offsets: they were written as sent, wrong keys too, and
    a plugin that keeps its position elsewhere has not moved.
    """

    message: str
    may_be_external: bool


@dataclass(frozen=True, slots=True)
class WorkerHealth:
    """What `GET /health` says: healthy, starting or unhealthy."""

    status: str
    message: str

    @property
    def is_healthy(self) -> bool:
        """Whether the worker has started and its herder answers."""
        return self.status == "healthy"


@dataclass(frozen=True, slots=True)
class Wait:
    """A call to a Connect cluster that has not ended yet.

    `doing` completes "trying to …", `seconds` is for how long, and `last_words` is the last answer, "" if no worker
    has answered.
    """

    cluster: str
    doing: str
    seconds: float
    last_words: str = ""


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker as it answers on its REST address. `error` says why it did not answer.

    `connectors` and `tasks` are what runs on it; None where that can't be told, because no state
    names a worker at this address (a load balancer, or another advertised name).
    `clock_skew_seconds` is how far its clock is ahead of ours (negative: behind), by the Date
    header of its answer; None where it sent none.
    """

    cluster: str
    url: str
    version: str = ""
    commit: str = ""
    kafka_cluster_id: str = ""
    connectors: int | None = None
    tasks: int | None = None
    error: str = ""
    clock_skew_seconds: float | None = None

    @property
    def is_up(self) -> bool:
        """Whether it answered."""
        return not self.error


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin that a worker can load."""

    class_name: str
    type: str
    version: str = ""
