"""What a landing may say, and what it may not."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pytest

from seamark.errors import UsageError
from seamark.tables.definition import (
    DeadLetters,
    Format,
    LandColumn,
    Landing,
    Mode,
    RecordPart,
)
from seamark.tables.delta.technology import find_lake_type

ORDERS = Landing(
    "orders",
    topic="orders",
    table="public.orders",
    columns=(LandColumn("id", "bigint"), LandColumn("at", "timestamptz", "value.placed.at")),
)


@pytest.mark.parametrize(
    ("source", "place", "path"),
    [
        ("", RecordPart.VALUE, ("id",)),
        ("value.a.b", RecordPart.VALUE, ("a", "b")),
        ("key", RecordPart.KEY, ()),
        ("key.id", RecordPart.KEY, ("id",)),
        ("kafka.offset", RecordPart.KAFKA, ("offset",)),
    ],
)
def test_source_of_a_column(source, place, path):
    column = LandColumn("id", "bigint", source)
    assert (column.place, column.path) == (place, path)


@pytest.mark.parametrize(
    "source", ["value", "value.", "value.a..b", "headers.x", "kafka", "kafka.key", "kafka.offset.x"]
)
def test_source_that_no_record_has_is_refused(source):
    with pytest.raises(UsageError, match="invalid source"):
        LandColumn("id", "bigint", source)


@pytest.mark.parametrize(
    "kind", ["bigint", "numeric(12, 2)", "timestamp with time zone", "timestamp(3) with time zone", "text[]", "uuid"]
)
def test_types_are_postgres_own(kind):
    assert LandColumn("id", kind).type == kind


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ("numeric (38, 10)", "numeric(38, 10)"),
        ("numeric(38,10)", "numeric(38, 10)"),
        ("numeric ( 38 , 10 )", "numeric(38, 10)"),
        ("decimal(38, 10)", "numeric(38, 10)"),
        ("dec (38)", "numeric(38)"),
        ("dec", "numeric"),
        ("decimal (3, 1) []", "numeric(3, 1)[]"),
        ("my_dec", "my_dec"),
        ("decimals", "decimals"),
        ("double  precision ", "double precision"),
        ("timestamp (3)with time zone", "timestamp(3) with time zone"),
        ("character varying (8)", "character varying(8)"),
    ],
)
def test_spellings_of_a_type_are_one(given, kind):
    column = LandColumn("id", given)
    assert column.type == kind
    assert LandColumn("id", kind) == column == LandColumn.from_dict(column.to_dict())


@pytest.mark.parametrize("kind", ["", "int; DROP TABLE x", "int) --", "Int", "int'", "numeric(a)"])
def test_type_that_would_run_as_sql_is_refused(kind):
    with pytest.raises(UsageError, match="invalid type"):
        LandColumn("id", kind)


@pytest.mark.parametrize("name", ["", "x" * 64, "a\0b", "seamark_offset"])
def test_names_that_can_not_be_are_refused(name):
    with pytest.raises(UsageError, match="invalid column name"):
        LandColumn(name, "int")


@pytest.mark.parametrize(
    ("given", "kind", "lake"),
    [
        ("array<int>", "array<int>", "array<int>"),
        (
            " struct<a: dec(5,2), b :array<struct<c:text>>>",
            "struct<a:numeric(5, 2),b:array<struct<c:text>>>",
            "struct<a:decimal(5,2),b:array<struct<c:string>>>",
        ),
        ("struct<userId:double precision>", "struct<userId:double precision>", "struct<userId:double>"),
    ],
)
def test_nested_types_of_a_lake(given, kind, lake):
    column = LandColumn("x", given)
    assert (column.type, find_lake_type(column)) == (kind, lake)
    with pytest.raises(UsageError, match="only in a lake"):
        replace(ORDERS, columns=(*ORDERS.columns, column))


@pytest.mark.parametrize(
    "kind",
    [
        "struct<>",
        "struct<a>",
        "struct<a:int",
        "struct<a:int>>",
        "struct<a:int,a:int>",
        "array<>",
        "array<int[]>",
        "array<int>; drop table x",
        "array<Int>",
        "struct<a b:int>",
        "array<" * 20 + "int" + ">" * 20,
    ],
)
def test_malformed_nested_type_is_refused(kind):
    with pytest.raises(UsageError, match="invalid type"):
        LandColumn("x", kind)


def test_nested_type_is_of_json_and_has_no_times():
    for source in ("key", "header.x", "kafka.offset"):
        with pytest.raises(UsageError, match="a struct or an array is a field of JSON"):
            LandColumn("x", "array<int>", source)
    with pytest.raises(UsageError, match="invalid type date within column x"):
        find_lake_type(LandColumn("x", "struct<a:date>"))


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (("at", "timestamp", "", "", "weeks"), "invalid value 'weeks' for epoch"),
        (("at", "bigint", "", "", "millis"), "can't have epoch"),
        (("at", "timestamp", "kafka.timestamp", "", "millis"), "can't have epoch"),
        (("at", "timestamp", "", "to_timestamp(x)", "millis"), "can't have epoch"),
    ],
)
def test_epoch_is_of_a_number_that_becomes_a_time(column, words):
    with pytest.raises(UsageError, match=words):
        LandColumn(*column)
    assert LandColumn("at", "date", epoch="days") == LandColumn.from_dict(
        LandColumn("at", "date", epoch="days").to_dict()
    )


def test_landing_survives_json():
    whole = replace(
        ORDERS,
        mode=Mode.UPSERT,
        key=("id",),
        format=Format.DEBEZIUM,
        schemas=True,
        dead_letters=DeadLetters("bad", "5%"),
    )
    assert Landing.from_dict(json.loads(json.dumps(whole.to_dict()))) == whole


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "a b"}, "invalid pipeline name"),
        ({"columns": ()}, "columns must have at least one column"),
        ({"columns": ORDERS.columns * 2}, "columns must have at least one column"),
        ({"mode": Mode.UPSERT}, "requires to.key"),
        ({"key": ("id",)}, "can't be used with mode: append"),
        ({"mode": Mode.UPSERT, "key": ("nr",)}, "nr, which is not a column"),
    ],
)
def test_contradictions_are_refused(change, words):
    with pytest.raises(UsageError, match=words):
        replace(ORDERS, **change)


def test_tombstone_says_what_to_delete_if_the_key_is_the_records():
    by_value = replace(ORDERS, mode=Mode.UPSERT, key=("id",))
    assert not by_value.is_key_in_key
    assert not ORDERS.is_key_in_key
    assert replace(by_value, columns=(LandColumn("id", "bigint", "key"),)).is_key_in_key


LAKE = replace(ORDERS, table="raw/orders", store="delta", date_from="at")


def test_snapshot_is_ordered_by_time_and_only_for_a_lake():
    snapshot = {"mode": Mode.SNAPSHOT, "key": ("id",), "expire_seconds": 60, "date_from": ""}
    found = replace(LAKE, **snapshot)
    assert (found.order, found.needs_binding, found.max_delete_share) == (("kafka.timestamp",), False, Fraction(1, 5))
    with pytest.raises(UsageError, match="mode: snapshot is supported only in a lake"):
        replace(ORDERS, **snapshot)
    with pytest.raises(UsageError, match="which is computed by sql"):
        replace(found, columns=(LandColumn("id", "bigint", sql="1 + 1"), *ORDERS.columns[1:]))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mode": Mode.UPSERT, "key": ("id",)}, "to.date can't be used with mode: upsert"),
        ({"mode": Mode.SNAPSHOT, "key": ("id",)}, "mode: snapshot requires to.expire_after"),
        ({"expire_seconds": 60}, "to.expire_after can't be used with mode: append"),
        ({"max_delete": "120%"}, "invalid value '120%' for to.max_delete"),
        ({"dead_letters": DeadLetters("bad")}, "dead_letter.table is not supported in a lake"),
        ({"table": "../orders"}, "invalid table name"),
        ({"table": "/orders"}, "invalid table name"),
        ({"date_from": "id"}, "invalid value id for to.date"),
        ({"date_from": "when"}, "invalid value when for to.date"),
        ({"columns": (*ORDERS.columns, LandColumn("event_date", "date"))}, "to.date creates it"),
        ({"columns": (*ORDERS.columns, LandColumn("host", "inet"))}, "invalid type inet"),
        ({"store": "postgresql"}, "to.date is supported only in a lake"),
    ],
)
def test_what_a_lake_can_not_have_is_refused(change, words):
    with pytest.raises(UsageError, match=words):
        replace(LAKE, **change)


def test_landing_in_a_lake_survives_json():
    assert Landing.from_dict(json.loads(json.dumps(LAKE.to_dict()))) == LAKE


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ("text", "string"),
        ("varchar(40)", "string"),
        ("jsonb", "string"),
        ("int8", "bigint"),
        ("double precision", "double"),
        ("timestamp with time zone", "timestamp"),
        ("numeric(12, 2)", "decimal(12,2)"),
        ("decimal(38)", "decimal(38,0)"),
    ],
)
def test_types_of_a_lake(given, kind):
    assert find_lake_type(LandColumn("x", given)) == kind


@pytest.mark.parametrize("given", ["numeric", "numeric(39)", "numeric(3, 4)", "bytea", "int[]"])
def test_types_that_delta_has_not_are_refused(given):
    with pytest.raises(UsageError, match="invalid type"):
        find_lake_type(LandColumn("x", given))
