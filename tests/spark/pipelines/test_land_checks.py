"""What our checks say of a value is what a real PostgreSQL does with it."""

from __future__ import annotations

import json
from uuid import uuid4

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seamark.pipelines.spark_checks import build_check, judge
from seamark.pipelines.spark_postgres import build_csv
from seamark.tables.postgres.writer import ColumnType

LABELS = ("sad", "ok", "so so", "", "Ok")
KINDS = {
    "text": "text",
    "character varying": "varchar",
    "character varying(3)": "varchar(3)",
    "character(3)": "char(3)",
    "numeric": "numeric",
    "numeric(5,2)": "numeric(5, 2)",
    "numeric(38,18)": "numeric(38, 18)",
    "numeric(4,0)": "numeric(4)",
    "real": "real",
    "double precision": "double precision",
    "uuid": "uuid",
    "date": "date",
    "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamptz",
    "timestamp(3) with time zone": "timestamptz(3)",
    "json": "json",
    "jsonb": "jsonb",
    "bytea": "bytea",
    "integer": "integer",
    "boolean": "boolean",
    "inet": "inet",
    "mood": "mood",
}
DIGITS = st.text("0123456789", min_size=1, max_size=20)
NUMBERS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-", "+", "0", "00", " "]),
    DIGITS,
    st.one_of(st.just(""), st.builds(".{}".format, st.text("0123456789", max_size=25))),
    st.sampled_from(["", "", "", "E-7", "E-18", "e5", " ", "x", "."]),
)
TIMES = st.builds(
    "{}-{}-{}{}{}".format,
    st.sampled_from(["2026", "0001", "0000", "9999", "12026", "99", "1900", "2024"]),
    st.integers(0, 14).map("{:02d}".format),
    st.one_of(st.integers(0, 35).map("{:02d}".format), st.just("99")),
    st.sampled_from(
        ["", "T10:00", " 10:00:00", "T23:59:59.999999999", "T24:00:00", "T24:00:01", "T10:00:60", " ", "T1", " BC"]
    ),
    st.sampled_from(["", "Z", "+14:59", "-1459", "+15", "+16:00", "+0130", " Z", " +01", " PST", "z"]),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=6,
).map(json.dumps)
WORDS = st.sampled_from(
    [
        *["now", "today", "-infinity", "epoch", "nan", "NaN", "inf", "Infinity", "", " ", "-", "true", "no way", "abc"],
        *[
            "1700000000000",
            "1700000000",
            "17000001231",
            "Jan 5 2026",
            "J2451187",
            "allballs",
            "20260105",
            "\\x6",
            "\\x6F",
        ],
        *[
            "\\\\",
            "a\\",
            "\\\\x",
            '"\\u0000"',
            '"\\ud800"',
            '{"a": 1e5000}',
            '{"a": 01}',
            "[1,]",
            "[" * 50,
            "{}x",
            "﻿{}",
        ],
        *["0x1p3", "1e400", "1e-400", "3.5e38", "ab  ", "abcd ", "ab\0", "\0", "é́é", "sad", "Sad", "::1", "300.1.1.1"],
        *[
            "{6f9619ff-8b86-d011-b42d-00c04fc964ff}",
            "6f9619ff8b86d011b42d00c04fc964ff",
            "6f96-19ff8b86d011b42d00c04fc964ff",
        ],
        *[
            "6f9619ff-8b86-d011-b42d-00c04fc964f",
            "6f9619f-f8b86-d011-b42d-00c04fc964ff",
            "{6f9619ff8b86d011b42d00c04fc964ff",
        ],
        *["2026-02-29", "2024-02-29", "2026-02-30", "2026-13-45T99", "31-12-2026", "12-31-2026", "1999.001", "99.995"],
    ]
)
TEXTS = st.one_of(WORDS, NUMBERS, TIMES, JSON, st.text(max_size=6), st.uuids().map(str))
INTEGERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([2**31, 2**31 - 1, -(2**31), -(2**15), 2**15]))


class Server:
    """One session, with a table of one column for each type."""

    def __init__(self, dsn, style):
        self.connection = psycopg.connect(dsn, autocommit=True)
        self.connection.execute(f"SET DateStyle = '{style}'")
        self.schema = f"checks_{uuid4().hex[:8]}"
        self.connection.execute(f"CREATE SCHEMA {self.schema}")
        self.connection.execute(f"SET search_path = {self.schema}")
        labels = ", ".join(f"'{label}'" for label in LABELS)
        self.connection.execute(f"CREATE TYPE mood AS ENUM ({labels})")
        for number, kind in enumerate(KINDS.values()):
            self.connection.execute(f"CREATE TABLE t{number} (value {kind})")
        self.names = {kind: f"t{number}" for number, kind in enumerate(KINDS)}

    def takes(self, kind, values):
        """Whether COPY takes these values, all of them."""
        text = build_csv(pa.RecordBatch.from_arrays([values], names=["value"]))
        try:
            with (
                self.connection.transaction(force_rollback=True),
                self.connection.cursor() as cursor,
                cursor.copy(f"COPY {self.names[kind]} FROM STDIN (FORMAT csv, ENCODING 'UTF8')") as rows,
            ):
                rows.write(text)
        except psycopg.DataError:
            return False
        return True

    def close(self):
        self.connection.execute(f"DROP SCHEMA {self.schema} CASCADE")
        self.connection.close()


