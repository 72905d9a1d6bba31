"""One COPY in one transaction, with a statement before it and after it. No Spark: its tasks call it."""

from __future__ import annotations

from collections.abc import Iterable

import psycopg


def copy_rows(dsn: str, statement: str, rows: Iterable[bytes], *, before: str = "", after: str = "") -> None:
    """Write rows, each of them text as the COPY statement reads it, and commit."""
    with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
        if before:
            cursor.execute(before.encode())
        with cursor.copy(statement.encode()) as out:
            for text in rows:
                out.write(text)
        if after:
            cursor.execute(after.encode())
