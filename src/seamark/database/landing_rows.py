"""Rows of a landing into PostgreSQL: COPY, a staging table for what replaces rows, and a table of dead letters.

Everything here is part of the caller's transaction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from seamark.model.ledger_entry import DELETED, OFFSET, Entry

_STAGE = sql.Identifier("seamark_stage")
# What PostgreSQL says of a row and not of itself: a value that it can't read, a constraint.
_OF_THE_ROW = ("22", "23")
_LINE = re.compile(r", line (\d+)")


@dataclass(frozen=True, slots=True)
class LandingTable:
    """Where rows go. With a `key` they replace those of the same key, else they are added."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    dead_letters: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why rows were refused. `line` is that of the row, from 1, where PostgreSQL says it in a language that we know."""

    reason: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that is no row, and why."""

    offset: int
    timestamp: object
    reason: str
    key: bytes | None
    value: bytes | None


@dataclass(slots=True)
class Landed:
    """What became of the records of a range. `is_repeat`: somebody had landed it before."""

    rows: int = 0
    deleted: int = 0
    dead: int = 0
    is_repeat: bool = False


class RowSink:
    """Takes the rows of one range."""

    def __init__(
        self, connection: psycopg.Connection[Any], table: LandingTable, *, owner: str, entry: Entry, is_strict: bool
    ) -> None:
        self._connection = connection
        self._table = table
        self._owner = owner
        self._entry = entry
        self._is_strict = is_strict
        self.landed = Landed()
        names: Sequence[str] = table.columns
        target: sql.Composable = build_table(table.name)
        if table.key:
            self._make_stage()
            names, target = (*names, OFFSET, DELETED), _STAGE
        self._statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(target, _list(names))

    def copy(self, texts: Iterable[Any]) -> Refusal | None:
        """Take these rows, as CSV in parts. Gives why they were refused, all of them, if one can't be a row.

        A strict sink spares the savepoint: nothing more can be done in the transaction after a refusal.
        """
        try:
            with nullcontext() if self._is_strict else self._connection.transaction():
                count = self._copy(texts)
        except psycopg.Error as error:
            if not (error.sqlstate or "").startswith(_OF_THE_ROW):
                raise
            return _build_refusal(error)
        self.landed.rows += count
        return None

    def bury(self, letters: Iterable[DeadLetter]) -> None:
        """Keep records that are no rows. Where one is landed again, it is kept once."""
        statement = sql.SQL(
            "INSERT INTO {} (owner, topic, topic_id, partition_number, record_offset, record_timestamp, reason, "
            "record_key, record_value) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s) "
            "ON CONFLICT (owner, topic_id, partition_number, record_offset) DO UPDATE SET reason = excluded.reason"
        ).format(build_table(self._table.dead_letters))
        whose = (self._owner, self._entry.topic, self._entry.topic_id, self._entry.partition)
        rows = [(*whose, one.offset, one.timestamp, one.reason, one.key, one.value) for one in letters]
        with self._connection.cursor() as cursor:
            cursor.executemany(statement, rows)
        self.landed.dead += len(rows)

    def finish(self) -> Landed:
        """When every row was taken: bring the staged ones into the table."""
        if self._table.key:
            self.landed.deleted = self._delete()
            self.landed.rows = self._replace()
        return self.landed

    def _copy(self, texts: Iterable[Any]) -> int:
        with self._connection.cursor() as cursor:
            with cursor.copy(self._statement) as rows:
                for text in texts:
                    rows.write(text)
            return cursor.rowcount

    def _make_stage(self) -> None:
        text = "CREATE TEMP TABLE {} ON COMMIT DROP AS SELECT {}, 0::bigint AS {}, false AS {} FROM {} LIMIT 0"
        beside = (sql.Identifier(OFFSET), sql.Identifier(DELETED))
        table = build_table(self._table.name)
        self._connection.execute(sql.SQL(text).format(_STAGE, _list(self._table.columns), *beside, table))

    def _newest(self) -> sql.Composed:
        """The newest staged record of each key: it decides. In the key's order, so that two ranges don't lock up."""
        return sql.SQL("(SELECT DISTINCT ON ({key}) * FROM {stage} ORDER BY {key}, {offset} DESC)").format(
            key=_list(self._table.key), stage=_STAGE, offset=sql.Identifier(OFFSET)
        )

    def _delete(self) -> int:
        same = [sql.SQL("t.{0} = s.{0}").format(sql.Identifier(name)) for name in self._table.key]
        statement = sql.SQL("DELETE FROM {target} t USING {newest} s WHERE s.{deleted} AND {same}").format(
            target=build_table(self._table.name),
            newest=self._newest(),
            deleted=sql.Identifier(DELETED),
            same=sql.SQL(" AND ").join(same),
        )
        return self._connection.execute(statement).rowcount

    def _replace(self) -> int:
        others = [sql.Identifier(name) for name in self._table.columns if name not in self._table.key]
        change: sql.Composable = sql.SQL("DO NOTHING")
        if others:
            sets = sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(name) for name in others)
            change = sql.SQL("DO UPDATE SET {}").format(sets)
        text = (
            "INSERT INTO {target} ({names}) SELECT {names} FROM {newest} s WHERE NOT s.{deleted} "
            "ON CONFLICT ({key}) {change}"
        )
        statement = sql.SQL(text).format(
            target=build_table(self._table.name),
            names=_list(self._table.columns),
            newest=self._newest(),
            deleted=sql.Identifier(DELETED),
            key=_list(self._table.key),
            change=change,
        )
        return self._connection.execute(statement).rowcount


def _build_refusal(error: psycopg.Error) -> Refusal:
    found = _LINE.search(error.diag.context or "")
    reason = (error.diag.message_primary or str(error)).partition("\n")[0]
    return Refusal(reason, int(found[1]) if found else None)


def create_dead_letters(connection: psycopg.Connection[Any], name: str) -> None:
    """Make the table of dead letters where it is missing."""
    text = (
        "CREATE TABLE IF NOT EXISTS {} (owner varchar(200) NOT NULL, topic varchar(255) NOT NULL, "
        "topic_id varchar(64) NOT NULL, partition_number integer NOT NULL, record_offset bigint NOT NULL, "
        "record_timestamp timestamptz, reason text NOT NULL, record_key bytea, record_value bytea, "
        "landed_at timestamptz NOT NULL DEFAULT CURRENT_TIMESTAMP, "
        "PRIMARY KEY (owner, topic_id, partition_number, record_offset))"
    )
    connection.execute(sql.SQL(text).format(build_table(name)))


def build_table(name: str) -> sql.Identifier:
    """A table's name, perhaps with its schema, for a statement."""
    return sql.Identifier(*name.split("."))


def _list(names: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(name) for name in names)
