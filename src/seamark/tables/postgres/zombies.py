"""Sessions of a landing that hold a row of the ledger and do nothing any more.

A process that was stopped inside its transaction keeps its locks. PostgreSQL ends such a session by itself only where
it waits for the next statement; one that waits for more of a COPY it leaves alone for ever.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import Any

import psycopg

_SESSIONS = """
    SELECT a.pid, a.backend_start, a.xact_start, a.query_start, a.state, a.state_change, p.bytes_processed
    FROM pg_stat_activity a LEFT JOIN pg_stat_progress_copy p ON p.pid = a.pid
    WHERE a.application_name = %s AND a.datname = current_database() AND a.usename = current_user
    AND a.pid <> pg_backend_pid() AND a.xact_start IS NOT NULL AND a.wait_event = 'ClientRead'
"""
_END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s AND backend_start = %s"


def build_session_name(owner: str, topic_id: str, partition: int) -> str:
    """What the sessions that may hold one row of the ledger are called: PostgreSQL's names have 63 bytes at most."""
    digest = hashlib.sha256(f"{owner}\0{topic_id}\0{partition}".encode()).hexdigest()[:24]
    return f"seamark-land-{digest}"


class ZombieWatch:
    """Looks at the sessions of one name from time to time, and ends those in which nothing happens."""

    def __init__(self, name: str, *, patience_seconds: float) -> None:
        self._name = name
        self._patience_seconds = patience_seconds
        self._seen: Mapping[tuple[Any, ...], float] = {}

    def look(self, connection: psycopg.Connection[Any]) -> int:
        """End those that were just so the last times, for longer than the patience. Gives how many."""
        now = time.monotonic()
        # Within a transaction PostgreSQL shows what it showed the first time, until it is told to look again.
        connection.execute("SELECT pg_stat_clear_snapshot()")
        rows = connection.execute(_SESSIONS, [self._name]).fetchall()
        self._seen = {tuple(row): self._seen.get(tuple(row), now) for row in rows}
        dead = [row for row, since in self._seen.items() if now - since >= self._patience_seconds]
        for pid, began_at, *_ in dead:
            connection.execute(_END, [pid, began_at])
        return len(dead)
