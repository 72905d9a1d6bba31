"""The ledger on a real database, SQLite: offsets move from where they were seen, and by who has them."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import pytest
from sqlalchemy import create_engine

from seamark.errors import FencedError, UsageError
from seamark.tables.model import LedgerEntry
from seamark.tables.postgres.ledger import Ledger, Runner

FIRST = LedgerEntry("orders", "id", 0, next_offset=5)


@pytest.fixture
def runner():
    connection = sqlite3.connect(":memory:")
    runner = Runner(connection)
    Ledger("billing").create(runner)
    yield runner
    connection.close()


def test_entry_is_added_once_and_claimed(runner):
    ledger = Ledger("billing")
    assert ledger.claim(runner, FIRST) is None
    ledger.add(runner, FIRST)
    ledger.add(runner, replace(FIRST, next_offset=9))
    claimed = ledger.claim(runner, FIRST)
    assert claimed == replace(FIRST, epoch=claimed.epoch)
    assert ledger.claim(runner, FIRST) == replace(FIRST, epoch=claimed.epoch + 1)


def test_offset_moves_from_where_it_was_seen_and_by_its_holder(runner):
    ledger = Ledger("billing")
    ledger.add(runner, FIRST)
    old = ledger.claim(runner, FIRST)
    moved = ledger.move(runner, old, to=8)
    assert ledger.read(runner)[FIRST.key] == moved == replace(old, next_offset=8, moves=1)
    with pytest.raises(FencedError, match="orders-0 of billing is no longer at 5"):
        ledger.move(runner, old, to=9)
    new = ledger.claim(runner, FIRST)
    with pytest.raises(FencedError):
        ledger.move(runner, moved, to=9)
    ledger.move(runner, new, to=9)
    assert ledger.read(runner)[FIRST.key].next_offset == 9


def test_offset_that_was_changed_by_hand_is_noticed(runner):
    ledger = Ledger("billing")
    ledger.add(runner, FIRST)
    held = ledger.claim(runner, FIRST)
    # An UPDATE by a person changes neither the epoch nor the number of moves.
    assert runner.change(f"UPDATE {ledger.table} SET next_offset = {{to}}", to=2) == 1
    with pytest.raises(FencedError):
        ledger.move(runner, held, to=8)
    assert ledger.read(runner)[FIRST.key].next_offset == 2


def test_offset_that_was_moved_there_and_back_is_another(runner):
    ledger = Ledger("billing")
    ledger.add(runner, FIRST)
    old = ledger.claim(runner, FIRST)
    back = ledger.move(runner, ledger.move(runner, old, to=9), to=old.next_offset)
    assert back == replace(old, moves=2)
    with pytest.raises(FencedError):
        ledger.move(runner, old, to=7)


def test_entry_that_is_placed_is_nobodys(runner):
    ledger = Ledger("billing")
    ledger.place(runner, FIRST)
    holder = ledger.claim(runner, FIRST)
    ledger.place(runner, replace(FIRST, next_offset=2))
    assert ledger.read(runner)[FIRST.key].next_offset == 2
    with pytest.raises(FencedError):
        ledger.move(runner, holder, to=9)


def test_entry_that_is_made_anew_is_another(runner):
    ledger = Ledger("billing")
    ledger.add(runner, FIRST)
    holder = ledger.claim(runner, FIRST)
    ledger.remove(runner, FIRST)
    assert ledger.read(runner) == {}
    ledger.add(runner, FIRST)
    ledger.claim(runner, FIRST)
    with pytest.raises(FencedError):
        ledger.move(runner, holder, to=9)


def test_owners_topics_and_partitions_are_apart(runner):
    one, other = Ledger("billing"), Ledger("audit")
    others = [FIRST, replace(FIRST, partition=1), replace(FIRST, topic_id="made anew")]
    for entry in others:
        one.add(runner, entry)
    other.add(runner, replace(FIRST, next_offset=7))
    one.move(runner, one.claim(runner, FIRST), to=100)
    assert [one.read(runner)[entry.key].next_offset for entry in others] == [100, 5, 5]
    assert other.read(runner)[FIRST.key].next_offset == 7


@pytest.mark.parametrize(("owner", "table"), [("", "seamark_ledger"), ("x" * 201, "seamark_ledger"), ("a", "b; DROP")])
def test_names_that_can_not_be_are_refused(owner, table):
    with pytest.raises(UsageError):
        Ledger(owner, table=table)


class Cursor:
    rowcount = 1

    def __init__(self, connection):
        self.connection = connection

    def execute(self, text, values):
        self.connection.asked = (text, values)

    def fetchall(self):
        return [(1,)]

    def close(self):
        pass


class Connection:
    """A connection of a driver with some style of its own."""

    def __init__(self, **more):
        self.__dict__.update(more)

    def cursor(self):
        return Cursor(self)


@pytest.mark.parametrize(
    ("style", "text", "values"),
    [
        ("qmark", "UPDATE t SET a = ? WHERE b = ? AND a < ?", (1, "x", 1)),
        ("format", "UPDATE t SET a = %s WHERE b = %s AND a < %s", (1, "x", 1)),
        ("numeric", "UPDATE t SET a = :1 WHERE b = :2 AND a < :3", (1, "x", 1)),
        ("named", "UPDATE t SET a = :one WHERE b = :two AND a < :one", {"one": 1, "two": "x"}),
        ("pyformat", "UPDATE t SET a = %(one)s WHERE b = %(two)s AND a < %(one)s", {"one": 1, "two": "x"}),
    ],
)
def test_values_are_handed_over_as_the_driver_wants_them(monkeypatch, style, text, values):
    monkeypatch.setattr(__import__(__name__.partition(".")[0]), "paramstyle", style, raising=False)
    connection = Connection()
    assert Runner(connection).change("UPDATE t SET a = {one} WHERE b = {two} AND a < {one}", one=1, two="x") == 1
    assert connection.asked == (text, values)


def test_connection_of_no_known_driver_is_refused():
    with pytest.raises(UsageError, match="unsupported connection"):
        Runner(object())


def test_save_outside_of_a_transaction_is_refused(runner):
    runner.expect_transaction()
    alone = sqlite3.connect(":memory:", isolation_level=None)
    with pytest.raises(UsageError, match="outside of a transaction"):
        Runner(alone).expect_transaction()
    alone.execute("BEGIN")
    Runner(alone).expect_transaction()


def build_connection(module, **more):
    """A connection that looks like one of a driver that is not installed here."""
    return type("connection", (Connection,), {"__module__": f"{module}.extensions"})(**more)


@pytest.fixture
def psycopg2(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg2", SimpleNamespace(paramstyle="pyformat"))

    def build(*, autocommit, status):
        return build_connection("psycopg2", autocommit=autocommit, info=SimpleNamespace(transaction_status=status))

    return build


@pytest.mark.parametrize(("autocommit", "status", "is_alone"), [(True, 0, True), (True, 2, False), (False, 0, False)])
def test_save_outside_of_a_transaction_of_psycopg2_is_refused(psycopg2, autocommit, status, is_alone):
    runner = Runner(psycopg2(autocommit=autocommit, status=status))
    assert (runner.is_postgres, runner.is_alone) == (True, is_alone)


class ModernSqlite(sqlite3.Connection):
    """As Python 3.12 has it: -1 is as before."""

    autocommit = -1


@pytest.mark.parametrize(("autocommit", "is_alone"), [(True, True), (False, False), (-1, False)])
def test_save_outside_of_a_transaction_of_a_modern_sqlite_is_refused(autocommit, is_alone):
    with closing(sqlite3.connect(":memory:", factory=ModernSqlite)) as connection:
        connection.autocommit = autocommit
        assert Runner(connection).is_alone == is_alone
        connection.execute("BEGIN")
        assert not Runner(connection).is_alone


def build_alchemy(driver_connection, **options):
    """What SQLAlchemy's connection has: options, and the pool's connection with the driver's in it."""
    return Connection(
        dialect=SimpleNamespace(paramstyle="pyformat", name="postgresql"),
        exec_driver_sql=lambda text, values: None,
        get_execution_options=lambda: options,
        connection=SimpleNamespace(dbapi_connection=driver_connection),
    )


