"""The cases of all technologies on Delta, in a folder: ledger, plan, driver and tasks, without Spark."""

from __future__ import annotations

from pkgutil import resolve_name

import pytest

from seamark.context.context import LakeSettings
from seamark.tables.definition import LandColumn, Landing
from seamark.tables.delta.files import make_fit
from seamark.tables.delta.maintenance import enter_landing
from seamark.tables.delta.technology import open_lake, open_lake_table
from seamark.tables.registry import find_technology
from tests.fakes.tables.spark_rows import FakeRows, run_fake_tasks
from tests.fakes.tables.table_suite import OWNER, LedgerSuite, TableSuite

DEFINITION = Landing("orders", topic="orders", table="orders", columns=(LandColumn("id", "bigint"),), store="delta")


@pytest.fixture
def settings(tmp_path):
    return LakeSettings("lake", str(tmp_path))


class TestDeltaLedger(LedgerSuite):
    @pytest.fixture
    def store(self, settings):
        return find_technology("delta").open_store(settings)

    @pytest.fixture
    def ledger(self, store, settings):
        make_fit(open_lake_table(settings, DEFINITION), DEFINITION)
        enter_landing(open_lake(settings), OWNER, table="orders")
        return store.find(OWNER)


class DeltaHarness:
    def __init__(self, settings):
        self.technology, self.settings = find_technology("delta"), settings

    def open_driver(self, definition):
        made = resolve_name(self.technology.driver)(definition, self.technology.open_access(self.settings))
        made.prepare(None)
        return made

    def land(self, driver, steps, ids):
        return driver.land(FakeRows(steps, ids), steps, number=0)

    def read_ids(self):
        table = open_lake_table(self.settings, DEFINITION).refresh()
        return sorted(table.to_pyarrow_table().column("id").to_pylist())


class TestDeltaTable(TableSuite):
    @pytest.fixture
    def harness(self, settings, monkeypatch):
        monkeypatch.setattr("seamark.pipelines.spark_delta.run_tasks", run_fake_tasks)
        return DeltaHarness(settings)
