"""Deletes of ordered upserts: their orders are kept for a while, so that an older record can't bring a row back."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import psycopg
from psycopg import sql

from seamark.core.format_version import VERSION_FIELD, StoredFormat, check_format
from seamark.tables.record_order import ORDER_COLUMN

FORMAT = StoredFormat("tombstone", 1)
TABLE = "seamark_tombstones"
_ORDER = sql.Identifier(ORDER_COLUMN)
_VERSION = sql.Identifier(VERSION_FIELD)
# The first half of the advisory lock's key; the second is the table's own number.
_LOCK_CLASS = 0x5EA_4A12
# The row that holds the greatest order of all tombstones that were purged. The keys of others are lists.
_HORIZON = sql.SQL("'null'::jsonb")


def create_tombstones(connection: psycopg.Connection[Any]) -> None:
    """Create the table of tombstones where it is missing."""
    text = (
        "CREATE TABLE IF NOT EXISTS {} (table_name text NOT NULL, row_key jsonb NOT NULL, {} numeric[] NOT NULL, "
        "deleted_at timestamptz NOT NULL DEFAULT clock_timestamp(), {} integer NOT NULL, "
        "PRIMARY KEY (table_name, row_key))"
    )
    connection.execute(sql.SQL(text).format(sql.Identifier(TABLE), _ORDER, _VERSION))


class Tombstones:
    """The tombstones of one table. Every call is part of the caller's transaction."""

    def __init__(self, connection: psycopg.Connection[Any], name: str, *, seconds: int) -> None:
        self._connection = connection
        self._seconds = seconds
        self.table = sql.Identifier(TABLE)
        # However a pipeline spells it: two that write to one table share its tombstones.
        quoted = sql.Identifier(*name.split(".")).as_string(None)
        self._regclass = sql.SQL("{}::regclass").format(sql.Literal(quoted))
        self._name = sql.SQL(
            "(SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.oid = {})"
        ).format(self._regclass)

    def lock(self, *, is_exclusive: bool) -> None:
        """Take the table's lock until the transaction ends."""
        text = "SELECT pg_advisory_xact_lock{}({}, {}::oid::int8::bit(32)::int4)"
        shared = sql.SQL("" if is_exclusive else "_shared")
        self._connection.execute(sql.SQL(text).format(shared, sql.Literal(_LOCK_CLASS), self._regclass))

    def match(self, key: sql.Composable, alias: str) -> sql.Composed:
        """The condition that a tombstone belongs to a key."""
        return sql.SQL("{a}.table_name = {name} AND {a}.row_key = {key}").format(
            a=sql.Identifier(alias), name=self._name, key=key
        )

    def add(self, select: sql.Composed) -> None:
        """Keep the tombstones that a query gives as `key` and `value`; of two for one key the newer one."""
        text = (
            "INSERT INTO {table} AS d (table_name, row_key, {order}, {version}) "
            "SELECT {name}, found.key, found.value, {number} FROM ({select}) found "
            "ON CONFLICT (table_name, row_key) DO UPDATE SET {order} = excluded.{order}, "
            "deleted_at = excluded.deleted_at WHERE d.{order} < excluded.{order}"
        )
        self._connection.execute(
            sql.SQL(text).format(
                table=self.table,
                order=_ORDER,
                version=_VERSION,
                name=self._name,
                number=sql.Literal(FORMAT.version),
                select=select,
            )
        )

    def has_any(self) -> bool:
        """Whether the table has tombstones."""
        text = "SELECT EXISTS (SELECT FROM {} WHERE table_name = {} AND row_key <> {})"
        rows = self._connection.execute(sql.SQL(text).format(self.table, self._name, _HORIZON)).fetchall()
        return bool(rows[0][0])

    def read_horizon(self) -> list[Decimal] | None:
        """Read the greatest order of the tombstones that were purged; None where none was."""
        text = "SELECT {} FROM {} WHERE table_name = {} AND row_key = {}"
        rows = self._connection.execute(sql.SQL(text).format(_ORDER, self.table, self._name, _HORIZON)).fetchall()
        return rows[0][0] if rows else None

    def check(self) -> None:
        """Check the format version of every tombstone.

        Raises:
            FormatVersionError: One has another version.
        """
        text = "SELECT DISTINCT {} FROM {} WHERE table_name = {}"
        for (version,) in self._connection.execute(sql.SQL(text).format(_VERSION, self.table, self._name)).fetchall():
            check_format(FORMAT, {VERSION_FIELD: version}, where=f"the tombstones in {TABLE}")

    def purge(self) -> int:
        """Purge what is older than the window, and remember the greatest order among it.

        Returns:
            How many were purged; 0 also where a range is at work, because the next purge will find them.
        """
        text = "SELECT pg_try_advisory_xact_lock({}, {}::oid::int8::bit(32)::int4)"
        rows = self._connection.execute(sql.SQL(text).format(sql.Literal(_LOCK_CLASS), self._regclass)).fetchall()
        if not rows[0][0]:
            return 0
        text = (
            "WITH gone AS (DELETE FROM {table} WHERE table_name = {name} AND row_key <> {horizon} "
            "AND deleted_at < clock_timestamp() - make_interval(secs => {seconds}) RETURNING {order}), "
            "kept AS (INSERT INTO {table} AS d (table_name, row_key, {order}, {version}) "
            "SELECT {name}, {horizon}, max({order}), {number} FROM gone HAVING count(*) > 0 "
            "ON CONFLICT (table_name, row_key) DO UPDATE SET {order} = GREATEST(d.{order}, excluded.{order})) "
            "SELECT count(*) FROM gone"
        )
        found = self._connection.execute(
            sql.SQL(text).format(
                table=self.table,
                name=self._name,
                horizon=_HORIZON,
                seconds=sql.Literal(self._seconds),
                order=_ORDER,
                version=_VERSION,
                number=sql.Literal(FORMAT.version),
            )
        ).fetchall()
        return int(found[0][0])
