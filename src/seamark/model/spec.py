"""What should run, as files say it: connectors, topics and landings, each with the place it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a file something stands. `line` and `column` count from 1; 0 where a format can't tell."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """As editors and compilers write it: `config/log.yaml:12:5`."""
        numbers = [str(number) for number in (self.line, self.column) if number]
        return ":".join([self.file, *numbers])


@dataclass(frozen=True, slots=True)
class DesiredConnector:
    """A connector that should be.

    `config` is what Connect shall get, as texts, without `name`; our own `secret://` references stay unread. `cluster`
    is None where the context has but one. `state` is how it begins where it is new: RUNNING, PAUSED, STOPPED, or ""
    for Connect's own way. The state of a connector that is there is never touched by it.
    """

    name: str
    config: Mapping[str, str] = field(repr=False)
    place: Place
    cluster: str | None = None
    state: str = ""

    @property
    def owner(self) -> str:
        """CLUSTER/NAME, or NAME where the cluster is not said."""
        return f"{self.cluster}/{self.name}" if self.cluster else self.name


@dataclass(frozen=True, slots=True)
class DesiredTopic:
    """A topic that should be. What is None is left to the broker, or as it is."""

    name: str
    place: Place
    partitions: int | None = None
    replication: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DesiredColumn:
    """A column of a landing's table. `source` is where in a record it comes from; empty: the field of its name."""

    name: str
    type: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class DesiredDeadLetters:
    """What `on_error.dead_letter` says; an empty word is left to its default."""

    table: str = ""
    max: str = ""


@dataclass(frozen=True, slots=True)
class DesiredLanding:
    """A topic that is to be landed in a table. The words are those of the file, and not checked yet.

    `database` or `lake` is its name in the context. `every` is how often a batch is landed, in seconds; None: once.
    Without `dead_letters`, a record that can't be a row stops the run.
    """

    name: str
    place: Place
    topic: str
    table: str
    columns: tuple[DesiredColumn, ...]
    database: str = ""
    lake: str = ""
    date: str = ""
    mode: str = "append"
    key: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    tombstones: float | None = None
    format: str = "json"
    schemas: bool = False
    start: str = "earliest"
    dead_letters: DesiredDeadLetters | None = None
    every: float | None = None
    records: int | None = None


@dataclass(frozen=True, slots=True)
class Spec:
    """Everything that some files say should be.

    `id` tells this spec from all others, on every machine that has a copy of it: what a former apply of it made is
    known by that.
    """

    id: str
    connectors: tuple[DesiredConnector, ...] = ()
    topics: tuple[DesiredTopic, ...] = ()
    files: tuple[str, ...] = ()
    landings: tuple[DesiredLanding, ...] = ()
