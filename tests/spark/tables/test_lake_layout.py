"""A lake's table against what its landing would make: what does not fit is refused before a row is landed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seamark.errors import RefusedError
from seamark.pipelines.spark_delta import LakeTarget
from seamark.tables.definition import DeadLetters, LandColumn, Landing
from seamark.tables.delta.files import make_fit
from seamark.tables.delta.location import TableLocation
from seamark.tables.delta.table import LakeTable
from seamark.tables.delta.technology import build_lake_layout, build_lake_statements

WORDS = (
    *("string", "jsonb", "varchar(20)", "smallint", "int4", "bigint", "real", "double precision", "bool"),
    *("date", "timestamp", "timestamptz", "numeric(12, 2)", "decimal(38)"),
)
COLUMNS = tuple(LandColumn(f"c{number}", word) for number, word in enumerate(WORDS))
LANDING = Landing("orders", topic="orders", table="raw/orders", columns=COLUMNS, store="delta")
WHOLE = replace(LANDING, dead_letters=DeadLetters(), date_from=f"c{WORDS.index('timestamptz')}")


@pytest.fixture
def lake(tmp_path):
    return TableLocation(str(tmp_path))


@pytest.fixture
def table(lake):
    return LakeTable(lake.below(LANDING.table), owner=LANDING.owner)


@pytest.mark.parametrize("landing", [LANDING, WHOLE])
def test_table_is_read_as_it_was_made(table, landing):
    make_fit(table, landing)
    assert table.read_layout() == build_lake_layout(landing)
    assert build_lake_statements(landing, table.read_layout()) == ()


def test_table_with_more_columns_fits(lake, table):
    make_fit(table, replace(LANDING, dead_letters=DeadLetters()))
    make_fit(table, replace(LANDING, columns=COLUMNS[:2]))
    assert len(table.read_layout().columns) == len(COLUMNS) + 1


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"columns": (LandColumn("c0", "bigint"), *COLUMNS[1:])}, "column c0 is string, and the pipeline has bigint"),
        ({"date_from": "", "columns": COLUMNS[:1]}, "it is partitioned by event_date, and the pipeline has no to.date"),
    ],
)
def test_changed_landing_is_refused_and_nothing_is_added(lake, table, changes, difference):
    make_fit(table, WHOLE)
    before = table.read_layout()
    changed = replace(WHOLE, **changes)
    changed = replace(changed, columns=(*changed.columns, LandColumn("fresh", "int")))
    for refuse in (lambda: make_fit(table, changed), lambda: LakeTarget(changed, lake).prepare(None)):
        with pytest.raises(RefusedError, match=difference):
            refuse()
    assert table.read_layout() == before


def test_run_does_not_begin_where_a_column_is_missing(lake, table):
    make_fit(table, replace(LANDING, columns=COLUMNS[:1]))
    with pytest.raises(RefusedError, match="does not match pipeline orders") as error:
        LakeTarget(LANDING, lake).prepare(None)
    assert "ADD COLUMN c1" in error.value.cause
