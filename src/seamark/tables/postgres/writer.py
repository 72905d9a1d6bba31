"""A range of a topic landed in one transaction: its rows, its dead letters, and the move of its entry in the ledger.

Any range may be landed twice, anywhere, at the same time. The first one commits, and the others see that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import psycopg
from psycopg import sql

from seamark.errors import ConfigurationError, DeadlineError, FencedError, SeamarkError
from seamark.tables.model import OFFSET, LedgerAdvance, LedgerEntry
from seamark.tables.postgres.connection import (
    ZombieWatch,
    build_connect_error,
    build_landing_error,
    build_patient_dsn,
    build_session_name,
    build_staging_error,
    keep_session,
    take_session,
)
from seamark.tables.postgres.ledger import Ledger, Runner
from seamark.tables.postgres.stage_checks import (
    STAGE,
    Refusals,
    Savepoints,
    StageChecks,
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
from seamark.tables.postgres.upsert import TABLE as TOMBSTONES
from seamark.tables.postgres.upsert import Tombstones, Upsert, create_tombstones

# Everything here is part of the caller's transaction.

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
        self,
        connection: psycopg.Connection[Any],
        table: LandingTable,
        *,
        owner: str,
        step: LedgerAdvance,
        is_strict: bool,
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
        make_temporary(self._connection, STAGE, self._table.columns, self._target, added={OFFSET: "0::bigint"})

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
        make_temporary(self._connection, _LETTERS, LETTER_COLUMNS, dead)
        self._copy(sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv, ENCODING 'UTF8')").format(_LETTERS, names), texts)
        statement = sql.SQL(
            "INSERT INTO {} (owner, topic, topic_id, partition_number, {}) SELECT %s, %s, %s, %s, {} FROM {} "
            "ON CONFLICT (owner, topic_id, partition_number, record_offset) DO UPDATE SET reason = excluded.reason"
        ).format(dead, names, names, _LETTERS)
        whose = (self._owner, self._entry.topic, self._entry.topic_id, self._entry.partition)
        self._dead += self._connection.execute(statement, whose).rowcount
        self._connection.execute(sql.SQL("DELETE FROM {}").format(_LETTERS))

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


def read_repeat(connection: psycopg.Connection[Any], table: LandingTable, *, owner: str, step: LedgerAdvance) -> Landed:
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


def _list_bounds(owner: str, step: LedgerAdvance) -> list[Any]:
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


_MOST_CLAIMS = 8
# pg_stat_progress_copy tells a stopped session from a slow one, and extract() returns numeric.
_OLDEST_VERSION = 14_00_00
# How often a session that only waits is checked.
_LOCK_SECONDS = 2
# A session in which nothing happens for so long, though its row is waited for, belongs to a process that is stopped.
_ZOMBIE_SECONDS = 15.0
# A task waits for another one that lands the same range, which may be a large one.
_HOLD_SECONDS = 900.0
# If no other session waits for it, PostgreSQL ends it after this time.
_IDLE_SECONDS = 300

_FIND = "SELECT to_regclass(%s)::oid"
_WITHOUT_TEMPORARY = "SELECT current_database() WHERE NOT has_database_privilege(current_database(), 'TEMPORARY')"
_COLUMNS = "SELECT attname FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum"

_T = TypeVar("_T")


class LandingDatabase:
    """The database of one landing. Each call has a connection of its own, by the name of what it may hold."""

    def __init__(self, dsn: str, table: LandingTable, *, owner: str, zombie_seconds: float = _ZOMBIE_SECONDS) -> None:
        self._dsn = dsn
        self._table = table
        self._ledger = Ledger(owner)
        self._zombie_seconds = zombie_seconds

    def prepare(self) -> None:
        """Make the ledger, and the table of dead letters, where they are missing.

        An existing table is not changed: creating one needs a privilege that later calls don't need.

        Raises:
            ConfigurationError: The server is older than PostgreSQL 14.
        """
        with self._open("") as connection:
            check_server_version(connection.info.server_version)
        self._make(self._ledger.table, lambda connection: self._ledger.create(Runner(connection)))
        if dead := self._table.dead_letters:
            self._make(dead, lambda connection: create_dead_letters(connection, dead))
        if self._table.order:
            self._make(TOMBSTONES, create_tombstones)
            self.purge_tombstones()

    def purge_tombstones(self) -> int:
        """Forget deletes that are older than `to.tombstones`. Gives how many."""
        if not self._table.order:
            return 0
        try:
            with self._open("") as connection:
                tombstones = Tombstones(connection, self._table.name, seconds=self._table.tombstone_seconds)
                tombstones.check()
                return tombstones.purge()
        except psycopg.Error as error:
            failure = build_landing_error(error, TOMBSTONES)
        raise failure

    def read_columns(self) -> tuple[str, ...] | None:
        """The columns of the table; None where there is none."""
        with self._open("") as connection:
            found = _find_table(connection, self._table.name)
            if found is None:
                return None
            return tuple(name for (name,) in connection.execute(_COLUMNS, [found]).fetchall())

    def change_table(self, statements: Iterable[str]) -> None:
        """Run the statements of a plan, all or none."""
        try:
            with self._open("") as connection:
                for statement in statements:
                    connection.execute(statement.encode())
        except psycopg.Error as error:
            failure = build_landing_error(error, self._table.name)
        else:
            return
        raise failure

    def read(self) -> dict[tuple[str, int], LedgerEntry]:
        """What stands in the ledger."""
        try:
            with self._open("") as connection:
                return self._ledger.read(Runner(connection))
        except psycopg.Error as error:
            failure = build_landing_error(error, self._ledger.table)
        raise failure

    def read_if_any(self) -> dict[tuple[str, int], LedgerEntry]:
        """Read the ledger; empty if it doesn't exist."""
        with self._open("") as connection:
            if _find_table(connection, self._ledger.table) is None:
                return {}
        return self.read()

    def read_place(self) -> str:
        """Which database this is, however it is called: its name, and when its server was started."""
        try:
            with self._open("") as connection:
                found = connection.execute("SELECT current_database(), pg_postmaster_start_time()").fetchone()
        except psycopg.Error as error:
            failure = build_landing_error(error, self._ledger.table)
        else:
            return " ".join(map(str, found or ()))
        raise failure

    def claim(self, firsts: Iterable[LedgerEntry]) -> list[LedgerEntry]:
        """Claim these partitions from their holders. One without an entry begins at the offset in `firsts`."""
        # Entries of another format version are refused before any row is locked.
        self.read()
        # Each has a session of its own, by whose name those that hold it are known; one after the other is slow.
        try:
            with ThreadPoolExecutor(_MOST_CLAIMS, thread_name_prefix="seamark-claim") as pool:
                return list(pool.map(self._claim, firsts))
        except psycopg.Error as error:
            failure = build_landing_error(error, self._ledger.table)
        raise failure

    def place(self, entries: Iterable[LedgerEntry], *, gone: Iterable[LedgerEntry] = ()) -> None:
        """Set these offsets and take those entries away, all or none. A run that is under way is fenced by it."""
        wanted = sorted(
            [*((one, True) for one in entries), *((one, False) for one in gone)], key=lambda each: each[0].key
        )
        try:
            with self._open("") as connection:
                runner = Runner(connection)
                self._ledger.read(runner)
                self._wait(connection, *(entry for entry, _ in wanted), act=self._ledger.hold)
                for entry, is_kept in wanted:
                    (self._ledger.place if is_kept else self._ledger.remove)(runner, entry)
        except psycopg.Error as error:
            failure = build_landing_error(error, self._ledger.table)
        else:
            return
        raise failure

    def land(self, step: LedgerAdvance, write: Callable[[RowSink], None], *, is_strict: bool) -> Landed:
        """Land a range. `write` hands its rows over.

        Raises:
            FencedError: the ledger is elsewhere: another run has taken the partition, or its offset was moved.
        """
        is_moved = False
        landed = Landed()
        try:
            with self._use_session(self._name(step.entry)) as connection:
                found = self._hold(connection, step.entry)
                connection.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{_IDLE_SECONDS}s'")
                if found == step.after:
                    return read_repeat(connection, self._table, owner=self._ledger.owner, step=step)
                if found != step.entry:
                    raise build_fenced(self._ledger.owner, step.entry, found)
                sink = RowSink(connection, self._table, owner=self._ledger.owner, step=step, is_strict=is_strict)
                write(sink)
                landed = sink.landed
                self._ledger.move(Runner(connection), step.entry, to=step.end)
                is_moved = True
        except psycopg.Error as error:
            failure = self._build_failure(error)
        else:
            return landed
        # The answer to COMMIT may be lost; the ledger knows what became of it.
        if is_moved and self._is_landed(step):
            return landed
        # Here, so that no traceback carries rows of the user's.
        raise failure

    def move_empty(self, step: LedgerAdvance) -> None:
        """Move over a range in which there is no record."""
        self.land(step, lambda _: None, is_strict=True)

    def _make(self, table: str, make: Callable[[psycopg.Connection[Any]], None]) -> None:
        try:
            with self._open("") as connection:
                if _find_table(connection, table) is None:
                    make(connection)
        except psycopg.Error as error:
            # Another process may make it in the same moment; one of the two then fails, and both find it.
            with self._open("") as connection:
                if _find_table(connection, table) is not None:
                    return
            failure = build_landing_error(error, table)
        else:
            return
        raise failure

    def _claim(self, first: LedgerEntry) -> LedgerEntry:
        with self._open(self._name(first)) as connection:
            self._wait(connection, first, act=self._enter)
            found = self._ledger.claim(Runner(connection), first)
        if found is None:
            raise build_fenced(self._ledger.owner, first, None)
        return found

    def _is_landed(self, step: LedgerAdvance) -> bool:
        try:
            with self._open(self._name(step.entry)) as connection:
                # It waits for the transaction that may still be open.
                return self._hold(connection, step.entry) == step.after
        except psycopg.Error as error:
            failure = build_landing_error(error, self._ledger.table)
        raise failure

    def _build_failure(self, error: psycopg.Error) -> SeamarkError:
        """The error for rows that could not be landed. What replaces rows takes a right of the database, too."""
        needs_stage = bool(self._table.key or self._table.dead_letters)
        is_denied = isinstance(error, psycopg.errors.InsufficientPrivilege)
        if needs_stage and is_denied and (database := self._find_without_temporary()):
            return build_staging_error(error, self._table.name, database=database)
        return build_landing_error(error, self._table.name)

    def _find_without_temporary(self) -> str | None:
        """The name of the database, if no temporary table may be made there."""
        try:
            with self._open("") as connection:
                rows = connection.execute(_WITHOUT_TEMPORARY).fetchall()
        except psycopg.Error:
            return None
        return rows[0][0] if rows else None

    def _hold(self, connection: psycopg.Connection[Any], entry: LedgerEntry) -> LedgerEntry | None:
        """Lock the row of an entry, and read it."""
        return self._wait(connection, entry, act=self._ledger.hold)[0]

    def _wait(
        self, connection: psycopg.Connection[Any], *entries: LedgerEntry, act: Callable[[Runner, LedgerEntry], _T]
    ) -> list[_T]:
        """Run `act` on each entry, in their order, and wait for sessions that lock one. An idle session is terminated.

        The transaction begins again after each wait, so it must not have changed anything before.
        """
        watches = [ZombieWatch(self._name(entry), patience_seconds=self._zombie_seconds) for entry in entries]
        deadline = time.monotonic() + _HOLD_SECONDS
        while True:
            connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'")
            done: list[_T] = []
            try:
                for entry in entries:
                    done.append(act(Runner(connection), entry))  # noqa: PERF401 - how many were done tells who waits
            except psycopg.errors.LockNotAvailable:
                # No savepoint: a wait of minutes would need hundreds.
                connection.rollback()
                watches[len(done)].look(connection)
            except psycopg.errors.UniqueViolation:
                # Another session inserted it first: the next attempt finds it.
                connection.rollback()
            else:
                return done
            if time.monotonic() >= deadline:
                raise DeadlineError(
                    f"the ledger entry of {entries[len(done)]} was locked by another session for {_HOLD_SECONDS:g} s",
                    cause=f"a transaction that changed it in table {self._ledger.table} is still open",
                    hint="find its session in pg_stat_activity and pg_locks",
                    context={"owner": self._ledger.owner},
                )

    def _enter(self, runner: Runner, entry: LedgerEntry) -> None:
        self._ledger.add(runner, entry)
        self._ledger.hold(runner, entry)

    def _name(self, entry: LedgerEntry) -> str:
        return build_session_name(self._ledger.owner, *entry.key)

    def _dsn_of(self, name: str) -> str:
        # Names and reasons may have any character, whatever the environment's encoding is.
        return build_patient_dsn(self._dsn, application_name=name, client_encoding="UTF8")

    @contextmanager
    def _use_session(self, name: str) -> Iterator[psycopg.Connection[Any]]:
        """Run one transaction on a session that the process keeps: its temporary tables serve the next range, too."""
        connection = take_session(self._dsn, name) or self._open(name)
        # A prepared statement would outlive the stage that it names.
        connection.prepare_threshold = None
        try:
            yield connection
            connection.commit()
        except BaseException:
            connection.close()
            raise
        keep_session(self._dsn, connection)

    def _open(self, name: str) -> psycopg.Connection[Any]:
        """A connection for one transaction: committed and closed at the end of its block."""
        try:
            connection = psycopg.connect(self._dsn_of(name or "seamark-pipeline"))
            # After waiting for a lock, a statement must see what was committed meanwhile, whatever the role's default.
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        except psycopg.Error as error:
            failure = build_connect_error(error, self._table.name)
        else:
            return connection
        raise failure


