"""Rows of a landing into PostgreSQL: COPY, a staging table for what replaces rows, and a table of dead letters.

Everything here is part of the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from seamark.database.landing_table import Landed, LandingTable, Refusal, build_refusal, build_table, list_names
from seamark.database.landing_upsert import STAGE, Upsert
from seamark.model.ledger_entry import Entry


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that is no row, and why."""

    offset: int
    timestamp: object
    reason: str
    key: bytes | None
    value: bytes | None


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
        self._upsert = Upsert(connection, table, partition=entry.partition) if table.key else None
        self._copied = self._dead = 0
        if self._upsert is not None:
            self._upsert.make_stage()
        target = build_table(table.name) if self._upsert is None else STAGE
        # Arrow writes UTF-8, whatever the session speaks.
        self._statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv, ENCODING 'UTF8')").format(
            target, list_names(table.staged)
        )

    @property
    def landed(self) -> Landed:
        """What became of the records so far."""
        if self._upsert is None:
            return Landed(rows=self._copied, dead=self._dead)
        return Landed(rows=self._upsert.landed.rows, deleted=self._upsert.landed.deleted, dead=self._dead)

    def copy(self, texts: Iterable[Any]) -> Refusal | None:
        """Take these rows, as CSV in parts. Gives why they were refused, all of them, if one can't be a row.

        A strict sink spares the savepoint: nothing more can be done in the transaction after a refusal.
        """
        try:
            with nullcontext() if self._is_strict else self._connection.transaction():
                count = self._copy(texts)
        except psycopg.Error as error:
            return build_refusal(error)
        self._copied += count
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
        self._dead += len(rows)

    def settle(self) -> Iterator[tuple[int, str]]:
        """Bring the staged records into the table, once every row was taken.

        Returns:
            The offsets of the records that the table refuses, with the reason of each.
        """
        return iter(()) if self._upsert is None else self._upsert.settle()

    def _copy(self, texts: Iterable[Any]) -> int:
        with self._connection.cursor() as cursor:
            with cursor.copy(self._statement) as rows:
                for text in texts:
                    rows.write(text)
            return cursor.rowcount


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
