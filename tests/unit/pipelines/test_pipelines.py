"""The section pipelines of a spec file."""

from __future__ import annotations

import textwrap

import pytest

from seamark.errors import SpecError
from seamark.pipelines.declared import ColumnSource, DesiredColumn, DesiredDeadLetters, TargetRef
from seamark.specs import load_spec

WHOLE = """
    pipelines:
      orders:
        kind: land
        from: {topic: "${{ env.STAGE }}-orders", format: debezium, schemas: true, start: latest}
        to: {database: shop, table: public.orders, mode: upsert, key: [id, shop]}
        columns:
          id: bigint
          amount: {type: "numeric(12, 2)", from: value.price.amount}
        on_error: {dead_letter: {table: bad, max: 5%}}
        every: 10s
        limits: {records: 5000}
"""
LEAST = """
    pipelines:
      orders:
        kind: land
        from: {topic: orders}
        to: {database: shop, table: orders}
        columns: {id: bigint}
"""


@pytest.fixture
def load(tmp_path):
    def read(text, **environ):
        file = tmp_path / "pipelines.yaml"
        file.write_text(textwrap.dedent(text), encoding="utf-8")
        return load_spec([file], environ=environ)

    return read


def test_every_word_of_a_landing_is_read(load):
    (landing,) = load(WHOLE, STAGE="test").find("pipelines")
    assert (landing.name, landing.topic, landing.target.name, landing.table) == (
        "orders",
        "test-orders",
        "shop",
        "public.orders",
    )
    assert (landing.mode, landing.key, landing.format, landing.schemas) == ("upsert", ("id", "shop"), "debezium", True)
    assert landing.columns == (
        DesiredColumn("id", "bigint"),
        DesiredColumn("amount", "numeric(12, 2)", "value.price.amount"),
    )
    assert (landing.start, landing.dead_letters) == ("latest", DesiredDeadLetters("bad", "5%"))
    assert (landing.every, landing.records) == (10.0, 5000)
    assert str(landing.place).endswith("pipelines.yaml:3:3")


def test_what_is_not_said_has_its_default(load):
    (landing,) = load(LEAST).find("pipelines")
    assert (landing.mode, landing.key, landing.format, landing.schemas) == ("append", (), "json", False)
    assert (landing.start, landing.dead_letters, landing.every, landing.records) == ("earliest", None, None, None)
    assert load("connectors: []").find("pipelines") == ()
    assert load("pipelines:").find("pipelines") == ()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("kind: land", "kind: fly", "invalid value 'fly' for kind"),
        ("kind: land", "kin: land", "a pipeline has no key kin"),
        ("        kind: land\n", "", "kind is missing"),
        ("{topic: orders}", "{topik: orders}", "from has no key topik"),
        ("{topic: orders}", "{}", "topic is missing"),
        ("{topic: orders}", "orders", "from must be a map"),
        ("{topic: orders}", "{topic: orders, schemas: perhaps}", "schemas must be true or false"),
        ("        to: {database: shop, table: orders}\n", "", "to is missing"),
        ("table: orders}", "table: orders, key: id}", "key must be a list"),
        ("{database: shop, table: orders}", "{table: orders}", "database is missing"),
        ("{database: shop, table", "{database: shop, lake: sea, table", "database and lake can't both be set"),
        ("columns: {id: bigint}", "columns: {id: {}}", "type is missing"),
        ("columns: {id: bigint}", "columns: {id: {type: int, form: key}}", "a column has no key form"),
        ("        columns: {id: bigint}\n", "", "columns is missing"),
        ("columns: {id: bigint}", "columns: sauce", "invalid value 'sauce' for columns"),
        ("columns: {id: bigint}", "columns: source", "columns: source requires from.schemas: true"),
        ("columns: {id: bigint}", "columns: {source: {database: shop}}", "table is missing"),
        ("columns: {id: bigint}", "columns: {source: {tables: x}}", "source has no key tables"),
        ("columns: {id: bigint}", "columns: {id: bigint}\n        schema: add", "schema requires columns: source"),
        ("columns: {id: bigint}", "columns: {id: bigint}\n        every: soon", "every must be a duration"),
        ("columns: {id: bigint}", "columns: {id: bigint}\n        limits: {records: 0}", "records must be a whole"),
        ("kind: land", "kind: land\n        on_error: skip", "invalid value 'skip' for on_error"),
        ("kind: land", "kind: land\n        on_error: {}", "dead_letter is missing"),
        ("kind: land", "kind: land\n        on_error: {dead_letters: {}}", "on_error has no key dead_letters"),
        ("kind: land", "kind: land\n        on_error: {dead_letter: bad}", "dead_letter must be a map"),
        ("kind: land", "kind: land\n        on_error: {dead_letter: {most: 1}}", "dead_letter has no key most"),
    ],
)
def test_what_nobody_reads_is_refused_with_its_place(load, old, new, words):
    with pytest.raises(SpecError, match="can't be used") as error:
        load(LEAST.replace(old, new))
    assert "pipelines.yaml:" in error.value.cause
    assert words in error.value.cause


