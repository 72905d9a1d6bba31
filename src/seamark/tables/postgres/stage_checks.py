"""Staged records that a table would refuse, found by a few statements, however many they are.

Each statement takes records out of the stage and gives their offsets, so that the next one sees what is left.
Everything here is part of the caller's transaction.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from seamark.tables.model import DELETED, OFFSET
from seamark.tables.postgres.table import Constraints, UniqueIndex, build_rows


def bisect_rejected_rows(count: int, take: Callable[[int, int], str | None]) -> Iterator[tuple[int, str]]:
    """The places of the rows that are refused, each with why; all others are taken.

    `take` takes the rows from one place to before another, all or none, and gives why it refuses them.
    """
    return _find(0, count, take) if count else iter(())


def _find(first: int, end: int, take: Callable[[int, int], str | None]) -> Iterator[tuple[int, str]]:
    reason = take(first, end)
    if reason is None:
        return
    if end - first == 1:
        yield first, reason
        return
    middle = (first + end) // 2
    yield from _find(first, middle, take)
    yield from _find(middle, end, take)


class Refusals:
    """Offsets and reasons. Iterating gives both, in the order of the offsets."""

    def __init__(self) -> None:
        self._offsets = array("q")
        self._reasons = array("i")
        self._words: dict[str, int] = {}
        self._is_sorted = True

    def __len__(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        self._sort()
        words = list(self._words)
        return ((offset, words[reason]) for offset, reason in zip(self._offsets, self._reasons, strict=True))

    def add(self, offset: int, reason: str) -> None:
        """Add a record. An offset is added once."""
        if self._offsets and offset < self._offsets[-1]:
            self._is_sorted = False
        self._offsets.append(offset)
        self._reasons.append(self._words.setdefault(reason, len(self._words)))

    def add_all(self, others: Refusals) -> None:
        """Add the records of another one."""
        for offset, reason in others:
            self.add(offset, reason)

    def find(self, first: int, last: int) -> dict[int, str]:
        """Find the records from one offset to another, both included."""
        self._sort()
        words = list(self._words)
        begin, end = bisect_left(self._offsets, first), bisect_left(self._offsets, last + 1)
        return {self._offsets[place]: words[self._reasons[place]] for place in range(begin, end)}

    def _sort(self) -> None:
        if self._is_sorted:
            return
        pairs = sorted(zip(self._offsets, self._reasons, strict=True))
        self._offsets = array("q", (offset for offset, _ in pairs))
        self._reasons = array("i", (reason for _, reason in pairs))
        self._is_sorted = True


# PostgreSQL keeps 64 subtransactions of a transaction in shared memory (PGPROC_MAX_CACHED_SUBXIDS). With more of
# them, every snapshot of every session has to look transactions up in pg_subtrans, until the transaction ends.

MOST = 64


class SavepointsSpentError(Exception):
    """The transaction can't have one more savepoint. `reason` is the last one for which PostgreSQL refused rows."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class Savepoints:
    """Opens and counts them."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self.used = 0
        self._reason = ""

    @contextmanager
    def open(self) -> Iterator[None]:
        """Run the block in a savepoint, to which the transaction returns if the block raises.

        Raises:
            SavepointsSpentError: The transaction has had 64.
        """
        if self.used >= MOST:
            raise SavepointsSpentError(self._reason)
        self.used += 1
        try:
            with self._connection.transaction():
                yield
        except psycopg.Error as error:
            self._reason = error.diag.message_primary or ""
            raise


STAGE = sql.Identifier("seamark_stage")
_OFFSET, _DELETED = sql.Identifier(OFFSET), sql.Identifier(DELETED)
# Each round finds what the one before has caused. What is left after so many is found by PostgreSQL.
_MOST_ROUNDS = 100
_SEVERAL = 2
# What the statements below call the offset of a record, and the number of its reason.
_TAKE = "DELETE FROM {stage} USING ({found}) found WHERE {stage}.{offset} = found.seamark_at RETURNING {stage}.{offset}"

# Whether the session has a temporary table with these columns, of the types that the columns of another table have.
_IS_MADE = """
    WITH made AS (
        SELECT attnum, attname, atttypid, atttypmod, attcollation FROM pg_attribute
        WHERE attrelid = to_regclass(%(name)s) AND attnum > 0 AND NOT attisdropped
    )
    SELECT (SELECT array_agg(attname::text ORDER BY attnum) FROM made) = %(names)s::text[] AND NOT EXISTS (
        SELECT FROM made m JOIN pg_attribute t ON t.attname = m.attname
        WHERE t.attrelid = %(like)s::regclass AND t.attnum > 0 AND m.attname = ANY(%(columns)s::text[])
        AND (m.atttypid, m.atttypmod, m.attcollation) <> (t.atttypid, t.atttypmod, t.attcollation)
    )