@pytest.fixture(scope="module", params=["ISO, MDY", "SQL, DMY"])
def server(stack, request):
    opened = Server(stack.postgres.dsn, request.param)
    yield opened
    opened.close()


def compare(server, kind, values):
    """Compare our answers with the server's."""
    labels = LABELS if kind == "mood" else None
    check = build_check(ColumnType(kind, labels), values.type)
    good, bad = judge(check, values, is_thorough=True)
    taken = values.filter(good)
    if not server.takes(kind, taken):
        wrong = [one for one in taken if not server.takes(kind, pa.array([one.as_py()], values.type))]
        raise AssertionError(f"{kind}: called good, and refused: {wrong}")
    quick = judge(check, values, is_thorough=False)[1]
    for mask, reason in [*bad, *quick]:
        assert not pc.any(pc.and_(mask, good)).as_py()
        for one in values.filter(mask).to_pylist():
            assert not server.takes(kind, pa.array([one], values.type)), f"{kind}: called bad ({reason}): {one!r}"


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(values=st.lists(st.one_of(st.none(), TEXTS), min_size=1, max_size=30))
def test_texts_are_judged_as_the_server_judges_them(server, kind, values):
    compare(server, kind, pa.array(values, pa.string()))


@pytest.mark.parametrize(
    "kind", ["integer", "text", "character varying(3)", "numeric(5,2)", "double precision", "jsonb"]
)
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(values=st.lists(st.one_of(st.none(), INTEGERS), min_size=1, max_size=20))
def test_numbers_are_judged_as_the_server_judges_them(server, kind, values):
    compare(server, kind, pa.array(values, pa.int64()))


@pytest.mark.parametrize("kind", ["date", "timestamp without time zone", "timestamp with time zone", "text", "numeric"])
def test_times_of_kafka_are_judged_as_the_server_judges_them(server, kind):
    micros = [
        None,
        0,
        -1,
        10**15,
        253_402_300_799_999_999,
        253_402_300_800_000_000,
        -62_135_596_800_000_000,
        40 * 10**16,
    ]
    compare(server, kind, pa.array(micros, pa.timestamp("us", "UTC")))


@pytest.mark.parametrize(
    ("kind", "text", "answer"),
    [
        ("text", "a", "good"),
        ("text", "a\0", "bad"),
        ("character varying(3)", "abc ", "good"),
        ("character varying(3)", "abcd", "bad"),
        ("numeric(5,2)", "999.99", "good"),
        ("numeric(5,2)", "999.999", "unknown"),
        ("numeric(5,2)", "1000", "bad"),
        ("numeric(38,18)", "0E-18", "good"),
        ("numeric(38,18)", "1.000000000E-9", "good"),
        ("numeric", "", "bad"),
        ("timestamp with time zone", "2026-11-17T10:00:00.123Z", "good"),
        ("timestamp with time zone", "2026-11-17 10:00:00+09", "good"),
        ("timestamp with time zone", "1700000000000", "bad"),
        ("timestamp with time zone", "not a time", "bad"),
        ("timestamp with time zone", "now", "unknown"),
        ("date", "2026-13-01", "bad"),
        ("date", "Jan 5 2026", "unknown"),
        ("uuid", "6f9619ff-8b86-d011-b42d-00c04fc964ff", "good"),
        ("uuid", "x", "bad"),
        ("jsonb", '{"a": [1, "\\u00e9"]}', "good"),
        ("jsonb", "{", "bad"),
        ("jsonb", '"\\u0000"', "unknown"),
        ("jsonb", "[" * 100_000, "unknown"),
        ("bytea", "\\x00ff", "good"),
        ("mood", "so so", "good"),
        ("mood", "happy", "bad"),
        ("inet", "::1", "unknown"),
        ("inet", None, "good"),
    ],
)
def test_ordinary_values_are_told_without_the_server(kind, text, answer):
    """Without this, a check that knows nothing would pass the tests above."""
    values = pa.array([text], pa.string())
    good, bad = judge(
        build_check(ColumnType(kind, LABELS if kind == "mood" else None), values.type), values, is_thorough=True
    )
    found = "good" if good[0].as_py() else "bad" if bad else "unknown"
    assert found == answer
