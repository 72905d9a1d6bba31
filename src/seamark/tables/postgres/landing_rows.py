"""Rows of a landing into PostgreSQL: COPY, a stage for what replaces rows or was refused, and a table of dead letters.

Everything here is part of the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import psycopg
from psycopg import sql

from seamark.tables.ledger_entry import OFFSET, Step
from seamark.tables.postgres.constraints import read_constraints
from seamark.tables.postgres.landing_table import Landed, LandingTable, Refusal, build_refusal, build_table, list_names
from seamark.tables.postgres.landing_upsert import Upsert
from seamark.tables.postgres.refusals import Refusals
from seamark.tables.postgres.savepoints import Savepoints
from seamark.tables.postgres.stage_checks import STAGE, StageChecks, check_condition_error

_LETTERS = sql.Identifier("seamark_letters")
LETTER_COLUMNS = ("record_offset", "record_timestamp", "reason", "record_key", "record_value")
"""What `bury` takes of each record, as CSV."""
_TYPES = """
    SELECT a.attname, format_type(a.atttypid, a.atttypmod),
           CASE WHEN t.typtype = 'e' THEN ARRAY(SELECT enumlabel::text FROM pg_enum WHERE enumtypid = t.oid) END
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped
"""

# Triggers for INSERT: those that are neither BEFORE nor INSTEAD OF, and those that are before each row.
_LATE = """
    SELECT coalesce(bool_or(tgtype & 66 = 0), false) OR NOT coalesce(bool_or(tgtype & 3 = 3), false)
    FROM pg_trigger WHERE tgrelid = %s::regclass AND tgtype & 4 <> 0 AND tgenabled <> 'D'
"""
_IN_RANGE = sql.SQL(
    "owner = %s AND topic_id = %s AND partition_number = %s AND record_offset >= %s AND record_offset < %s"
)


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a column as PostgreSQL names it; `labels` are those of an enum."""

    name: str
    labels: tuple[str, ...] | None = None


