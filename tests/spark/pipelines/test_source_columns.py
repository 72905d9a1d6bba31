"""Columns of the source with a real topic: read for the plan, pinned by `apply`, and written as the table has them."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import uuid4

import psycopg
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from seamark.errors import RefusedError
from seamark.spark.settings import SparkOptions
from seamark.tables.definition import DeadLetters, LandColumn
from seamark.tables.delta.table import LakeTable
from tests.spark.lake_stage import build_lake, compact_here, open_lake_stage
from tests.spark.land_fleet import open_land_fleet
from tests.spark.land_stage import encode, open_land_stage

CONNECT = "org.apache.kafka.connect.data."
AT, DAY = datetime(2026, 11, 16, 23, 30, 0, 123_000, tzinfo=UTC), date(2026, 11, 16)
BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
MILLIS, DAYS = 1_794_871_800_123, 20_773
FIELDS = [
    {"field": "id", "type": "int64", "optional": False},
    {"field": "name", "type": "string", "optional": True},
    {
        "field": "price",
        "type": "bytes",
        "name": CONNECT + "Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "12"},
    },
    {"field": "at", "type": "int64", "name": CONNECT + "Timestamp"},
    {"field": "day", "type": "int32", "name": CONNECT + "Date"},
]


class SourcedFleet:
    """One pipeline whose columns come from its source, to a lake or to a database."""

    def __init__(self, stack, kafka, folder, fleet, lake):
        self.stack, self.kafka, self.folder, self.fleet, self.lake = stack, kafka, folder, fleet, lake
        self.topic = kafka.topic(2)
        self.name = f"sourced_{uuid4().hex[:8]}"

    def produce(self, *values):
        producer = Producer({"bootstrap.servers": self.kafka.servers})
        for number, value in enumerate(values):
            producer.produce(self.topic, value=encode(value), partition=number % 2)
        assert producer.flush(60) == 0

    def plan(self, to, columns="source", **more):
        source = {"topic": self.topic, "schemas": columns == "source"}
        body = {"kind": "land", "from": source, "to": {**to, "table": self.name}, "columns": columns, **more}
        file = self.folder / "pipelines.yaml"
        file.write_text(json.dumps({"pipelines": {self.name: body}}))
        return self.fleet.plan(file)

    def run(self, spark):
        """Run what was applied."""
        (declared,) = self.fleet.pipelines.declared(names=[self.name])
        plan = self.fleet.pipelines.plan(declared)
        self.fleet.pipelines.run(plan, spark=SparkOptions(session=spark), is_endless=False)
        return plan.statements

    def read_lake(self):
        place = self.lake.below(self.name)
        table = DeltaTable(place.table_url, storage_options=place.build_options())
        return table.to_pyarrow_table().sort_by("id").to_pylist()

    def read_database(self, columns):
        with psycopg.connect(self.stack.postgres.dsn) as connection:
            return connection.execute(f"SELECT {columns} FROM {self.name} ORDER BY id").fetchall()


@pytest.fixture
def sourced(stack, kafka, tmp_path, monkeypatch):
    lake = build_lake(stack, "s3")
    with open_land_fleet(stack, tmp_path, monkeypatch, lake=lake) as opened:
        found = SourcedFleet(stack, kafka, tmp_path, opened, lake)
        yield found
    with psycopg.connect(stack.postgres.dsn) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {found.name}, {found.name}_source")


def build_value(fields, **row):
    return {"schema": {"type": "struct", "fields": fields}, "payload": row}


def test_table_follows_the_schema_of_the_topic(spark, sourced):
    to = {"database": "shop"}
    with pytest.raises(RefusedError, match="has a schema"):
        sourced.plan(to)
    row = {"name": "a", "price": 12.5, "at": MILLIS, "day": DAYS}
    sourced.produce(build_value(FIELDS, id=1, **row), build_value(FIELDS, id=2), None)
    planned = sourced.plan(to, on_error={"dead_letter": {"table": f"{sourced.name}_source"}})
    assert planned.effects[0].consequences == (
        "columns of the source: id bigint, name text, price numeric(12, 2), at timestamp, day date",
    )
    assert sourced.fleet.apply(planned).is_done
    # What comes between the plan and the run is in the next plan.
    more = [FIELDS[0], *FIELDS[2:], {"field": "rank", "type": "int16"}]
    sourced.produce(build_value(more, id=3, rank=7))
    (statement,) = sourced.run(spark)
    assert statement.startswith("CREATE TABLE")
    assert "rank" not in statement
    assert sourced.read_database("*") == [
        (1, "a", Decimal("12.50"), AT.replace(tzinfo=None), DAY),
        (2, None, None, None, None),
        (3, None, None, None, None),
    ]
    again = {"on_error": {"dead_letter": {"table": f"{sourced.name}_source"}}}
    with pytest.raises(RefusedError, match="schema is strict") as error:
        sourced.plan(to, schema="strict", **again)
    assert error.value.cause == "rank smallint"
    planned = sourced.plan(to, **again)
    assert [one.key for one in planned.effects[0].fields] == ["columns.rank"]
    assert "no longer has name" in planned.plan.notes[0]
    assert sourced.fleet.apply(planned).is_done
    sourced.produce(build_value(more, id=4, rank=8))
    assert sourced.run(spark) == (f'ALTER TABLE "{sourced.name}" ADD COLUMN "rank" smallint',)
    assert sourced.read_database("id, name, rank")[-1] == (4, None, 8)


def test_table_of_a_lake_has_the_columns_of_the_table_behind_the_connector(spark, sourced):
    behind = f"{sourced.name}_source"
    with psycopg.connect(sourced.stack.postgres.dsn) as connection:
        columns = "id bigint, name varchar(9), price numeric(9,2), at timestamp, day date, tags text[]"
        connection.execute(f"CREATE TABLE {behind} ({columns})")
    source = {"source": {"database": "shop", "table": f"public.{behind}"}, "landed": {"type": "int", "sql": "id + 1"}}
    assert sourced.fleet.apply(sourced.plan({"lake": "lake"}, source)).is_done
    sourced.produce({"id": 1, "name": "a", "price": 1.25, "at": MILLIS, "day": DAYS, "tags": ["x"]})
    sourced.run(spark)
    (row,) = sourced.read_lake()
    found = {name: value for name, value in row.items() if not name.startswith("_")}
    assert found == {
        "id": 1,
        "name": "a",
        "price": Decimal("1.25"),
        "at": AT,
        "day": DAY,
        "tags": '["x"]',
        "landed": 2,
    }


UNITS = {
    "days": [(DAYS, DAY), (-719_162, date.min), (2_932_896, date.max), (2_932_897, None), ("2026-11-16", DAY)],
    "millis": [(MILLIS, AT), (-1, BEGIN - timedelta(milliseconds=1)), (MILLIS * 1000, None), ("noon", None)],
    "micros": [(MILLIS * 1000 + 7, AT.replace(microsecond=123_007)), (0, BEGIN), (2**62, None)],
    "nanos": [(MILLIS * 10**6 + 7001, AT.replace(microsecond=123_007)), (1.5, None)],
}


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize("unit", UNITS)
def test_numbers_since_1970_are_dates_and_times_of_utc(spark, stack, kafka, unit, zone):
    kind = "date" if unit == "days" else "timestamptz"
    columns = (LandColumn("id", "int"), LandColumn("at", kind, epoch=unit))
    values = [{"id": number, "at": value} for number, (value, _) in enumerate(UNITS[unit])]
    wanted = {number: value for number, (_, value) in enumerate(UNITS[unit]) if value is not None}
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    with open_land_stage(stack, kafka, partitions=1, table=f"id int, at {kind}") as stage:
        stage.produce(values)
        stage.run(session, stage.build(columns, dead_letters=stage.letters))
        assert dict(stage.read("SELECT id, at FROM {table}")) == wanted
    with open_lake_stage(stack, kafka, partitions=1) as stage:
        stage.produce(values)
        stage.run(session, stage.build(columns, dead_letters=DeadLetters()))
        rows = stage.table().to_pyarrow_table().to_pylist()
        found = {row["id"]: row["at"] for row in rows if row["id"] is not None}
        assert found == wanted


NESTED = [
    FIELDS[0],
    {
        "field": "address",
        "type": "struct",
        "fields": [
            {"field": "street", "type": "string"},
            {"field": "floors", "type": "array", "items": {"type": "int16"}},
            {"field": "rate", "type": "float"},
        ],
    },
    {"field": "items", "type": "array", "items": {"type": "struct", "fields": [FIELDS[0], FIELDS[2]]}},
    {"field": "tags", "type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}},
]


def test_nested_values_are_structs_and_arrays_of_a_lake(spark, sourced):
    address = {"street": "s", "floors": [1, None], "rate": 0.5}
    whole = {"address": address, "items": [{"id": 1, "price": 1.25}, {"id": 2}], "tags": {"a": 1}}
    sourced.produce(build_value(NESTED, id=1, **whole), build_value(NESTED, id=2))
    planned = sourced.plan({"lake": "lake"}, on_error={"dead_letter": {}})
    assert sourced.fleet.apply(planned).is_done
    (statement,) = sourced.run(spark)
    assert "address struct, items array, tags string" in statement
    # The table that a second run finds is the one that the first has created.
    sourced.produce(
        build_value(NESTED, id=3, address={"street": None, "more": 1}),
        build_value(NESTED, id=4, address={"floors": ["x"]}),
        build_value(NESTED, id=5, items=7),
        json.dumps(build_value(NESTED, id=6, address={"street": "?"})).encode().replace(b"?", b"\xff"),
    )
    assert sourced.run(spark) == ()
    rows = {row["id"]: row for row in sourced.read_lake() if row["id"] is not None}
    assert sorted(rows) == [1, 2, 3]
    assert rows[1]["address"] == address
    assert rows[1]["items"] == [{"id": 1, "price": Decimal("1.25")}, {"id": 2, "price": None}]
    assert json.loads(rows[1]["tags"]) == {"a": 1}
    assert (rows[2]["address"], rows[2]["items"]) == (None, None)
    assert rows[3]["address"] == {"street": None, "floors": None, "rate": None}
    assert sum(row["seamark_dead_letter"] is not None for row in sourced.read_lake()) == 3
    (declared,) = sourced.fleet.pipelines.declared(names=[sourced.name])
    compact_here(LakeTable(sourced.lake.below(declared.landing.table), owner=declared.landing.owner))
    assert len(sourced.read_lake()) == 6


def test_spark_reads_structs_and_arrays(spark, stack, kafka):
    kinds = {"address": "struct<street:text,rate:real,sum:decimal(9, 2)>", "items": "array<struct<id:long>>"}
    columns = (LandColumn("id", "int"), *(LandColumn(name, kind) for name, kind in kinds.items()))
    with open_lake_stage(stack, kafka, partitions=1) as stage:
        address = {"street": "s", "rate": 0.5, "sum": 1.25}
        stage.produce([{"id": number, "address": address, "items": [{"id": number}]} for number in range(9)])
        stage.run(spark, stage.build((*columns, LandColumn("count", "int", sql="size(items)"))))
        frame = spark.newSession().read.format("delta").load(stage.lake.below("raw/events").table_url)
        assert dict(frame.dtypes)["address"] == "struct<street:string,rate:float,sum:decimal(9,2)>"
        found = frame.where("items[0].id = 3").select("address.street", "address.sum", "count").collect()
        assert [tuple(row) for row in found] == [("s", Decimal("1.25"), 1)]
