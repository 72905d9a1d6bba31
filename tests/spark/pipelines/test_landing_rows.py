"""Batches of Arrow landed in a real PostgreSQL: the record that it refuses is the one that is named and kept."""

from __future__ import annotations

from uuid import uuid4

import psycopg
import pyarrow as pa
import pytest

from seamark.errors import RejectedError
from seamark.pipelines.spark_frame import KEY, REASON, TIMESTAMP, VALUE
from seamark.pipelines.spark_postgres import write_rows
from seamark.tables.definition import DeadLetters, LandColumn, Landing, Mode
from seamark.tables.model import DELETED, OFFSET, LedgerAdvance, LedgerEntry
from seamark.tables.postgres.table import LandingTable
from seamark.tables.postgres.writer import LandingDatabase

FIRST = LedgerEntry("orders", "id", 0, next_offset=100)
FAR = 10**16 * 40  # microseconds: the year 14645


@pytest.fixture
def place(stack):
    """A schema of one test's own, with a table in it."""
    schema = f"land_{uuid4().hex[:8]}"
    with psycopg.connect(stack.postgres.dsn) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        connection.execute(f"CREATE TABLE {schema}.rows (id int PRIMARY KEY CHECK (id <> 7), words text, more text)")
    yield schema
    with psycopg.connect(stack.postgres.dsn) as connection:
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


@pytest.fixture
def land(stack, place):
    columns = (LandColumn("id", "int"), LandColumn("words", "text"), LandColumn("more", "text"))

    def run(batches, **more):
        landing = Landing("orders", topic="orders", table=f"{place}.rows", columns=columns, **more)
        table = LandingTable(landing.table, ("id", "words", "more"), key=landing.key, dead_letters=f"{place}.dead")
        database = LandingDatabase(stack.postgres.dsn, table, owner=f"pipeline/{place}")
        database.prepare()
        (entry,) = database.claim([FIRST])
        step = LedgerAdvance(entry, end=1000)
        return database.land(
            step,
            lambda sink: write_rows(landing, sink, batches, step=step),
            is_strict=landing.dead_letters is None,
        )

    return run


@pytest.fixture
def read(stack, place):
    def rows(table="rows", columns="*"):
        with psycopg.connect(stack.postgres.dsn) as connection:
            return connection.execute(f"SELECT {columns} FROM {place}.{table} ORDER BY 1").fetchall()

    return rows


def build(rows, *, first=100, reasons=None):
    """A batch as Spark hands it over, of (id, words, more)."""
    count = len(rows)
    return pa.RecordBatch.from_pydict(
        {
            "id": pa.array([row[0] for row in rows], pa.int32()),
            "words": pa.array([row[1] for row in rows], pa.string()),
            "more": pa.array([row[2] for row in rows], pa.string()),
            OFFSET: pa.array(range(first, first + count), pa.int64()),
            REASON: pa.array(reasons or [None] * count, pa.string()),
            DELETED: pa.array([False] * count),
            TIMESTAMP: pa.array([FAR] * count, pa.timestamp("us", "UTC")),
            KEY: pa.array([b"k%d" % row[0] for row in rows], pa.binary()),
            VALUE: pa.array([b"\xff%d" % row[0] for row in rows], pa.binary()),
        }
    )


TEXTS = ["\n", "\r", "\r\n", "\n\n", "a\nb\rc\r\nd", '"\n"', ",\n", "", None, "a"]


@pytest.mark.parametrize("first", TEXTS)
@pytest.mark.parametrize("bad", [0, 1, 4, 13, 25])
def test_record_is_named_whatever_lines_its_texts_have(land, read, first, bad):
    rows = [(100 + place, TEXTS[place % 10], TEXTS[place * 7 % 10]) for place in range(26)]
    rows[0] = (99, first, "a\r")
    rows[bad] = (7, "x\ny" if bad else first, rows[bad][2])
    batches = [build([]), build(rows[:5]), build(rows[5:15], first=105), build(rows[15:], first=115)]
    with pytest.raises(RejectedError, match=rf"record orders-0@{100 + bad} can't be a row") as error:
        land(batches)
    assert "violates check constraint" in error.value.cause
    assert read() == []


@pytest.mark.parametrize("bad", [0, 3, 9])
def test_text_that_can_not_be_is_named(land, bad):
    """Found while a row is read, and not when it has been read."""
    rows = [(100 + place, "a\nb", "c") for place in range(10)]
    rows[bad] = (7, "a\n\0\n", "c\n")
    with pytest.raises(RejectedError, match=rf"record orders-0@{100 + bad} can't be a row"):
        land([build(rows[:2]), build(rows[2:], first=102)])


def test_record_that_would_replace_a_row_is_named(land, read):
    rows = [(number, "a\n", "b") for number in [1, 2, 7, 3]]
    with pytest.raises(RejectedError, match="record orders-0@102 can't be a row") as error:
        land([build(rows)], mode=Mode.UPSERT, key=("id",))
    assert "violates check constraint" in error.value.cause
    assert read() == []


@pytest.mark.parametrize("more", [{}, {"mode": Mode.UPSERT, "key": ("id",)}])
def test_refused_record_is_kept_as_it_was(land, read, more):
    batches = [build([]), build([(1, "a", None), (7, "b\n", "")]), build([(7, "c", None), (2, "d", None)], first=102)]
    landed = land([*batches, build([(8, "", "")], first=104, reasons=["why"])], dead_letters=DeadLetters(), **more)
    assert (landed.rows, landed.dead) == (2, 3)
    assert read(columns="id, words") == [(1, "a"), (2, "d")]
    dead = read("dead", "record_offset, record_key, record_value, extract(year FROM record_timestamp)::int, reason")
    assert [row[:4] for row in dead] == [
        (101, b"k7", b"\xff7", 14645),
        (102, b"k7", b"\xff7", 14645),
        (104, b"k8", b"\xff8", 14645),
    ]
    assert dead[2][4] == "why"
    assert all("violates check constraint" in row[4] for row in dead[:2])


def test_record_that_spark_refuses_is_named_whatever_else_it_has(land):
    # A year that Python has no date for.
    with pytest.raises(RejectedError, match="record orders-0@101 can't be a row") as error:
        land([build([(1, "a", ""), (2, "b", "")], reasons=[None, "why"])])
    assert error.value.cause == "why"