def test_save_outside_of_a_transaction_of_sqlalchemy_is_refused(psycopg2):
    together, alone = psycopg2(autocommit=False, status=0), psycopg2(autocommit=True, status=0)
    # By Connection.execution_options, whatever the driver is, and by create_engine, as the driver has it.
    assert Runner(build_alchemy(object(), isolation_level="AUTOCOMMIT")).is_alone
    assert Runner(build_alchemy(alone)).is_alone
    assert not Runner(build_alchemy(together, isolation_level="SERIALIZABLE")).is_alone
    assert not Runner(build_alchemy(None)).is_alone


def test_save_outside_of_a_transaction_of_a_real_sqlalchemy_is_refused():
    for engine in (
        create_engine("sqlite://", isolation_level="AUTOCOMMIT"),
        create_engine("sqlite://").execution_options(isolation_level="AUTOCOMMIT"),
    ):
        with engine.connect() as connection:
            assert Runner(connection).is_alone
    with create_engine("sqlite://").connect() as connection:
        assert not Runner(connection).is_alone


@pytest.mark.parametrize("spell", [tuple, list, lambda row: dict(enumerate(row)), sqlite3.Row])
def test_rows_are_understood_as_the_connection_makes_them(spell):
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.row_factory = spell if spell is sqlite3.Row else lambda _, row: spell(row)
        assert Runner(connection).read("SELECT {one}, {two}", one=1, two="x") == [(1, "x")]


@pytest.mark.parametrize("value", ["abcdef", 1])
def test_rows_that_are_no_rows_are_refused(value):
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.row_factory = lambda _, row: row[0]
        with pytest.raises(UsageError, match="unsupported row type"):
            Runner(connection).read("SELECT {value}", value=value)


def test_statements_go_through_sqlalchemy_as_they_are():
    """Its connection takes a statement in the style of its driver."""
    asked = []

    class Alchemy(Connection):
        def exec_driver_sql(self, text, values):
            asked.append((text, values))
            return Cursor(self)

    connection = Alchemy(dialect=SimpleNamespace(paramstyle="pyformat", name="postgresql"))
    runner = Runner(connection)
    assert runner.is_postgres
    assert runner.read("SELECT {one}", one=1) == [(1,)]
    assert asked == [("SELECT %(one)s", {"one": 1})]