"""


def make_temporary(
    connection: psycopg.Connection[Any],
    table: sql.Identifier,
    columns: Sequence[str],
    like: sql.Identifier,
    *,
    added: Mapping[str, LiteralString] | None = None,
) -> None:
    """Make an empty temporary table for this transaction. One of an earlier transaction of the session is used again.

    Args:
        connection: The session, in a transaction.
        table: The temporary table.
        columns: Its columns that have the types of another table's columns.
        like: That other table.
        added: More columns, each with an expression of its type.
    """
    added = added or {}
    name = sql.SQL("pg_temp.{}").format(table).as_string(connection)
    values = {
        "name": name,
        "names": [*columns, *added],
        "columns": list(columns),
        "like": like.as_string(connection),
    }
    if connection.execute(_IS_MADE, values).fetchall()[0][0]:
        return
    terms = [
        *(sql.Identifier(column) for column in columns),
        *(sql.SQL("{} AS {}").format(sql.SQL(value), sql.Identifier(column)) for column, value in added.items()),
    ]
    connection.execute(sql.SQL("DROP TABLE IF EXISTS pg_temp.{}").format(table))
    text = "CREATE TEMP TABLE {} ON COMMIT DELETE ROWS AS SELECT {} FROM {} LIMIT 0"
    connection.execute(sql.SQL(text).format(table, sql.SQL(", ").join(terms), like))


class StageChecks:
    """Takes records out of the stage that the table would refuse."""

    def __init__(self, connection: psycopg.Connection[Any], constraints: Constraints) -> None:
        self._connection = connection
        self._target = constraints.rows
        self._constraints = constraints
        self.refused = Refusals()

    def refuse_broken(self) -> int:
        """Refuse each record that breaks a rule without regard to other records. Returns how many."""
        text = "SELECT {offset} AS seamark_at, {reason} AS seamark_why FROM {rows}"
        found = sql.SQL(text).format(
            offset=_OFFSET, reason=self._constraints.build_reason(), rows=build_rows(self._constraints, STAGE)
        )
        return self._take_rules(found, sql.SQL("true"))

    def refuse_broken_newest(self, key: sql.Composable, newest_first: sql.Composable) -> int:
        """Refuse records that break a rule and have no good record of their key after them. Returns how many.

        A bad record before a good one of its key has no effect on the table, as any other record before it.
        """
        text = (
            "SELECT seamark_at, seamark_why, bool_or(seamark_why IS NULL) OVER (PARTITION BY {key} ORDER BY {order} "
            "ROWS UNBOUNDED PRECEDING) AS is_past FROM (SELECT {names}.*, {offset} AS seamark_at, "
            "CASE WHEN NOT {deleted} THEN {reason} END AS seamark_why FROM {rows}) seamark_rows"
        )
        found = sql.SQL(text).format(
            key=key,
            order=newest_first,
            names=sql.Identifier(self._constraints.relation),
            offset=_OFFSET,
            deleted=_DELETED,
            reason=self._constraints.build_reason(),
            rows=build_rows(self._constraints, STAGE),
        )
        return self._take_rules(found, sql.SQL("NOT is_past"))

    def refuse_orphans(self) -> int:
        """Refuse records that refer to rows of the same table that are neither there nor staged. Returns how many."""
        text = (
            "SELECT s.{offset} AS seamark_at FROM {stage} s WHERE {is_set} "
            "AND NOT EXISTS (SELECT FROM {target} o WHERE {match}) AND NOT EXISTS (SELECT FROM {stage} o WHERE {match})"
        )
        count = 0
        for key in self._constraints.own_keys:
            found = sql.SQL(text).format(
                offset=_OFFSET, stage=STAGE, target=self._target, is_set=key.is_set("s"), match=key.match("s", "o")
            )
            # One that is refused may be what another one refers to.
            for _ in range(_MOST_ROUNDS):
                if not (taken := self._take(found, key.reason)):
                    break
                count += taken
        return count

    def refuse_duplicates(self) -> int:
        """Refuse records whose unique values a row or an earlier record has. Returns how many.

        With several indexes, an earlier record may be refused itself, and then leaves its values to a later one. So a
        record is refused only for an earlier one that is the first with its values in every index; the first record
        that is left always has only such ones before it, so that each round finds some.
        """
        uniques = self._constraints.uniques
        mine = [
            sql.SQL("SELECT {} AS seamark_at, {} FROM {} WHERE {}").format(
                _OFFSET, index.build_terms(), build_rows(self._constraints, STAGE), index.predicate
            )
            for index in uniques
        ]
        pairs = list(zip(uniques, mine, strict=True))
        count = sum(self._take(self._find_in_table(index, rows), index.reason) for index, rows in pairs)
        order = sql.SQL("seamark_at")
        for _ in range(_MOST_ROUNDS):
            taken = 0
            for index, rows in pairs:
                others = [_find_repeated(one, more, order=order) for one, more in pairs if one is not index]
                taken += self._take(_find_repeated(index, rows, order=order, others=others), index.reason)
            count += taken
            if len(pairs) < _SEVERAL or not taken:
                break
        return count

    def refuse_taken(
        self, chosen: sql.Composable, key: Sequence[str], oldest_first: sql.Composable, *, is_kept: bool
    ) -> int:
        """Refuse chosen records of upserts whose unique values a row of another key has. Returns how many.

        Args:
            chosen: A query of the records that would be written or deleted, one per key.
            key: The columns of the key.
            oldest_first: How records are sorted; of two with the same values the earlier one stays.
            is_kept: Whether a row counts that a chosen record replaces. Its values are free only after that.
        """
        gone = sql.SQL("d.{} AND ").format(_DELETED) if is_kept else sql.SQL("")
        count = 0
        names = [sql.Identifier(name) for name in key]
        rows = build_rows(self._constraints, sql.SQL("seamark_chosen"))
        for index in self._constraints.uniques:
            if set(index.columns) == set(key):
                continue
            mine = sql.SQL(
                "SELECT {relation}.*, {offset} AS seamark_at, {terms} FROM {rows} WHERE NOT {deleted} AND {p}"
            ).format(
                relation=sql.Identifier(self._constraints.relation),
                offset=_OFFSET,
                terms=index.build_terms(),
                rows=rows,
                deleted=_DELETED,
                p=index.predicate,
            )
            text = (
                "SELECT s.seamark_at FROM ({mine}) s WHERE EXISTS (SELECT FROM (SELECT {key}, {terms} FROM {target} "
                "WHERE {predicate}) t WHERE {same} AND ({tkey}) <> ({skey}) AND NOT EXISTS "
                "(SELECT FROM seamark_chosen d WHERE {gone}({dkey}) = ({tkey})))"
            )
            taken = sql.SQL(text).format(
                mine=mine,
                key=sql.SQL(", ").join(names),
                terms=index.build_terms(),
                target=self._target,
                predicate=index.predicate,
                same=index.build_same("s", "t"),
                gone=gone,
                **{f"{alias}key": _qualify(names, alias) for alias in "std"},
            )
            repeated = _find_repeated(index, mine, order=oldest_first)
            for found in (taken, repeated):
                count += self._take(found, index.reason, chosen=chosen)
        return count

    def refuse_held(self, chosen: sql.Composable, same: sql.Composable) -> int:
        """Refuse chosen deletes of rows that rows of other tables refer to. Returns how many.

        Args:
            chosen: A query of the records that would be written or deleted, one per key.
            same: The condition that record `s` would delete row `t`.
        """
        text = (
            "SELECT s.{offset} AS seamark_at FROM seamark_chosen s JOIN {target} t ON {same} WHERE s.{deleted} "
            "AND EXISTS (SELECT FROM {other} h WHERE {match})"
        )
        count = 0
        for key in self._constraints.holders:
            found = sql.SQL(text).format(
                offset=_OFFSET,
                target=self._target,
                same=same,
                deleted=_DELETED,
                other=key.other,
                match=key.match("t", "h"),
            )
            count += self._take(found, key.reason, chosen=chosen)
        return count

    def _find_in_table(self, index: UniqueIndex, mine: sql.Composable) -> sql.Composed:
        text = (
            "SELECT s.seamark_at FROM ({mine}) s WHERE EXISTS "
            "(SELECT FROM (SELECT {terms} FROM {target} WHERE {predicate}) t WHERE {same})"
        )
        return sql.SQL(text).format(
            mine=mine,
            terms=index.build_terms(),
            target=self._target,
            predicate=index.predicate,
            same=index.build_same("s", "t"),
        )

    def _take_rules(self, found: sql.Composable, condition: sql.Composable) -> int:
        text = "SELECT seamark_at, seamark_why FROM ({}) judged WHERE seamark_why IS NOT NULL AND {}"
        taken = sql.SQL(_TAKE + ", found.seamark_why").format(
            stage=STAGE, offset=_OFFSET, found=sql.SQL(text).format(found, condition)
        )
        reasons = [rule.reason for rule in self._constraints.rules]
        count = 0
        # One by one: all at once would be in memory.
        with self._connection.cursor() as cursor:
            for offset, number in cursor.stream(taken):
                self.refused.add(offset, reasons[number])
                count += 1
        return count

    def _take(self, found: sql.Composable, reason: str, *, chosen: sql.Composable | None = None) -> int:
        statement = sql.SQL(_TAKE).format(stage=STAGE, offset=_OFFSET, found=found)
        if chosen is not None:
            statement = sql.SQL("WITH seamark_chosen AS MATERIALIZED {} {}").format(chosen, statement)
        count = 0
        with self._connection.cursor() as cursor:
            for (offset,) in cursor.stream(statement):
                self.refused.add(offset, reason)
                count += 1
        return count


def check_condition_error(error: psycopg.Error) -> None:
    """Check that an error is about the conditions themselves.

    A condition may fail for some record, need a column that records don't have, or a table that the role can't read.
    The records that break it are found one by one then.

    Raises:
        psycopg.OperationalError: The server or the connection failed.
    """
    if isinstance(error, psycopg.OperationalError):
        raise error


def _find_repeated(
    index: UniqueIndex, mine: sql.Composable, *, order: sql.Composable, others: Sequence[sql.Composable] = ()
) -> sql.Composed:
    """Find records with the values of an earlier one, unless that one is among `others`."""
    text = (
        "SELECT seamark_at FROM (SELECT seamark_at, first_value(seamark_at) OVER same AS seamark_first "
        "FROM ({mine}) s WHERE {counts} WINDOW same AS (PARTITION BY {names} ORDER BY {order})) placed "
        "WHERE seamark_at <> seamark_first{first}"
    )
    first: sql.Composable = sql.SQL("")
    if others:
        doubtful = sql.SQL(" UNION ALL ").join(sql.SQL("({})").format(other) for other in others)
        first = sql.SQL(" AND NOT EXISTS (SELECT FROM ({}) o WHERE o.seamark_at = placed.seamark_first)").format(
            doubtful
        )
    return sql.SQL(text).format(
        names=sql.SQL(", ").join(index.names), order=order, mine=mine, counts=index.build_counts(), first=first
    )


def _qualify(names: Sequence[sql.Identifier], alias: str) -> sql.Composed:
    return sql.SQL(", ").join(sql.SQL("{}.{}").format(sql.Identifier(alias), name) for name in names)
