"""A database that can't be had: the error says what to do, and never holds the DSN."""

from __future__ import annotations

import subprocess
import sys
import traceback

import psycopg
import pytest

from seamark.core.offsets import Certainty, Distance, Fixed, LogRange, Mark, TableRows, Unit
from seamark.errors import (
    AuthenticationError,
    AuthorizationError,
    ConfigurationError,
    NotFoundError,
    RejectedError,
    SeamarkError,
    UnreachableError,
)
from seamark.offsets.read.lag import measure_behind
from seamark.tables import Database
from seamark.tables.postgres.connection import build_connect_error, build_query_error

ROWS = Distance(Unit.ROWS, TableRows(("t",), number_column="id", after=Mark(1)))


def fail(dsn):
    with Database(dsn, name="game") as database, pytest.raises(SeamarkError) as caught:
        database.count(ROWS)
    text = "".join(traceback.format_exception(caught.value)) + str(caught.value.as_dict()) + repr(database)
    assert "canary" not in text
    return caught.value


def test_nobody_there_is_unreachable():
    error = fail("host=127.0.0.1 port=1 dbname=x user=u password=canary")
    assert isinstance(error, UnreachableError)
    assert "game" in error.message
    assert error.hint


@pytest.mark.parametrize("dsn", ["canary", "postgresql://u:canary@[::1", "host=x canary=canary"])
def test_a_dsn_that_can_not_be_read_is_not_shown(dsn):
    assert isinstance(fail(dsn), ConfigurationError)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('FATAL:  password authentication failed for user "u"', AuthenticationError),
        ('FATAL:  no pg_hba.conf entry for host "h"', AuthenticationError),
        ('FATAL:  database "d" does not exist', NotFoundError),
        ("connection refused", UnreachableError),
    ],
)
def test_a_refused_connection_has_its_error(text, kind):
    assert type(build_connect_error(psycopg.OperationalError(text), "game")) is kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (psycopg.errors.InsufficientPrivilege("no"), AuthorizationError),
        (psycopg.errors.UndefinedTable("no"), NotFoundError),
        (psycopg.errors.UndefinedColumn("no"), NotFoundError),
        (psycopg.errors.AdminShutdown("no"), UnreachableError),
        (psycopg.OperationalError("gone"), UnreachableError),
        (psycopg.errors.DatatypeMismatch("no"), RejectedError),
    ],
)
def test_a_failed_query_has_its_error(error, kind):
    assert type(build_query_error(error, "game", what="public.t")) is kind


def test_what_needs_no_database_asks_none():
    database = Database("canary")
    assert measure_behind(Distance(Unit.ROWS, Fixed(4), Certainty.BOUND), database).figure == 4
    assert measure_behind(Distance(Unit.ROWS, None, reason="why"), database).reason == "why"
    elsewhere = measure_behind(Distance(Unit.RECORDS, LogRange("t", 0, 4, None)), database)
    assert (elsewhere.figure, elsewhere.certainty) == (None, Certainty.UNKNOWN)


def test_without_the_driver_the_hint_names_the_extra():
    program = """
import sys
sys.modules["psycopg"] = None
from seamark.errors import ConfigurationError
import seamark.offsets.semantics
try:
    from seamark.tables import Database
except ConfigurationError as error:
    print(error.hint)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "run pip install '.[postgres]' in a checkout of seamark\n", done.stderr
