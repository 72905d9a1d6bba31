"""What makes a table fit, as statements."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seamark.errors import RefusedError
from seamark.pipelines.land_column import LandColumn
from seamark.pipelines.land_table import build_lake_statements, build_statements
from seamark.pipelines.landing import Landing, Mode, OnError, Store

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
    store=Store.DELTA,
)


def test_table_of_a_lake_is_made_and_grows():
    parted = replace(LAKE, date_from="at", on_error=OnError.DEAD_LETTER)
    assert build_lake_statements(parted, None) == (
        (
            "CREATE TABLE raw/orders (id bigint, at timestamp, seamark_dead_letter struct, event_date date) "
            "USING delta PARTITIONED BY (event_date)"
        ),
    )
    assert build_lake_statements(LAKE, ["id"]) == ("ALTER TABLE raw/orders ADD COLUMN at timestamp",)
    assert build_lake_statements(LAKE, ["id", "at"]) == ()
    with pytest.raises(RefusedError, match="is not parted by event_date"):
        build_lake_statements(parted, ["id", "at"])
