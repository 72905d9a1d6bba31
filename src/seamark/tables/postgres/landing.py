"""A range of a topic landed in one transaction: its rows, its dead letters, and the move of its entry in the ledger.

Any range may be landed twice, anywhere, at the same time. Whoever is first has done it, and the others see that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import psycopg

from seamark.errors import ConfigurationError, DeadlineError, FencedError, SeamarkError
from seamark.tables.ledger_entry import Entry, Step
from seamark.tables.postgres.any_driver import Runner
from seamark.tables.postgres.failures import build_connect_error, build_landing_error, build_staging_error
from seamark.tables.postgres.landing_rows import RowSink, create_dead_letters, read_repeat
from seamark.tables.postgres.landing_table import Landed, LandingTable, build_table
from seamark.tables.postgres.ledger import Ledger
from seamark.tables.postgres.session import build_patient_dsn
from seamark.tables.postgres.tombstones import TABLE as TOMBSTONES
from seamark.tables.postgres.tombstones import Tombstones, create_tombstones
from seamark.tables.postgres.zombies import ZombieWatch, build_session_name

_MOST_CLAIMS = 8
# pg_stat_progress_copy tells a stopped session from a slow one, and extract() returns numeric.
_OLDEST_VERSION = 14_00_00
# Somebody who only waits is looked at again so often.
_LOCK_SECONDS = 2
# A session in which nothing happens for so long, though its row is waited for, belongs to a process that is stopped.
_ZOMBIE_SECONDS = 15.0
# A task waits for another one that lands the same range, which may be a large one.
_HOLD_SECONDS = 900.0
# If nobody waits for it, PostgreSQL ends it in the end.
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

        One that is there is left alone: to make one takes a right that nobody needs afterwards.

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

    def read(self) -> dict[tuple[str, int], Entry]:
        """What stands in the ledger."""
        try:
            with self._open("") as connection:
                return self._ledger.read(Runner(connection))
        except psycopg.Error as error:
            failure = build_landing_error(error, self._ledger.table)
        raise failure

    def read_if_any(self) -> dict[tuple[str, int], Entry]:
        """The same where nobody may have made the ledger yet."""
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

    def claim(self, firsts: Iterable[Entry]) -> list[Entry]:
        """Take these partitions from whoever has them. One that has no entry begins where `firsts` says."""
        # Entries of another format version are refused before any row is locked.
        self.read()
        # Each has a session of its own, by whose name those that hold it are known; one after the other is slow.
        try:
            with ThreadPoolExecutor(_MOST_CLAIMS, thread_name_prefix="seamark-claim") as pool:
                return list(pool.map(self._claim, firsts))
        except psycopg.Error as error:
            failure = build_landing_error(error, self._ledger.table)
        raise failure

    def place(self, entries: Iterable[Entry], *, gone: Iterable[Entry] = ()) -> None:
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

    def land(self, step: Step, write: Callable[[RowSink], None], *, is_strict: bool) -> Landed:
        """Land a range. `write` hands its rows over.

        Raises:
            FencedError: the ledger is elsewhere: another run has taken the partition, or its offset was moved.
        """
        is_moved = False
        landed = Landed()
        try:
            with self._open(self._name(step.entry)) as connection:
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

    def move_empty(self, step: Step) -> None:
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

    def _claim(self, first: Entry) -> Entry:
        with self._open(self._name(first)) as connection:
            self._wait(connection, first, act=self._enter)
            found = self._ledger.claim(Runner(connection), first)
        if found is None:
            raise build_fenced(self._ledger.owner, first, None)
        return found

    def _is_landed(self, step: Step) -> bool:
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

    def _hold(self, connection: psycopg.Connection[Any], entry: Entry) -> Entry | None:
        """Lock the row of an entry, and read it."""
        return self._wait(connection, entry, act=self._ledger.hold)[0]

    def _wait(
        self, connection: psycopg.Connection[Any], *entries: Entry, act: Callable[[Runner, Entry], _T]
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
                    f"the ledger's entry of {entries[len(done)]} was held by another session for {_HOLD_SECONDS:g} s",
                    cause=f"a transaction that changed it in {self._ledger.table} is still open",
                    hint="find its session in pg_stat_activity and pg_locks",
                    context={"owner": self._ledger.owner},
                )

    def _enter(self, runner: Runner, entry: Entry) -> None:
        self._ledger.add(runner, entry)
        self._ledger.hold(runner, entry)

    def _name(self, entry: Entry) -> str:
        return build_session_name(self._ledger.owner, *entry.key)

    def _dsn_of(self, name: str) -> str:
        # Names and reasons may have any character, whatever the environment's encoding is.
        return build_patient_dsn(self._dsn, application_name=name, client_encoding="UTF8")

    def _open(self, name: str) -> psycopg.Connection[Any]:
        """A connection for one transaction: committed and closed at the end of its block."""
        try:
            connection = psycopg.connect(self._dsn_of(name or "seamark-land"))
            # Whoever has waited for a lock must see what was committed meanwhile, whatever the role's default is.
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
        f"pipelines need PostgreSQL 14 or later, and the database is PostgreSQL {version // 10_000}",
        cause="before 14, the progress of COPY can't be seen, and times have no exact number",
        hint="upgrade the server, or use a database on another one",
    )


def _find_table(connection: psycopg.Connection[Any], name: str) -> int | None:
    found: int | None = connection.execute(_FIND, [build_table(name).as_string(connection)]).fetchall()[0][0]
    return found


def build_fenced(owner: str, seen: Entry, found: Entry | None) -> FencedError:
    """The error of a landing whose entry is elsewhere."""
    cause = "its entry was deleted"
    if found is not None:
        cause = (
            "another run has taken it" if found.epoch != seen.epoch else f"its offset was moved to {found.next_offset}"
        )
    return FencedError(
        f"{owner} no longer has {seen} at {seen.next_offset}",
        cause=cause,
        hint="nothing was landed twice; start the landing again, where no other run of it works",
        context={"owner": owner, "topic": seen.topic, "partition": str(seen.partition)},
    )