def check_server_version(version: int) -> None:
    """Check that a server has what pipelines need.

    Args:
        version: The version as libpq reports it: 150018 is 15.18.

    Raises:
        ConfigurationError: It is older than PostgreSQL 14.
    """
    if version >= _OLDEST_VERSION:
        return
    raise ConfigurationError(
        f"pipelines need PostgreSQL 14 or later; the server has version {version // 10_000}",
        cause="earlier versions don't report the progress of COPY, nor exact numbers of timestamps",
        hint="upgrade the server, or use a database on another server",
    )


def _find_table(connection: psycopg.Connection[Any], name: str) -> int | None:
    found: int | None = connection.execute(_FIND, [build_table(name).as_string(connection)]).fetchall()[0][0]
    return found


def build_fenced(owner: str, seen: LedgerEntry, found: LedgerEntry | None) -> FencedError:
    """The error of a landing whose entry is elsewhere."""
    cause = "its entry was deleted"
    if found is not None:
        cause = (
            "another run has claimed it"
            if found.epoch != seen.epoch
            else f"its offset was moved to {found.next_offset}"
        )
    return FencedError(
        f"{owner} was fenced in {seen} at offset {seen.next_offset}",
        cause=cause,
        hint="stop all other runs of the pipeline, then run it again; no rows are duplicated",
        context={"owner": owner, "topic": seen.topic, "partition": str(seen.partition)},
    )
