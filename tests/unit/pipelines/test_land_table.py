"""What makes a table fit, as statements."""

from __future__ import annotations

from dataclasses import replace

from seamark.pipelines.land_column import LandColumn
from seamark.pipelines.land_table import build_statements
from seamark.pipelines.landing import Landing, Mode

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
