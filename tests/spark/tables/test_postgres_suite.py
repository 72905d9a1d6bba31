"""The cases of all technologies on a real PostgreSQL: ledger, plan, driver and tasks, without Spark."""

from __future__ import annotations

from pkgutil import resolve_name
from uuid import uuid4

import psycopg
import pytest

from seamark.context.context import DatabaseSettings
from seamark.context.reference import Secret
from seamark.tables.registry import find_technology
from tests.fakes.tables.spark_rows import FakeRows, run_fake_tasks
from tests.fakes.tables.table_suite import OWNER, LedgerSuite, TableSuite


@pytest.fixture
def dsn(stack):
    """A schema of one test's own, in which the table and the ledger are created."""
    schema, whole = f"suite_{uuid4().hex[:8]}", stack.postgres.dsn
    with psycopg.connect(whole) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    yield psycopg.conninfo.make_conninfo(whole, options=f"-csearch_path={schema}")
    with psycopg.connect(whole) as connection:
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


@pytest.fixture
def settings(dsn):
    return DatabaseSettings("shop", "jdbc:postgresql://db/shop", Secret(dsn))


class TestPostgresLedger(LedgerSuite):
    @pytest.fixture
    def store(self, settings):
        return find_technology("postgresql").open_store(settings)

    @pytest.fixture
    def ledger(self, store):
        return store.begin(OWNER)


class PostgresHarness:
    def __init__(self, settings, dsn):
        self.technology, self.settings, self._dsn = find_technology("postgresql"), settings, dsn

    def open_driver(self, definition):
        made = resolve_name(self.technology.driver)(definition, self.technology.open_access(self.settings))
        made.prepare(None)
        return made

    def land(self, driver, steps, ids):
        return driver.land(FakeRows(steps, ids), steps, number=0)

    def read_ids(self):
        with psycopg.connect(self._dsn) as connection:
            return [number for (number,) in connection.execute("SELECT id FROM orders ORDER BY id").fetchall()]


class TestPostgresTable(TableSuite):
    @pytest.fixture
    def harness(self, settings, dsn, monkeypatch):
        monkeypatch.setattr("seamark.pipelines.spark_postgres.run_tasks", run_fake_tasks)
        return PostgresHarness(settings, dsn)
