"""Who keeps a ledger in a database: to find all that read a topic, where nobody names them."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from seamark.tables.postgres.failures import build_connect_error, build_query_error
from seamark.tables.postgres.ledger import TABLE
from seamark.tables.postgres.session import build_patient_dsn

_FIND = "SELECT to_regclass(%s) IS NOT NULL"
_OWNERS = "SELECT DISTINCT owner FROM {} WHERE starts_with(owner, %s) ORDER BY owner"


def read_owners(dsn: str, name: str, *, prefix: str) -> tuple[str, ...]:
    """The owners whose names begin so; none where nobody has made a ledger. `name` is what errors call the database."""
    try:
        connection = psycopg.connect(build_patient_dsn(dsn), autocommit=True)
    except psycopg.Error as error:
        failure = build_connect_error(error, name)
    else:
        try:
            with connection:
                connection.read_only = True
                return _read(connection, prefix)
        except psycopg.Error as error:
            failure = build_query_error(error, name, what=TABLE)
    # Raised here, so that no traceback carries the driver's error with the DSN.
    raise failure


def _read(connection: psycopg.Connection[Any], prefix: str) -> tuple[str, ...]:
    ((is_there,),) = connection.execute(_FIND, [TABLE]).fetchall()
    if not is_there:
        return ()
    rows = connection.execute(sql.SQL(_OWNERS).format(sql.Identifier(TABLE)), [prefix]).fetchall()
    return tuple(owner for (owner,) in rows)
