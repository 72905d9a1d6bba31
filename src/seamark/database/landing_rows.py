"""Rows of a landing into PostgreSQL: COPY, a staging table for what replaces rows, and a table of dead letters.

Everything here is part of the caller's transaction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from seamark.database.landing_halves import find_refused
from seamark.model.ledger_entry import DELETED, OFFSET, Entry

_STAGE = sql.Identifier("seamark_stage")
# What PostgreSQL says of a row and not of itself: a value that it can't read, a constraint, one too large for an index
# or too deep, and what a trigger raises.
_OF_THE_ROW = ("22", "23", "54", "P0001")
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
        # Arrow writes UTF-8, whatever the session speaks.
        self._statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv, ENCODING 'UTF8')").format(target, _list(names))

    def copy(self, texts: Iterable[Any]) -> Refusal | None:
        """Take these rows, as CSV in parts. Gives why they were refused, all of them, if one can't be a row.

        A strict sink spares the savepoint: nothing more can be done in the transaction after a refusal.
        """
        try:
            with nullcontext() if self._is_strict else self._connection.transaction():
                count = self._copy(texts)
        except psycopg.Error as error:
            return _build_refusal(error)
        if not self._table.key:
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

    def settle(self) -> Iterator[tuple[int, str]]:
        """When every row was taken: bring the staged ones into the table, where rows are replaced.

        Gives the offsets of the records that the table refuses, with why, while it goes on with the others. In the
        place of one that is refused stands the record of its key before it, or the row as it was.
        """
        if not self._table.key or self._bring(None) is None:
            return
        keys = self._list_keys()
        while keys:
            left = []
            for place, reason in self._bring_some([offsets[-1] for offsets in keys]):
                yield keys[place].pop(), reason
                if keys[place]:
                    left.append(keys[place])
            keys = left

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

    def _list_keys(self) -> list[list[int]]:
        """The offsets of each key's records, the newest last."""
        offset = sql.Identifier(OFFSET)
        # One record is looked for again and again from here on.
        self._connection.execute(sql.SQL("CREATE INDEX ON {} ({})").format(_STAGE, offset))
        self._connection.execute(sql.SQL("ANALYZE {}").format(_STAGE))
        text = "SELECT array_agg({offset} ORDER BY {offset}) FROM {stage} GROUP BY {key} ORDER BY {key}"
        statement = sql.SQL(text).format(offset=offset, stage=_STAGE, key=_list(self._table.key))
        return [offsets for (offsets,) in self._connection.execute(statement).fetchall()]

    def _bring_some(self, offsets: Sequence[int]) -> Iterator[tuple[int, str]]:
        return find_refused(len(offsets), lambda first, end: self._bring(offsets[first:end]))

    def _bring(self, offsets: Sequence[int] | None) -> str | None:
        """Bring these staged records into the table, all or none; None: the newest of each key. Gives why it can't."""
        try:
            with self._connection.transaction():
                deleted, rows = self._delete(offsets), self._replace(offsets)
        except psycopg.Error as error:
            return _build_refusal(error).reason
        self.landed.deleted += deleted
        self.landed.rows += rows
        return None

    def _choose(self, offsets: Sequence[int] | None) -> sql.Composed:
        """One staged record of each key. In the key's order, so that two ranges don't lock up."""
        text = "(SELECT DISTINCT ON ({key}) * FROM {stage} {which} ORDER BY {key}, {offset} DESC)"
        which: sql.Composable = sql.SQL("")
        if offsets is not None:
            which = sql.SQL("WHERE {} = ANY({}::bigint[])").format(sql.Identifier(OFFSET), sql.Literal(list(offsets)))
        return sql.SQL(text).format(
            key=_list(self._table.key), stage=_STAGE, which=which, offset=sql.Identifier(OFFSET)
        )

    def _delete(self, offsets: Sequence[int] | None) -> int:
        same = [sql.SQL("t.{0} = s.{0}").format(sql.Identifier(name)) for name in self._table.key]
        statement = sql.SQL("DELETE FROM {target} t USING {chosen} s WHERE s.{deleted} AND {same}").format(
            target=build_table(self._table.name),
            chosen=self._choose(offsets),
            deleted=sql.Identifier(DELETED),
            same=sql.SQL(" AND ").join(same),
        )
        return self._connection.execute(statement).rowcount

    def _replace(self, offsets: Sequence[int] | None) -> int:
        others = [sql.Identifier(name) for name in self._table.columns if name not in self._table.key]
        change: sql.Composable = sql.SQL("DO NOTHING")
        if others:
            sets = sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(name) for name in others)
            change = sql.SQL("DO UPDATE SET {}").format(sets)
        text = (
            "INSERT INTO {target} ({names}) SELECT {names} FROM {chosen} s WHERE NOT s.{deleted} "
            "ON CONFLICT ({key}) {change}"
        )
        statement = sql.SQL(text).format(
            target=build_table(self._table.name),
            names=_list(self._table.columns),
            chosen=self._choose(offsets),
            deleted=sql.Identifier(DELETED),
            key=_list(self._table.key),
            change=change,
        )
        return self._connection.execute(statement).rowcount


def _build_refusal(error: psycopg.Error) -> Refusal:
    """What is said of the rows that PostgreSQL refuses. An error that is not about rows goes on its way."""
    if not (error.sqlstate or "").startswith(_OF_THE_ROW):
        raise error
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