def test_table_may_be_in_a_lake(load):
    changed = LEAST.replace("{database: shop, table: orders}", "{lake: sea, table: raw/orders, date: at}")
    (landing,) = load(changed).find("pipelines")
    assert (landing.target, landing.table, landing.date) == (TargetRef("lake", "sea"), "raw/orders", "at")


@pytest.mark.parametrize(
    ("words", "source", "columns"),
    [
        ("source", ColumnSource(), ()),
        ("{source: }", ColumnSource(), ()),
        ("{source: {}, id: int}", ColumnSource(), (DesiredColumn("id", "int"),)),
        ("{source: {database: shop, table: a.b}}", ColumnSource("shop", "a.b"), ()),
        # A column may have that name.
        ("{source: text}", None, (DesiredColumn("source", "text"),)),
        ("{source: {type: text}}", None, (DesiredColumn("source", "text"),)),
        ("{at: {type: date, epoch: days}}", None, (DesiredColumn("at", "date", epoch="days"),)),
    ],
)
def test_columns_may_come_from_the_source(load, words, source, columns):
    text = LEAST.replace("{topic: orders}", "{topic: orders, schemas: true}").replace("{id: bigint}", words)
    (landing,) = load(text).find("pipelines")
    assert (landing.column_source, landing.columns, landing.schema) == (source, columns, "add")
    assert landing.is_unresolved is (source is not None)


def test_new_columns_of_the_source_may_be_refused(load):
    text = LEAST.replace("{id: bigint}", "{source: {database: shop, table: t}}\n        schema: strict")
    (landing,) = load(text).find("pipelines")
    assert (landing.schema, landing.schemas) == ("strict", False)


def test_name_stands_once(load, tmp_path):
    (tmp_path / "more.yaml").write_text(textwrap.dedent(LEAST), encoding="utf-8")
    load(LEAST)
    with pytest.raises(SpecError, match="pipeline orders is defined twice"):
        load_spec([tmp_path], environ={})


@pytest.mark.parametrize(
    ("words", "letters"),
    [
        ("stop", None),
        ("{dead_letter: {}}", DesiredDeadLetters()),
        ("{dead_letter: }", DesiredDeadLetters()),
        ("{dead_letter: {max: 500}}", DesiredDeadLetters(max="500")),
        ("{dead_letter: {table: bad}}", DesiredDeadLetters("bad")),
    ],
)
def test_records_that_can_not_be_rows_stop_the_run_or_are_dead_letters(load, words, letters):
    (landing,) = load(LEAST.replace("kind: land", f"kind: land\n        on_error: {words}")).find("pipelines")
    assert landing.dead_letters == letters


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("on_error: dead-letter", "on_error: {dead_letter: {table: TABLE, max: 10%}}"),
        ("dead_letters: bad", "on_error: {dead_letter: {table: bad}}"),
    ],
)
def test_former_form_of_on_error_is_refused_with_the_new_one(load, words, hint):
    with pytest.raises(SpecError) as error:
        load(LEAST.replace("kind: land", f"kind: land\n        {words}"))
    assert hint in error.value.hint
