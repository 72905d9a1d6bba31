"""What makes a table fit, as statements."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from seamark.errors import RefusedError
from seamark.tables.definition import DeadLetters, LandColumn, Landing, Mode
from seamark.tables.delta.technology import build_lake_layout, build_lake_statements
from seamark.tables.model import TableLayout
from seamark.tables.postgres.technology import build_statements

COLUMNS = (LandColumn("id", "bigint"), LandColumn('od"d', "numeric(12, 2)"))
LANDING = Landing("orders", topic="orders", table="shop.Orders", columns=COLUMNS)


def test_table_is_made_where_it_is_missing():
    assert build_statements(LANDING, None) == ('CREATE TABLE "shop"."Orders" ("id" bigint, "od""d" numeric(12, 2))',)
    keyed = replace(LANDING, mode=Mode.UPSERT, key=("id",))
    assert build_statements(keyed, None)[0].endswith(', PRIMARY KEY ("id"))')


def test_only_what_is_missing_is_added():
    assert build_statements(LANDING, ["id", "other"]) == (
        'ALTER TABLE "shop"."Orders" ADD COLUMN "od""d" numeric(12, 2)',
    )
    assert build_statements(LANDING, ["id", 'od"d']) == ()


LAKE = Landing(
    "orders",
    topic="orders",
    table="raw/orders",
    columns=(LandColumn("id", "bigint"), LandColumn("at", "timestamptz")),
    store="delta",
)


def test_table_of_a_lake_is_made_and_grows():
    parted = replace(LAKE, date_from="at", dead_letters=DeadLetters())
    assert build_lake_statements(parted, None) == (
        (
            "CREATE TABLE raw/orders (id bigint, at timestamp, seamark_dead_letter struct, event_date date) "
            "USING delta PARTITIONED BY (event_date)"
        ),
    )
    few = TableLayout({"id": "bigint"})
    assert build_lake_statements(LAKE, few) == ("ALTER TABLE raw/orders ADD COLUMN at timestamp",)
    for existing in (build_lake_layout(LAKE), build_lake_layout(replace(LAKE, dead_letters=DeadLetters()))):
        # A column that only the table has may stay.
        assert build_lake_statements(LAKE, existing) == ()


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        (
            {"columns": (LandColumn("id", "string"), LAKE.columns[1])},
            "column id is bigint, and the pipeline has string",
        ),
        ({"columns": (LandColumn("id", "int"), LAKE.columns[1])}, "column id is bigint, and the pipeline has int"),
        ({"date_from": ""}, "it is partitioned by event_date, and the pipeline has no to.date"),
    ],
)
def test_table_of_a_lake_with_other_types_or_parts_is_refused(changes, difference):
    parted = replace(LAKE, date_from="at")
    with pytest.raises(RefusedError, match=re.escape(f"does not match pipeline orders: {difference}")) as error:
        build_lake_statements(replace(parted, **changes), build_lake_layout(parted))
    assert "write the table again: seamark pipelines rebuild orders" in error.value.hint


def test_every_difference_of_a_lakes_table_is_told():
    found = TableLayout({"id": "bigint", "at": "timestamp_ntz", "day": "date"}, ("day",))
    with pytest.raises(
        RefusedError, match=r"column at is timestamp_ntz, .* timestamp; it is partitioned by day, .* no to\.date"
    ):
        build_lake_statements(LAKE, found)
    with pytest.raises(RefusedError, match=r"it is not partitioned, and the pipeline has a to\.date"):
        build_lake_statements(replace(LAKE, date_from="at"), build_lake_layout(LAKE))
