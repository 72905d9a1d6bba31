"""The pipelines that a spec declares."""

from __future__ import annotations

from dataclasses import dataclass

from seamark.core.files import Place


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