class RowSink:
    """Takes the rows of one range."""

    def __init__(
        self, connection: psycopg.Connection[Any], table: LandingTable, *, owner: str, step: Step, is_strict: bool
    ) -> None:
        self._connection = connection
        self._table = table
        self._owner = owner
        self._step = step
        self._entry = entry = step.entry
        self._is_strict = is_strict
        self._target = build_table(table.name)
        self.savepoints = Savepoints(connection)
        self._upsert = (
            Upsert(connection, table, partition=entry.partition, savepoints=self.savepoints) if table.key else None
        )
        self._copied = self._dead = 0
        self.records = 0
        self.reasons: dict[str, int] = {}
        # Arrow writes UTF-8, whatever the session speaks.
        text = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv, ENCODING 'UTF8')")
        self._into_stage = text.format(STAGE, list_names(table.staged))
        self._statement = text.format(self._target, list_names(table.columns))
        if self._upsert is not None:
            self._upsert.make_stage()
            self._statement = self._into_stage
        if not is_strict:
            # A constraint that is checked at the commit could not be answered any more.
            connection.execute("SET CONSTRAINTS ALL IMMEDIATE")

    @property
    def is_staged(self) -> bool:
        """Whether all rows go to the stage first."""
        return self._upsert is not None

    @property
    def landed(self) -> Landed:
        """What became of the records so far."""
        found = Landed(rows=self._copied) if self._upsert is None else self._upsert.landed
        return Landed(found.rows, found.deleted, self._dead, records=self.records, reasons=self.reasons)

    @cached_property
    def checks_late(self) -> bool:
        """Whether rows before the one that a COPY names may be refused, too.

        Foreign keys and triggers after the row are checked at the end of the COPY. And without a trigger before the
        row, PostgreSQL collects 1,000 rows before it adds them to the indexes, while it has checked later ones.
        """
        rows = self._connection.execute(_LATE, [self._target.as_string(self._connection)]).fetchall()
        return bool(rows[0][0])

    def read_types(self) -> dict[str, ColumnType]:
        """Read the types of the table's columns."""
        quoted = self._target.as_string(self._connection)
        rows = self._connection.execute(_TYPES, [quoted]).fetchall()
        return {name: ColumnType(kind, None if labels is None else tuple(labels)) for name, kind, labels in rows}

    def make_stage(self) -> None:
        """Make the temporary table that takes rows with the table's types and without its constraints."""
        text = "CREATE TEMP TABLE {} ON COMMIT DROP AS SELECT {}, 0::bigint AS {} FROM {} LIMIT 0"
        columns = list_names(self._table.columns)
        self._connection.execute(sql.SQL(text).format(STAGE, columns, sql.Identifier(OFFSET), self._target))

    def copy(self, texts: Iterable[Any], *, into_stage: bool = False, is_sure: bool = False) -> Refusal | None:
        """Take these rows, as CSV in parts. Gives why they were refused, all of them, if one can't be a row.

        A strict sink spares the savepoint: nothing more can be done in the transaction after a refusal. So do rows of
        which it is sure that they are taken.

        Raises:
            SavepointsSpentError: The transaction can't have one more savepoint.
        """
        try:
            with nullcontext() if self._is_strict or is_sure else self.savepoints.open():
                count = self._copy(self._into_stage if into_stage else self._statement, texts)
        except psycopg.Error as error:
            if is_sure:
                raise
            return build_refusal(error)
        if not into_stage:
            self._copied += count
        return None

    def find_refused(self) -> Refusals:
        """Find the staged rows that the table would refuse when they are added. They are taken out of the stage."""
        try:
            with self.savepoints.open():
                self._connection.execute(sql.SQL("ANALYZE {}").format(STAGE))
                constraints = read_constraints(self._connection, self._table)
                checks = StageChecks(self._connection, constraints)
                checks.refuse_broken()
                checks.refuse_orphans()
                checks.refuse_duplicates()
        except psycopg.Error as error:
            check_condition_error(error)
            return Refusals()
        return checks.refused

    def bury(self, texts: Iterable[Any]) -> None:
        """Keep records that are no rows, as CSV of LETTER_COLUMNS. Where one is landed again, it is kept once."""
        names = list_names(LETTER_COLUMNS)
        dead = build_table(self._table.dead_letters)
        text = "CREATE TEMP TABLE {} ON COMMIT DROP AS SELECT {} FROM {} LIMIT 0"
        self._connection.execute(sql.SQL(text).format(_LETTERS, names, dead))
        self._copy(sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv, ENCODING 'UTF8')").format(_LETTERS, names), texts)
        statement = sql.SQL(
            "INSERT INTO {} (owner, topic, topic_id, partition_number, {}) SELECT %s, %s, %s, %s, {} FROM {} "
            "ON CONFLICT (owner, topic_id, partition_number, record_offset) DO UPDATE SET reason = excluded.reason"
        ).format(dead, names, names, _LETTERS)
        whose = (self._owner, self._entry.topic, self._entry.topic_id, self._entry.partition)
        self._dead += self._connection.execute(statement, whose).rowcount
        self._connection.execute(sql.SQL("DROP TABLE {}").format(_LETTERS))

    def read_buried(self) -> set[int]:
        """Read the offsets of the range that dead letters have. There are none unless it is landed again."""
        dead = build_table(self._table.dead_letters)
        statement = sql.SQL("SELECT record_offset FROM {} WHERE {}").format(dead, _IN_RANGE)
        with self._connection.cursor() as cursor:
            return {offset for (offset,) in cursor.stream(statement, _list_bounds(self._owner, self._step))}

    def remove_letters(self, offsets: Iterable[int]) -> None:
        """Remove the dead letters of records that were landed again, and are rows now."""
        dead = build_table(self._table.dead_letters)
        statement = sql.SQL("DELETE FROM {} WHERE {} AND record_offset = ANY(%s)").format(dead, _IN_RANGE)
        self._connection.execute(statement, [*_list_bounds(self._owner, self._step), list(offsets)])

    def settle(self) -> Refusals:
        """Bring the staged records of an upsert into the table, once every row was taken.

        Returns:
            The records that the table refuses.

        Raises:
            SavepointsSpentError: The refused records can't be told with 64 savepoints.
        """
        return Refusals() if self._upsert is None else self._upsert.settle()

    def touch(self) -> None:
        """Show sessions that wait for the ledger's entry that this session is active."""
        self._connection.execute("SELECT 1")

    def _copy(self, statement: sql.Composed, texts: Iterable[Any]) -> int:
        with self._connection.cursor() as cursor:
            with cursor.copy(statement) as rows:
                for text in texts:
                    rows.write(text)
            return cursor.rowcount


def read_repeat(connection: psycopg.Connection[Any], table: LandingTable, *, owner: str, step: Step) -> Landed:
    """Read what is known of a range that was landed before: its dead letters, with the most common reasons."""
    landed = Landed(is_repeat=True, records=step.end - step.entry.next_offset)
    if table.dead_letters:
        text = (
            "SELECT reason, count(*), sum(count(*)) OVER () FROM {} WHERE {} GROUP BY reason ORDER BY 2 DESC LIMIT 100"
        )
        statement = sql.SQL(text).format(build_table(table.dead_letters), _IN_RANGE)
        for reason, count, total in connection.execute(statement, _list_bounds(owner, step)).fetchall():
            landed.reasons[reason] = count
            landed.dead = int(total)
    return landed


def _list_bounds(owner: str, step: Step) -> list[Any]:
    return [owner, step.entry.topic_id, step.entry.partition, step.entry.next_offset, step.end]


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
