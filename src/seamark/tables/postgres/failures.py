"""What PostgreSQL's answers mean, as our own errors. The DSN is a secret and is in none of them."""

from __future__ import annotations

import psycopg

from seamark.errors import (
    AuthenticationError,
    AuthorizationError,
    ConfigurationError,
    NotFoundError,
    RejectedError,
    SeamarkError,
    UnreachableError,
)

# Connections that break off, servers that start or stop, that are a standby during a failover, or are full.
_PASSING = ("08", "57P", "25006", "53300")


def build_connect_error(error: psycopg.Error, name: str) -> SeamarkError:
    """The error for a database that could not be opened."""
    context = {"database": name}
    if isinstance(error, psycopg.ProgrammingError):
        # libpq quotes the piece of the DSN that it could not read, which may be the password.
        return ConfigurationError(
            f"the DSN of database {name} can't be read",
            cause="libpq does not understand it",
            hint="write postgresql://user:password@host:port/database, or key=value pairs",
            context=context,
        )
    text = _first_line(error)
    if "authentication failed" in text or "no password supplied" in text or "no pg_hba.conf entry" in text:
        return AuthenticationError(
            f"database {name} does not let us in",
            cause=text,
            hint="look at user and password of its dsn",
            context=context,
        )
    if 'database "' in text and "does not exist" in text:
        return NotFoundError(f"database {name} is not there", cause=text, hint="look at its dsn", context=context)
    return UnreachableError(
        f"database {name} does not answer", cause=text, hint="look at host and port of its dsn", context=context
    )


def build_query_error(error: psycopg.Error, name: str, *, what: str) -> SeamarkError:
    """The error for a query that failed."""
    context = {"database": name, "table": what}
    text = _first_line(error)
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return AuthorizationError(
            f"{what} can't be read in database {name}", cause=text, hint=f"GRANT SELECT ON {what}", context=context
        )
    if isinstance(
        error, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedColumn | psycopg.errors.InvalidSchemaName
    ):
        return NotFoundError(
            f"{what} is not in database {name}",
            cause=text,
            hint="does the DSN lead to the database that the connector reads?",
            context=context,
        )
    if error.sqlstate is None or error.sqlstate.startswith(("08", "57P")):
        return UnreachableError(
            f"database {name} broke the connection off", cause=text, hint="try again", context=context
        )
    return RejectedError(f"{what} could not be counted in database {name}", cause=text, context=context)


def build_landing_error(error: psycopg.Error, table: str) -> SeamarkError:
    """The error for rows that could not be landed."""
    context, text = {"table": table}, _first_line(error)
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return AuthorizationError(
            f"rows can't be landed in {table}",
            cause=text,
            hint=f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table}, and on the ledger",
            context=context,
        )
    if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedColumn):
        return NotFoundError(
            f"{table} is not as the landing wants it",
            cause=text,
            hint="make the table, or mend its columns",
            context=context,
        )
    if error.sqlstate is None or error.sqlstate.startswith(_PASSING):
        return UnreachableError(
            f"the database of {table} broke the connection off",
            cause=text,
            hint="nothing is half landed: try again",
            context=context,
        )
    return RejectedError(f"rows can't be landed in {table}", cause=text, context=context)


def build_staging_error(error: psycopg.Error, table: str, *, database: str) -> SeamarkError:
    """The error for rows that need a stage, where the role can't create temporary tables."""
    return AuthorizationError(
        f"rows can't be landed in {table}",
        cause=_first_line(error),
        hint=f"mode: upsert and dead letters need temporary tables: GRANT TEMPORARY ON DATABASE {database}",
        context={"table": table},
    )


def _first_line(error: psycopg.Error) -> str:
    return (error.diag.message_primary or str(error)).strip().partition("\n")[0]
