"""Savepoints of one transaction. There are never more than 64.

PostgreSQL keeps 64 subtransactions of a transaction in shared memory (PGPROC_MAX_CACHED_SUBXIDS). With more of them,
every snapshot of every session has to look transactions up in pg_subtrans, until the transaction ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

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
