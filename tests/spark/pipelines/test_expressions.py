"""Expressions, headers and coordinates in Spark: every allowed function, also with values that it can't take."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer
from pyspark.sql import functions as sf

from seamark.core.files import FileLocation
from seamark.pipelines.declared import DesiredColumn, DesiredLanding, TargetRef, _build_columns
from seamark.spark.sessions import branch
from seamark.tables.definition import DeadLetters, LandColumn
from seamark.tables.delta.technology import DeltaTechnology
from seamark.tables.expressions import list_functions, parse_expression
from tests.spark.lake_stage import open_lake_stage
from tests.spark.land_stage import encode

# Arguments by function; `w` is a text, `n` a number, `t` a time, `l` a list.
ARGUMENTS = {
    **dict.fromkeys(("lower", "upper", "trim", "ltrim", "rtrim", "length", "initcap", "reverse", "md5", "sha1"), "w"),
    **dict.fromkeys(("hex", "base64", "isnull", "isnotnull", "xxhash64", "concat"), "w"),
    **dict.fromkeys(("abs", "ceil", "floor", "sign", "sqrt", "round"), "n"),
    **dict.fromkeys(("year", "month", "day", "hour", "minute", "second", "quarter", "dayofweek"), "t"),
    **dict.fromkeys(("unix_millis", "unix_seconds"), "t"),
    **dict.fromkeys(
        ("startswith", "endswith", "contains", "nullif", "coalesce", "greatest", "least", "instr"), "w, 'b'"
    ),
    **dict.fromkeys(("ifnull", "nvl"), "w, 'b'"),
    "unix_date": "cast(t as date)",
    "size": "l",
    "element_at": "l, 9",
    "concat_ws": "'-', w, w",
    "if": "n > 1, w, 'b'",
    "substring": "w, 2",
    "substr": "w, 2, 1",
    "replace": "w, 'a', 'b'",
    "split_part": "w, 'a', 1",
    "lpad": "w, 9, '0'",
    "rpad": "w, 9, '0'",
    "pow": "n, 400",
    "to_date": "w",
    "to_timestamp": "w",
    "datediff": "t, t",
    "date_format": "t, 'yyyy'",
    "date_trunc": "'hour', t",
    "date_add": "cast(t as date), 1",
    "date_sub": "cast(t as date), 1",
    "get_json_object": "w, '$.a'",
    "sha2": "w, 256",
}


def test_every_function_runs_and_no_value_fails_a_batch(spark):
    assert set(ARGUMENTS) == set(list_functions())
    session = branch(spark, {"spark.sql.ansi.enabled": "false"})
    moments = [datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), None, datetime(1000, 1, 1, tzinfo=UTC)]
    rows = [("abc", 4.0, moments[0], ["x"]), (None, None, None, None), ("", -1e308, moments[2], [])]
    frame = session.createDataFrame(rows, "w string, n double, t timestamp, l array<string>")
    found = [
        sf.expr(parse_expression(f"{name}({ARGUMENTS[name]})", what=name).sql).alias(name) for name in list_functions()
    ]
    assert len(frame.select(*found).collect()) == 3
    # Comparisons of a text with a number, and arithmetic that overflows.
    texts = [
        "w > 1",
        "w + 1 > 0",
        "n * 1e308 * 10",
        "cast(w as bigint) = 1",
        "n / 0",
        "n % 0",
        "w in (1, 2)",
        "w between 1 and 2",
    ]
    odd = [sf.expr(parse_expression(text, what=text).sql) for text in texts]
    assert len(frame.select(*odd).collect()) == 3


@pytest.fixture
def stage(stack, kafka):
    with open_lake_stage(stack, kafka, partitions=1) as opened:
        yield opened


def test_derived_columns_filter_headers_and_coordinates(spark, stage):
    declared = DesiredLanding(
        stage.name,
        FileLocation("x"),
        stage.topic,
        "raw/events",
        (
            DesiredColumn("number", "bigint"),
            DesiredColumn("words", "text"),
            DesiredColumn("trace", "text", "header.trace"),
            DesiredColumn("cents", "decimal(12, 2)", sql="number * 100 / 3"),
            DesiredColumn("day", "date", sql="to_date(words)"),
            DesiredColumn("kind", "text", sql="case when number >= 6 then upper(words) else 'small' end"),
        ),
        TargetRef("lake", "lake"),
    )
    columns = _build_columns(declared, DeltaTechnology())
    assert [one.name for one in columns[-4:]] == ["_topic", "_partition", "_offset", "_timestamp"]
    landing = stage.build(
        columns, where="number % 2 = 0 and words <> 'no'", date_from="day", dead_letters=DeadLetters()
    )
    producer = Producer({"bootstrap.servers": stage.kafka.servers})
    for number in range(10):
        words = "no" if number == 4 else "2026-01-02" if number == 6 else f"w{number}"
        headers = [("trace", b"old"), ("trace", b"id-%d" % number)] if number != 8 else [("trace", b"\xff")]
        producer.produce(stage.topic, encode({"number": number, "words": words}), headers=headers, partition=0)
    producer.produce(stage.topic, b"{", partition=0)
    producer.flush(30)
    stage.run(spark, landing)
    table = stage.table().to_pyarrow_table()
    names = ("_offset", "number", "trace", "cents", "day", "kind")
    # Dead letters have nulls in all columns.
    found = [row for row in zip(*(table.column(name).to_pylist() for name in names), strict=True) if row[0] is not None]
    assert sorted(row[:3] for row in found) == [(0, 0, "id-0"), (2, 2, "id-2"), (6, 6, "id-6")]
    by_number = {row[1]: row[3:] for row in found}
    assert str(by_number[2][0]) == "66.67"
    assert (str(by_number[6][1]), by_number[6][2], by_number[2][1:]) == ("2026-01-02", "2026-01-02", (None, "small"))
    letters = [row["reason"] for row in table.column("seamark_dead_letter").to_pylist() if row]
    assert letters == ["header trace is not valid UTF-8", "the value is not valid JSON for the columns"]
    assert stage.read_ledger() == {0: 11}


def test_record_without_the_header_has_null(spark, stage):
    stage.produce([{"number": 1, "words": "a"}])
    stage.run(spark, stage.build((LandColumn("number", "bigint"), LandColumn("trace", "text", "header.trace"))))
    assert stage.read("number", "trace") == [(1, None)]
