"""The consumer's own connection to the ledger, for what is not part of the user's transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from seamark.errors import FormatVersionError, UsageError
from seamark.tables.ledger_entry import Entry
from seamark.tables.postgres.any_driver import Runner
from seamark.tables.postgres.ledger import Ledger

# A process that was stopped in its transaction holds its rows until the database ends it.
_LOCK_SECONDS = 10


class Housekeeping:
    """Claims partitions and looks at them. The connection is opened when it is needed, and anew where it broke."""

    def __init__(self, ledger: Ledger, connect: Callable[[], Any]) -> None:
        self._ledger = ledger
        self._connect = connect
        self._connection: Any = None
        self._is_created = False

    def read(self) -> dict[tuple[str, int], Entry]:
        """What stands in the ledger now."""
        with self._transaction() as runner:
            return self._ledger.read(runner)

    def claim(self, entry: Entry, *, find_start: Callable[[], int]) -> Entry:
        """Take a partition. One that has no entry gets one, with where it shall begin."""
        # In a transaction of its own, so that an entry of another format version is refused before any row is locked.
        self.read()
        with self._transaction() as runner:
            found = self._ledger.claim(runner, entry)
        if found is not None:
            return found
        first = Entry(entry.topic, entry.topic_id, entry.partition, next_offset=find_start())
        try:
            with self._transaction() as runner:
                self._ledger.add(runner, first)
        except Exception:
            # Another process may have entered it in the same moment. If not, this says it again.
            if entry.key not in self.read():
                raise
        return self.claim(entry, find_start=find_start)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextmanager
    def _transaction(self) -> Iterator[Runner]:
        if self._connection is None:
            self._connection = self._connect()
        try:
            runner = Runner(self._connection)
            _expect_transactions(runner)
            self._create(runner)
            if runner.is_postgres:
                runner.change(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'")
            yield runner
            self._connection.commit()
        except BaseException:
            # Nobody knows the state of a connection that failed; the next use opens another.
            broken, self._connection = self._connection, None
            broken.close()
            raise

    def _create(self, runner: Runner) -> None:
        """Make the table, unless it is there: to make one may take a right that nobody needs afterwards."""
        if self._is_created or self._is_readable(runner):
            return
        try:
            self._ledger.create(runner)
            self._connection.commit()
        except Exception:
            # Another process may make it in the same moment; one of the two then fails, and both find it.
            self._connection.rollback()
            if not self._is_readable(runner):
                raise
        self._is_created = True

    def _is_readable(self, runner: Runner) -> bool:
        try:
            self._ledger.read(runner)
            self._connection.commit()
        except FormatVersionError:
            raise
        except Exception:  # noqa: BLE001 - drivers have errors of their own for a table that is missing
            self._connection.rollback()
            return False
        self._is_created = True
        return True


def _expect_transactions(runner: Runner) -> None:
    if runner.is_alone:
        raise UsageError(
            "connect gives a connection that commits each statement by itself",
            cause="a partition is claimed and read in one transaction",
            hint="open it without autocommit",
        )
