"""A pipeline's table in PostgreSQL: its columns, its key and its order, as statements name them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import psycopg
from psycopg import sql

from seamark.tables.ledger_entry import DELETED, OFFSET
from seamark.tables.record_order import DEFAULT_TOMBSTONE_SECONDS, RECORD_MILLIS, OrderTerm

# What PostgreSQL says of a row and not of itself: a value that it can't read, a constraint, one too large for an index
# or too deep, and what a trigger raises.
_OF_THE_ROW = ("22", "23", "54", "P0001")
_LINE = re.compile(r", line (\d+)(?:, column (.+?)(?::|$))?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LandingTable:
    """Where rows go. With a `key` they replace those of the same key, else they are added.

    `order` decides between two records of a key. `times` are the columns that hold timestamps.
    """

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    dead_letters: str = ""
    order: tuple[OrderTerm, ...] = ()
    times: tuple[str, ...] = ()
    tombstone_seconds: int = DEFAULT_TOMBSTONE_SECONDS

    @property
    def staged(self) -> tuple[str, ...]:
        """The columns that a record has in the stage."""
        if not self.key:
            return (*self.columns, OFFSET)
        more = (RECORD_MILLIS,) if any(term.column == RECORD_MILLIS for term in self.order) else ()
        return (*self.columns, OFFSET, DELETED, *more)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why rows were refused. `line` is that of the row, from 1, where PostgreSQL says it in a language that we know."""

    reason: str
    line: int | None = None


@dataclass(slots=True)
class Landed:
    """What became of the records of a range. `reasons` are those of dead letters.

    `is_repeat`: it was landed before, and only its dead letters are counted.
    """

    rows: int = 0
    deleted: int = 0
    dead: int = 0
    is_repeat: bool = False
    records: int = 0
    reasons: dict[str, int] = field(default_factory=dict)


def build_refusal(error: psycopg.Error) -> Refusal:
    """Build the reason why PostgreSQL refuses rows. An error that is not about rows is raised again."""
    if not (error.sqlstate or "").startswith(_OF_THE_ROW):
        raise error
    found = _LINE.search(error.diag.context or "")
    reason = (error.diag.message_primary or str(error)).partition("\n")[0]
    if found is None:
        return Refusal(reason)
    return Refusal(f"{found[2]}: {reason}" if found[2] else reason, int(found[1]))


def build_table(name: str) -> sql.Identifier:
    """Build a table's name, perhaps with its schema, for a statement."""
    return sql.Identifier(*name.split("."))


def list_names(names: Iterable[str]) -> sql.Composed:
    """Build a list of column names for a statement."""
    return sql.SQL(", ").join(sql.Identifier(name) for name in names)
