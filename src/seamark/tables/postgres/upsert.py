"""Upserts into PostgreSQL: records are staged, and the newest of each key becomes its row.

Without an order the newest record is the one with the greatest offset; that is right only where all records of a key
are in one partition, which the caller checks. With an order, ranges of several partitions may bring records of one key
at the same time, and the result must not depend on who commits last. Three things make that so:

- A row is replaced or deleted only if its order is lower. PostgreSQL evaluates this condition on the row as it is after
  it has waited for another transaction, so two ranges that meet at an existing row are safe.
- A delete leaves its order in `seamark_tombstones`. An older record that comes later finds it there. One that waited
  for the delete's commit was chosen with a snapshot from before it, so rows are compared with tombstones once more
  after they were written.
- A delete that finds no row can't see an older row that another transaction has inserted and not committed. Such a
  range takes the table's lock exclusively, and every other range takes it shared: no other range runs in between.
  A range that ran into a deadlock, or has a record that the table refuses, is repeated exclusively, too.

Records that the table refuses are found by what the catalog says of it (`stage_checks`), and only those that this
doesn't explain by halves, with what is left of the transaction's savepoints.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import psycopg
from psycopg import sql

from seamark.core.strict_json import VERSION_FIELD, StoredFormat, check_format
from seamark.tables.model import DELETED, OFFSET, ORDER_COLUMN, RECORD_MILLIS, OrderKind, OrderTerm
from seamark.tables.postgres.stage_checks import (
    STAGE,
    Refusals,
    Savepoints,
    StageChecks,
    bisect_rejected_rows,
    check_condition_error,
    make_temporary,
)
from seamark.tables.postgres.table import (
    Landed,
    LandingTable,
    Refusal,
    build_refusal,
    build_table,
    list_names,
    read_constraints,
)

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


_OFFSET = sql.Identifier(OFFSET)
_DELETED = sql.Identifier(DELETED)
_INDEX = sql.Identifier("seamark_stage_offset")
# Each round takes two savepoints, and leaves the rest for what the catalog doesn't explain.
_MOST_ROUNDS = 8
# A record that is refused makes room for the one before it, which is checked in its turn.
_MOST_CHECKS = 1000


class _NeedsExclusiveError(Exception):
    """The range is to be repeated while no other one is at work."""


class Upsert:
    """The staged records of one range, and what they do to the table. Part of the caller's transaction."""

    def __init__(
        self, connection: psycopg.Connection[Any], table: LandingTable, *, partition: int, savepoints: Savepoints
    ) -> None:
        self._connection = connection
        self._savepoints = savepoints
        self._table = table
        self._partition = partition
        self._target = build_table(table.name)
        self._tombstones = Tombstones(connection, table.name, seconds=table.tombstone_seconds)
        self.landed = Landed()

    def make_stage(self) -> None:
        """Make the temporary table that takes the records."""
        added = {OFFSET: "0::bigint", DELETED: "false"}
        if RECORD_MILLIS in self._table.staged:
            added[RECORD_MILLIS] = "0::bigint"
        make_temporary(self._connection, STAGE, self._table.columns, self._target, added=added)

    def settle(self) -> Refusals:
        """Bring the staged records into the table.

        Returns:
            The records that the table rejects. For the key of such a record, the table has the previous record of that
            key, or the row as it was.

        Raises:
            SavepointsSpentError: They can't be told with the savepoints of one transaction.
        """
        if not self._table.order:
            return self._settle(Refusals())
        # Other ranges may take longer than a claim waits for a ledger entry.
        self._connection.execute("SET LOCAL lock_timeout = 0")
        try:
            return self._settle_shared()
        except (_NeedsExclusiveError, psycopg.errors.DeadlockDetected):
            # The savepoint is gone, and with it the shared lock: to upgrade a lock that two hold would block both.
            return self._settle_exclusively()

    def _settle_shared(self) -> Refusals:
        """Settle beside other ranges.

        One savepoint, and none within: a session that waits for a row of a released savepoint waits for the whole
        transaction, even after a rollback to an outer savepoint (seen with PostgreSQL 15), and would deadlock with the
        exclusive lock.
        """
        with self._savepoints.open():
            self._tombstones.lock(is_exclusive=False)
            refused = self._refuse_forgotten()
            try:
                self._bring_in(None)
            except psycopg.errors.DeadlockDetected:
                raise
            except psycopg.Error as error:
                build_refusal(error)
                raise _NeedsExclusiveError from None
            if self._count_absent():
                raise _NeedsExclusiveError
            return refused

    def _settle_exclusively(self) -> Refusals:
        self._tombstones.lock(is_exclusive=True)
        self.landed = Landed()
        return self._settle(self._refuse_forgotten())

    def _settle(self, refused: Refusals) -> Refusals:
        for _ in range(_MOST_ROUNDS):
            refusal = self._bring(None)
            if refusal is None:
                return refused
            if not (found := self._find_refused()):
                break
            refused.add_all(found)
        self._refuse_by_halves(refused)
        return refused

    def _find_refused(self) -> Refusals:
        """Find the records that the catalog explains, and take them out of the stage."""
        try:
            with self._savepoints.open():
                self._connection.execute(sql.SQL("ANALYZE {}").format(STAGE))
                constraints = read_constraints(self._connection, self._table)
                checks = StageChecks(self._connection, constraints)
                if not self._refuse_broken(checks):
                    self._refuse_others(checks)
        except psycopg.Error as error:
            check_condition_error(error)
            return Refusals()
        return checks.refused

    def _refuse_broken(self, checks: StageChecks) -> int:
        return checks.refuse_broken_newest(list_names(self._table.key), self._sort("DESC"))

    def _refuse_others(self, checks: StageChecks) -> None:
        """Refuse what depends on other rows. Only if no rule explains it: the sequence of writing may make it right."""
        older: sql.Composable = sql.SQL("")
        if self._table.order:
            older = sql.SQL(" AND (t.{0} IS NULL OR t.{0} <= s.{0})").format(_ORDER)
        for _ in range(_MOST_CHECKS):
            count = checks.refuse_held(self._choose(None), sql.SQL("{}{}").format(self._same(), older))
            count += self._refuse_taken(checks, is_kept=False)
            if not count and not len(checks.refused):
                # Nothing else explains it: a value isn't free yet where it is written.
                count = self._refuse_taken(checks, is_kept=True)
            if not count:
                return
            self._refuse_broken(checks)

    def _refuse_taken(self, checks: StageChecks, *, is_kept: bool) -> int:
        return checks.refuse_taken(self._choose_applied(), self._table.key, self._sort("ASC"), is_kept=is_kept)

    def _choose_applied(self) -> sql.Composed:
        """One staged record of each key, without those that are older than the row or its delete."""
        if not self._table.order:
            return self._choose(None)
        text = (
            "(SELECT * FROM {chosen} s WHERE NOT EXISTS (SELECT FROM {target} t WHERE {same} AND t.{order} > s.{order})"
            "{alive})"
        )
        return sql.SQL(text).format(
            chosen=self._choose(None), target=self._target, same=self._same(), order=_ORDER, alive=self._is_alive()
        )

    def _refuse_by_halves(self, refused: Refusals) -> None:
        """Bring records in piece by piece, until it is known which of them are refused."""
        # One record is looked for again and again from here on.
        self._connection.execute(sql.SQL("CREATE INDEX {} ON {} ({})").format(_INDEX, STAGE, _OFFSET))
        self._connection.execute(sql.SQL("ANALYZE {}").format(STAGE))
        chosen = array("q")
        with self._connection.cursor() as cursor:
            text = sql.SQL("SELECT {} FROM {} s").format(_OFFSET, self._choose(None))
            chosen.extend(offset for (offset,) in cursor.stream(text))
        left = []
        for place, reason in self._bring_some(chosen):
            refused.add(chosen[place], reason)
            left.append(self._list_older(chosen[place]))
        while left := [older for older in left if older]:
            found = self._bring_some([older[-1] for older in left])
            for place, reason in found:
                refused.add(left[place][-1], reason)
            left = [left[place][:-1] for place, _ in found]
        # The stage serves later ranges, too.
        self._connection.execute(sql.SQL("DROP INDEX {}").format(_INDEX))

    def _list_older(self, offset: int) -> list[int]:
        """List the offsets of the records of a key before one of them, the newest last."""
        text = (
            "SELECT s.{offset} FROM {stage} s WHERE ({key}) = (SELECT {key} FROM {stage} WHERE {offset} = {number}) "
            "ORDER BY {order}"
        )
        statement = sql.SQL(text).format(
            offset=_OFFSET,
            stage=STAGE,
            key=list_names(self._table.key),
            number=sql.Literal(offset),
            order=self._sort("ASC"),
        )
        found = [number for (number,) in self._connection.execute(statement).fetchall()]
        return found[: found.index(offset)]

    def _bring_some(self, offsets: Sequence[int]) -> list[tuple[int, str]]:
        def take(first: int, end: int) -> str | None:
            refusal = self._bring(offsets[first:end])
            return None if refusal is None else refusal.reason

        return list(bisect_rejected_rows(len(offsets), take))

    def _bring(self, offsets: Sequence[int] | None) -> Refusal | None:
        """Bring these staged records into the table, all or none; None: the newest of each key. Gives why it can't."""
        try:
            with self._savepoints.open():
                self._bring_in(offsets)
        except psycopg.Error as error:
            return build_refusal(error)
        return None

    def _bring_in(self, offsets: Sequence[int] | None) -> None:
        deleted, rows = self._delete(offsets), self._replace(offsets)
        if self._table.order:
            self._bury(offsets)
            rows -= self._delete_again(offsets)
        self.landed.deleted += deleted
        self.landed.rows += rows

    def _choose(self, offsets: Sequence[int] | None) -> sql.Composed:
        """One staged record of each key. In the key's order, so that two ranges seldom lock each other out."""
        text = "(SELECT DISTINCT ON ({key}) {names} FROM {stage} s {which} ORDER BY {key}, {order})"
        which: sql.Composable = sql.SQL("")
        if offsets is not None:
            which = sql.SQL("WHERE {} = ANY({}::bigint[])").format(_OFFSET, sql.Literal(list(offsets)))
        names: sql.Composable = sql.SQL("*")
        if self._table.order:
            names = sql.SQL("*, {} AS {}").format(self._order("s"), _ORDER)
        return sql.SQL(text).format(
            key=list_names(self._table.key), names=names, stage=STAGE, which=which, order=self._sort("DESC")
        )

    def _sort(self, direction: str) -> sql.Composed:
        names = [*(term.column for term in self._table.order), OFFSET]
        text = f"{{}} {direction}"
        return sql.SQL(", ").join(sql.SQL(text).format(sql.Identifier(name)) for name in dict.fromkeys(names))

    def _order(self, alias: str) -> sql.Composed:
        """The order of a record as numbers: its terms, its partition, its offset."""
        terms = [_build_number(term, alias) for term in self._table.order]
        tie = [sql.Literal(self._partition), sql.SQL("{}.{}").format(sql.Identifier(alias), _OFFSET)]
        return sql.SQL("ARRAY[{}]::numeric[]").format(sql.SQL(", ").join([*terms, *tie]))

    def _delete(self, offsets: Sequence[int] | None) -> int:
        text = "DELETE FROM {target} t USING {chosen} s WHERE s.{deleted} AND {same}{older}"
        older: sql.Composable = sql.SQL("")
        if self._table.order:
            older = sql.SQL(" AND (t.{0} IS NULL OR t.{0} <= s.{0})").format(_ORDER)
        return self._run(text, offsets, older=older)

    def _replace(self, offsets: Sequence[int] | None) -> int:
        names = [*self._table.columns, *((ORDER_COLUMN,) if self._table.order else ())]
        others = [sql.Identifier(name) for name in names if name not in self._table.key]
        change: sql.Composable = sql.SQL("DO NOTHING")
        if others:
            sets = sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(name) for name in others)
            change = sql.SQL("DO UPDATE SET {}").format(sets)
        newer: sql.Composable = sql.SQL("")
        if self._table.order:
            newer = sql.SQL(" WHERE t.{0} IS NULL OR t.{0} <= excluded.{0}").format(_ORDER)
        text = (
            "INSERT INTO {target} AS t ({names}) SELECT {names} FROM {chosen} s WHERE NOT s.{deleted}{alive} "
            "ON CONFLICT ({key}) {change}{newer}"
        )
        return self._run(
            text,
            offsets,
            names=list_names(names),
            alive=self._is_alive(),
            key=list_names(self._table.key),
            change=change,
            newer=newer,
        )

    def _is_alive(self) -> sql.Composable:
        """Whether no newer delete of the record's key is known."""
        if not self._table.order:
            return sql.SQL("")
        return sql.SQL(" AND NOT EXISTS (SELECT FROM {} d WHERE {} AND d.{} > s.{})").format(
            self._tombstones.table, self._tombstones.match(self._key("s"), "d"), _ORDER, _ORDER
        )

    def _bury(self, offsets: Sequence[int] | None) -> None:
        """Keep the order of each delete, unless a newer row is there."""
        newer = sql.SQL("EXISTS (SELECT FROM {} t WHERE {} AND t.{} > s.{})").format(
            self._target, self._same(), _ORDER, _ORDER
        )
        select = sql.SQL("SELECT {key} AS key, s.{order} AS value FROM {chosen} s WHERE s.{deleted} AND NOT {newer}")
        self._tombstones.add(
            select.format(key=self._key("s"), order=_ORDER, chosen=self._choose(offsets), deleted=_DELETED, newer=newer)
        )

    def _delete_again(self, offsets: Sequence[int] | None) -> int:
        """Delete rows that were written while a newer delete of their key was being committed."""
        if not self._tombstones.has_any():
            return 0
        text = "DELETE FROM {target} t USING {chosen} s, {stones} d WHERE {same} AND {match} AND d.{order} > t.{order}"
        return self._run(
            text, offsets, stones=self._tombstones.table, match=self._tombstones.match(self._key("s"), "d")
        )

    def _count_absent(self) -> int:
        """Count the deletes that neither found a row nor an order above their own: what they waited for is unknown."""
        text = sql.SQL(
            "SELECT count(*) FROM {chosen} s WHERE s.{deleted} AND NOT EXISTS "
            "(SELECT FROM {target} t WHERE {same} AND t.{order} > s.{order})"
        ).format(chosen=self._choose(None), deleted=_DELETED, target=self._target, same=self._same(), order=_ORDER)
        rows = self._connection.execute(text).fetchall()
        return int(rows[0][0]) - self.landed.deleted

    def _refuse_forgotten(self) -> Refusals:
        """Refuse records that may be older than a delete whose order is no longer kept."""
        refused = Refusals()
        horizon = self._tombstones.read_horizon()
        if horizon is None:
            return refused
        text = sql.SQL(
            "SELECT s.{offset} FROM {chosen} s WHERE NOT s.{deleted} AND s.{order} < {horizon}::numeric[] "
            "AND NOT EXISTS (SELECT FROM {target} t WHERE {same}){alive}"
        ).format(
            offset=_OFFSET,
            chosen=self._choose(None),
            deleted=_DELETED,
            order=_ORDER,
            horizon=sql.Literal(horizon),
            target=self._target,
            same=self._same(),
            alive=self._is_alive(),
        )
        reason = "the record is older than the tombstones that are kept (to.tombstones), and its key has no row"
        # An older record of the same key takes the place of one that is refused, and is refused next.
        while found := [offset for (offset,) in self._connection.execute(text).fetchall()]:
            for offset in found:
                refused.add(offset, reason)
            self._drop(found)
        return refused

    def _drop(self, offsets: Sequence[int]) -> None:
        statement = sql.SQL("DELETE FROM {} WHERE {} = ANY(%s)").format(STAGE, _OFFSET)
        self._connection.execute(statement, [list(offsets)])

    def _run(self, text: str, offsets: Sequence[int] | None, **parts: sql.Composable) -> int:
        statement = sql.SQL(text).format(
            target=self._target,
            chosen=self._choose(offsets),
            same=self._same(),
            deleted=_DELETED,
            order=_ORDER,
            **parts,
        )
        return self._connection.execute(statement).rowcount

    def _same(self) -> sql.Composed:
        same = [sql.SQL("t.{0} = s.{0}").format(sql.Identifier(name)) for name in self._table.key]
        return sql.SQL(" AND ").join(same)

    def _key(self, alias: str) -> sql.Composed:
        """The key as JSON that doesn't depend on the session's settings."""
        parts = []
        for name in self._table.key:
            column = sql.SQL("{}.{}").format(sql.Identifier(alias), sql.Identifier(name))
            # As text it would be in the session's time zone.
            parts.append(sql.SQL("extract(epoch FROM {})").format(column) if name in self._table.times else column)
        return sql.SQL("jsonb_build_array({})").format(sql.SQL(", ").join(parts))


def _build_number(term: OrderTerm, alias: str) -> sql.Composed:
    column = sql.SQL("{}.{}").format(sql.Identifier(alias), sql.Identifier(term.column))
    if term.kind is OrderKind.TIME:
        # numeric since PostgreSQL 14, with all microseconds.
        return sql.SQL("extract(epoch FROM {})").format(column)
    if term.kind is OrderKind.FLOAT:
        # A cast keeps 15 digits; the text has as many as tell two numbers apart.
        return sql.SQL("{}::float8::text::numeric").format(column)
    return sql.SQL("{}::numeric").format(column)
