"""Columns of the source: read for a plan, pinned in the journal, and compared by later plans."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from seamark.core.files import FileLocation
from seamark.errors import FormatVersionError, JournalError, NotFoundError, RefusedError, SpecError
from seamark.kafka.model import RecordLocation, WholeRecord
from seamark.pipelines.actions import RegisterPipeline, build_body, read_body
from seamark.pipelines.declared import (
    ColumnSource,
    DesiredColumn,
    DesiredLanding,
    TargetRef,
    build_declared,
    check_landings,
)
from seamark.pipelines.service import Pipelines
from seamark.pipelines.source_columns import (
    SourceReader,
    build_table_columns,
    find_new_fields,
    is_widened,
    merge_columns,
    parse_sample,
    resolve_columns,
)
from seamark.specs.model import Spec
from seamark.tables.model import parse_type
from seamark.tables.postgres.technology import PostgresTechnology
from tests.unit.changes.brokers import FakeBrokers
from tests.unit.fleet.living import LivingConnect, open_living_fleet
from tests.unit.pipelines.test_landings import CONTEXT, LOCKED_SHOP, show

SOURCED = DesiredLanding(
    "orders",
    FileLocation("pipelines.yaml", 3),
    topic="orders",
    table="orders",
    columns=(),
    target=TargetRef("database", "shop"),
    schemas=True,
    column_source=ColumnSource(),
)
CONNECT = "org.apache.kafka.connect.data."


def field(name, kind, logical="", **parameters):
    found = {"field": name, "type": kind, "optional": True}
    found |= {"name": logical, "version": 1} if logical else {}
    return found | ({"parameters": parameters} if parameters else {})


def pin(name, kind, **more):
    return DesiredColumn(name, kind, from_source=True, **more)


def build_value(fields, row):
    return {"schema": {"type": "struct", "fields": fields}, "payload": row}


class Records:
    """The records of a topic, and a reader of them."""

    def __init__(self, *values, partitions=1):
        self.values = [None if one is None else json.dumps(one).encode() for one in values]
        self.partitions = partitions
        self.starts = []

    def __call__(self, *_, **__):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def read(self, spot, start):
        self.starts.append((spot, start))
        for offset, value in enumerate(self.values):
            if offset % self.partitions == spot[1] and offset >= start:
                yield WholeRecord(RecordLocation(*spot, offset), 1000 + offset, None, value)


def open_reader(records, *, topic="orders"):
    brokers = FakeBrokers()
    brokers.add_topic(topic, records=len(records.values), partitions=records.partitions)
    return SourceReader(CONTEXT, kafka=lambda: brokers, open_records=records)


def read(desired, *values, **more):
    return open_reader(Records(*values, **more)).read(desired)


def test_each_type_of_connect_has_a_column():
    fields = [
        field("a", "int8"),
        field("b", "int16"),
        field("c", "int32"),
        field("d", "int64"),
        field("e", "float"),
        field("f", "double"),
        field("g", "boolean"),
        field("h", "string"),
        field("i", "bytes"),
        field("j", "bytes", CONNECT + "Decimal", scale="2", **{"connect.decimal.precision": "10"}),
        field("k", "bytes", CONNECT + "Decimal", scale="3"),
        field("l", "bytes", CONNECT + "Decimal", scale="127"),
        field("m", "int64", CONNECT + "Timestamp"),
        field("n", "int32", CONNECT + "Date"),
        field("o", "int32", CONNECT + "Time"),
        field("p", "int64", "io.debezium.time.MicroTimestamp"),
        field("q", "string", "io.debezium.time.ZonedTimestamp"),
        {"field": "r", "type": "struct", "fields": [field("x", "int32")]},
        {"field": "s", "type": "array", "items": {"type": "string"}},
        {"field": "t", "type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}},
    ]
    assert read(SOURCED, build_value(fields, {"j": 12.5})) == (
        pin("a", "smallint"),
        pin("b", "smallint"),
        pin("c", "int"),
        pin("d", "bigint"),
        pin("e", "real"),
        pin("f", "double precision"),
        pin("g", "boolean"),
        pin("h", "text"),
        pin("i", "text"),
        pin("j", "numeric(10, 2)"),
        pin("k", "numeric(38, 3)"),
        pin("l", "numeric(38, 18)"),
        pin("m", "timestamp", epoch="millis"),
        pin("n", "date", epoch="days"),
        pin("o", "bigint"),
        pin("p", "timestamp", epoch="micros"),
        pin("q", "timestamptz"),
        pin("r", "jsonb"),
        pin("s", "jsonb"),
        pin("t", "jsonb"),
    )


def struct(name, *fields):
    return {"field": name, "type": "struct", "fields": list(fields)}


def array(name, items):
    return {"field": name, "type": "array", "items": items}


LAKE = replace(SOURCED, target=TargetRef("lake", "lake"))


def test_nested_values_are_structs_and_arrays_in_a_lake():
    fields = [
        struct("address", field("street", "string"), array("floors", {"type": "int16"}), struct("empty")),
        array("items", struct("", field("price", "bytes", CONNECT + "Decimal", scale="2"), field("rate", "float"))),
        array("times", field("", "int64", CONNECT + "Timestamp")),
        struct("odd", field("first name", "string")),
        {"field": "tags", "type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}},
    ]
    assert read(LAKE, build_value(fields, {"items": [{"price": 1.5}]})) == (
        pin("address", "struct<street:text,floors:array<smallint>,empty:text>"),
        pin("items", "array<struct<price:numeric(38, 2),rate:real>>"),
        pin("times", "array<bigint>"),
        # A field that a type can't name.
        pin("odd", "jsonb"),
        pin("tags", "jsonb"),
    )
    with pytest.raises(RefusedError, match="in base64") as error:
        read(LAKE, build_value(fields, {"items": [{"price": "AAE="}]}))
    assert error.value.cause == "columns with decimals: items"
    # As JSON they are stored as they are.
    assert read(SOURCED, build_value(fields, {"items": [{"price": "AAE="}]}))[1] == pin("items", "jsonb")


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("struct<a:int>", "struct<a:int,b:text>", ["b"]),
        ("array<struct<a:struct<b:int>>>", "array<struct<a:struct<c:int,b:int>>>", ["a.c"]),
        ("struct<a:int,b:text>", "struct<a:int>", []),
        ("struct<a:int>", "struct<a:bigint>", None),
        ("struct<a:int>", "array<int>", None),
        ("array<int>", "array<text>", None),
    ],
)
def test_new_fields_of_structs_are_told_and_not_written(before, after, found):
    assert find_new_fields(parse_type(before), parse_type(after)) == found
    pinned, now = (pin("x", before),), (pin("x", after),)
    if found is None:
        with pytest.raises(RefusedError, match="has other types"):
            merge_columns(LAKE, pinned, now)
        return
    merged = merge_columns(LAKE, pinned, now)
    assert merged.columns == pinned
    assert [f"x.{path}" in merged.notes[0] for path in found] == [True] * len(found)
    if found:
        with pytest.raises(RefusedError, match="schema is strict"):
            merge_columns(replace(LAKE, schema="strict"), pinned, now)


PRICE = [field("id", "int64"), field("price", "bytes", CONNECT + "Decimal", scale="2")]


@pytest.mark.parametrize("value", [0, 12.5, -3, "12.50", "12345"])
def test_decimal_that_is_a_number_is_numeric(value):
    assert read(SOURCED, build_value(PRICE, {"price": value}))[1] == pin("price", "numeric(38, 2)")


@pytest.mark.parametrize(("value", "words"), [("BOI=", "in base64"), ("1234", "in base64"), (None, "determined")])
def test_decimal_in_base64_is_refused_with_the_setting_of_the_connector(value, words):
    values = [build_value(PRICE, {"id": 1, "price": value})]
    with pytest.raises(RefusedError, match=words) as error:
        read(SOURCED, *values)
    assert "columns with decimals: price" in error.value.cause
    assert "value.converter.decimal.format=NUMERIC" in error.value.hint
    # A column that the file declares is not read from the source.
    declared = replace(SOURCED, columns=(DesiredColumn("price", "text"),))
    assert read(declared, *values) == (pin("id", "bigint"),)


def test_newest_record_with_a_schema_counts_and_the_look_is_bounded():
    old, new = build_value([field("a", "int32")], {"a": 1}), build_value([field("b", "int32")], {"b": 1})
    plain = {"a": 1}
    assert read(SOURCED, old, new, plain, None, partitions=3) == (pin("b", "int"),)
    assert read(SOURCED, plain, None) is None
    records = Records(old, *[None] * 100)
    assert open_reader(records).read(SOURCED) is None
    assert records.starts == [(("orders", 0), 81)]


def test_columns_of_a_debezium_change_are_those_of_after():
    row = {"field": "after", "type": "struct", "fields": [field("id", "int64")]}
    changes = build_value([field("op", "string"), row], {"op": "c", "after": {"id": 1}})
    assert read(replace(SOURCED, format="debezium"), changes) == (pin("id", "bigint"),)
    record = WholeRecord(RecordLocation("orders", 0, 0), 0, None, b"{")
    assert parse_sample(record, SOURCED) is None


def test_topic_that_is_missing_is_named_with_the_place_in_the_file():
    reader = SourceReader(CONTEXT, kafka=FakeBrokers, open_records=Records())
    with pytest.raises(NotFoundError) as error:
        reader.read(SOURCED)
    assert "pipelines.yaml:3" in error.value.hint


TYPES = {
    "id": "bigint",
    "name": "character varying(20)",
    "price": "numeric(12,2)",
    "rate": "numeric",
    "day": "date",
    "at": "timestamp without time zone",
    "seen": "timestamp(3) without time zone",
    "sent": "timestamp with time zone",
    "tags": "text[]",
    "doc": "json",
    "host": "inet",
    "small": "integer",
}


def test_types_of_a_table_are_those_that_its_connector_writes(monkeypatch):
    found = {one.name: (one.type, one.epoch) for one in build_table_columns(TYPES, is_debezium=False)}
    assert found == {
        "id": ("bigint", ""),
        "name": ("text", ""),
        "price": ("numeric(12, 2)", ""),
        "rate": ("numeric(38, 18)", ""),
        "day": ("date", "days"),
        "at": ("timestamp", "millis"),
        "seen": ("timestamp", "millis"),
        "sent": ("timestamptz", "millis"),
        "tags": ("jsonb", ""),
        "doc": ("json", ""),
        "host": ("text", ""),
        "small": ("int", ""),
    }
    changes = {one.name: one.epoch for one in build_table_columns(TYPES, is_debezium=True)}
    assert (changes["at"], changes["seen"], changes["sent"]) == ("micros", "millis", "")
    asked = []
    monkeypatch.setattr(
        PostgresTechnology, "read_columns", lambda self, *given: asked.append(given) or {"id": "bigint"}
    )
    desired = replace(SOURCED, schemas=False, column_source=ColumnSource("shop", "public.orders"))
    reader = SourceReader(CONTEXT, kafka=lambda: pytest.fail("no record is needed"))
    assert reader.read(desired) == (pin("id", "bigint"),)
    assert asked == [(CONTEXT.databases["shop"], "public.orders")]


@pytest.mark.parametrize(
    ("before", "after", "is_wider"),
    [
        ("smallint", "int", True),
        ("smallint", "bigint", True),
        ("int", "bigint", True),
        ("real", "double precision", True),
        ("numeric(10, 2)", "numeric(12, 2)", True),
        ("bigint", "int", False),
        ("numeric(12, 2)", "numeric(10, 2)", False),
        ("numeric(10, 2)", "numeric(12, 3)", False),
        ("int", "text", False),
    ],
)
def test_wider_types(before, after, is_wider):
    assert is_widened(before, after) is is_wider


def test_new_column_is_added_and_one_that_is_gone_stays():
    pinned = (pin("id", "bigint"), pin("old", "text"))
    merged = merge_columns(SOURCED, pinned, (pin("new", "int"), pin("id", "bigint")))
    assert merged.columns == (pin("id", "bigint"), pin("old", "text"), pin("new", "int"))
    assert merged.notes == ("the Connect schema of records no longer has old; new rows have null there",)
    # How the source writes a time may change, as with another connector.
    merged = merge_columns(
        SOURCED, (pin("at", "timestamp", epoch="millis"),), (pin("at", "timestamp", epoch="micros"),)
    )
    assert merged.columns[0].epoch == "micros"


def test_new_column_is_refused_where_the_schema_is_strict():
    strict = replace(SOURCED, schema="strict")
    first = merge_columns(strict, (), (pin("id", "bigint"),))
    assert first.columns == (pin("id", "bigint"),)
    with pytest.raises(RefusedError, match="has new columns, and schema is strict") as error:
        merge_columns(strict, first.columns, (pin("id", "bigint"), pin("new", "int")))
    assert error.value.cause == "new int"
    assert "set schema: add at pipelines.yaml:3" in error.value.hint


@pytest.mark.parametrize(
    ("target", "after", "hint"),
    [
        (TargetRef("database", "shop"), "bigint", "run ALTER TABLE orders ALTER COLUMN id TYPE bigint"),
        (TargetRef("database", "shop"), "text", "keep the type: add id: int"),
        (TargetRef("lake", "lake"), "bigint", "write to another table"),
    ],
)
def test_changed_type_is_refused_with_the_next_step(target, after, hint):
    with pytest.raises(RefusedError, match="has other types than table orders") as error:
        merge_columns(replace(SOURCED, target=target), (pin("id", "int"),), (pin("id", after),))
    assert error.value.cause == f"id: int → {after}"
    assert hint in error.value.hint


def test_pinned_columns_are_those_of_the_same_table():
    body = build_body(merge_columns(SOURCED, (), (pin("id", "int"),)))
    assert read_body("orders", body).columns == (pin("id", "int"),)
    assert not read_body("orders", body).is_unresolved
    registered = {"orders": body}
    found = lambda _: (pin("id", "bigint"),)  # noqa: E731
    with pytest.raises(RefusedError, match="has other types"):
        resolve_columns([SOURCED], registered, read=found)
    (other,) = resolve_columns([replace(SOURCED, table="archive")], registered, read=found)
    assert other.columns == (pin("id", "bigint"),)
    # A column that the file declares is the file's.
    declared = replace(SOURCED, columns=(DesiredColumn("id", "text"),))
    (merged,) = resolve_columns([declared], registered, read=lambda _: ())
    assert (merged.columns, merged.notes) == ((DesiredColumn("id", "text"),), ())
    assert not merged.is_unresolved


def test_source_without_records_keeps_what_is_pinned():
    with pytest.raises(RefusedError, match="no record of topic orders has a schema"):
        resolve_columns([SOURCED], {}, read=lambda _: None)
    body = build_body(merge_columns(SOURCED, (), (pin("id", "int"),)))
    (kept,) = resolve_columns([SOURCED], {"orders": body}, read=lambda _: None)
    assert kept.columns == (pin("id", "int"),)
    assert "the registered columns are kept" in kept.notes[0]


def test_all_pipelines_that_fail_are_named():
    other = replace(SOURCED, name="players", topic="players")
    with pytest.raises(RefusedError, match="2 pipelines can't take columns") as error:
        resolve_columns([SOURCED, other], {}, read=lambda _: None)
    assert "topic orders" in error.value.cause
    assert "topic players" in error.value.cause


def test_pipeline_is_checked_without_its_source():
    names = {"mode": "upsert", "key": ("id",), "order": ("updated", "kafka.timestamp")}
    assert check_landings(CONTEXT, [SOURCED, replace(SOURCED, **names)]) == ("orders", "orders")
    lake = {"target": TargetRef("lake", "lake"), "date": "at", "where": "amount > 0"}
    assert check_landings(CONTEXT, [replace(SOURCED, **lake)]) == ("orders",)
    for change, words in (
        ({"where": "amount >"}, "where|sql"),
        ({"column_source": ColumnSource("store", "orders")}, "has no database store"),
        ({"schema": "loose"}, "invalid value 'loose' for schema"),
        ({"mode": "replace"}, "invalid value 'replace' for mode"),
    ):
        with pytest.raises(SpecError, match=words) as error:
            check_landings(CONTEXT, [replace(SOURCED, **change)])
        assert "pipelines.yaml:3" in error.value.cause
    with pytest.raises(RuntimeError, match="were not read"):
        build_declared(CONTEXT, SOURCED)


@pytest.fixture
def records(monkeypatch):
    found = Records(build_value([field("id", "int64"), field("name", "string")], {"id": 1}))
    monkeypatch.setattr("seamark.kafka.records.RecordReader", found)
    return found


@pytest.fixture
def fleet(tmp_path, records):
    brokers = FakeBrokers()
    brokers.add_topic("orders", records=5)
    with open_living_fleet(tmp_path, LivingConnect(), brokers=brokers) as opened:
        object.__setattr__(opened.context, "databases", {"shop": LOCKED_SHOP})
        yield opened


def spec(*landings):
    return Spec("shop", sections={"pipelines": landings})


def test_columns_are_pinned_by_apply_and_new_ones_are_a_change(fleet, records):
    planned = fleet.plan(spec(SOURCED))
    assert show(planned) == [("+", "pipeline/orders", "register: orders → orders")]
    assert planned.effects[0].consequences == ("columns of the source: id bigint, name text",)
    fleet.apply(planned)
    assert fleet.plan(spec(SOURCED)).is_empty
    changed = build_value([field("id", "int64"), field("at", "int64", CONNECT + "Timestamp")], {"id": 1})
    records.values = [json.dumps(changed).encode()]
    # A run without files uses what was applied.
    (declared,) = fleet.pipelines.declared()
    assert [one.name for one in declared.landing.columns] == ["id", "name"]
    planned = fleet.plan(spec(SOURCED))
    assert [(one.key, one.before, one.after) for one in planned.effects[0].fields] == [
        ("columns.at", None, "timestamp, epoch millis (from the source)")
    ]
    assert planned.plan.notes == (
        "pipeline orders: the Connect schema of records no longer has name; new rows have null there",
    )
    with pytest.raises(RefusedError, match="schema is strict"):
        fleet.plan(spec(replace(SOURCED, schema="strict")))
    fleet.apply(planned)
    (declared,) = fleet.pipelines.declared()
    assert [one.name for one in declared.landing.columns] == ["id", "name", "at"]
    assert fleet.check(spec(SOURCED)) == ()


def test_changes_of_columns_are_shown_one_by_one():
    before = build_body(replace(SOURCED, columns=(DesiredColumn("a", "int"), DesiredColumn("b", "int"))))

    def list_fields(*columns):
        after = build_body(replace(SOURCED, columns=columns))
        seen = SimpleNamespace(intent=SimpleNamespace(before=before, after=after))
        effect = RegisterPipeline("orders", after).build_effect(seen)
        return [(one.key, one.before, one.after) for one in effect.fields]

    assert list_fields(DesiredColumn("b", "int"), DesiredColumn("a", "int")) == [("columns", "a, b", "b, a")]
    assert list_fields(DesiredColumn("a", "int", "value.x")) == [
        ("columns.a", "int", "int, from value.x"),
        ("columns.b", "int", None),
    ]


def build_service(read_registered):
    return Pipelines(
        CONTEXT,
        kafka=FakeBrokers,
        load=lambda paths, _: [SOURCED],
        read_registered=read_registered,
        read_source=lambda _: (pin("id", "bigint"),),
    )


def test_run_with_files_reads_the_source_and_tells_where_the_journal_can_not_be_read(tmp_path):
    (declared,) = build_service(dict).declared([tmp_path])
    assert ([one.name for one in declared.landing.columns], declared.notes) == (["id"], ())

    def refuse(error):
        raise error

    (declared,) = build_service(lambda: refuse(JournalError("no journal"))).declared([tmp_path])
    assert declared.notes == ("not compared with the registered columns: no journal",)
    with pytest.raises(FormatVersionError):
        build_service(lambda: refuse(FormatVersionError("newer"))).declared([tmp_path])
