"""The SQL of a count: names and values stay data."""

from __future__ import annotations

import pytest

from seamark.core.offsets import Mark, TableRows
from seamark.errors import RejectedError
from seamark.tables.postgres.counting import build_count, build_explain, read_zone

HOSTILE = 'x"; DROP TABLE y; --'


def spell(statement):
    return statement.text.as_string(None), list(statement.values)


@pytest.mark.parametrize(
    ("rows", "column", "where", "values"),
    [
        (TableRows(("t",)), None, "", []),
        (TableRows(("t",), number_column="id", after=Mark(7)), "id", ' WHERE ("id") > (%s)', ["7"]),
        (
            TableRows(("t",), number_column="id", after=Mark(7), upto=Mark(9)),
            "id",
            ' WHERE ("id") > (%s) AND ("id") <= (%s)',
            ["7", "9"],
        ),
        (
            TableRows(("t",), time_columns=("at",), after=Mark(None, 1_500_000), delay_ms=250),
            None,
            ' WHERE ("at") > (%s) AND "at" < CURRENT_TIMESTAMP - %s::interval',
            ["1970-01-01 00:00:01.500000+00:00", "250 milliseconds"],
        ),
        (
            TableRows(("t",), number_column="id", time_columns=("a", "b"), after=Mark(7, 0), upto=Mark(8, 1)),
            "id",
            ' WHERE (COALESCE("a", "b"), "id") > (%s, %s) AND (COALESCE("a", "b"), "id") <= (%s, %s)',
            ["1970-01-01 00:00:00.000000+00:00", "7", "1970-01-01 00:00:00.000001+00:00", "8"],
        ),
    ],
)
def test_rows_are_compared_whole(rows, column, where, values):
    assert spell(build_count(rows, column)) == (f'SELECT count(*) FROM "t"{where}', values)
    assert spell(build_explain(rows, column)) == (f'EXPLAIN (FORMAT JSON) SELECT FROM "t"{where}', values)


def test_a_time_is_that_of_the_connectors_zone():
    rows = TableRows(("t",), time_columns=("at",), after=Mark(None, 0), upto=Mark(None, 0), time_zone="Asia/Seoul")
    assert spell(build_count(rows, None))[1][0] == "1970-01-01 09:00:00.000000+09:00"


def test_hostile_names_are_quoted():
    rows = TableRows((HOSTILE, HOSTILE), number_column=HOSTILE, time_columns=(HOSTILE,), after=Mark(1, 1))
    text, _ = spell(build_count(rows, HOSTILE))
    quoted = '"x""; DROP TABLE y; --"'
    assert text.startswith(f"SELECT count(*) FROM {quoted}.{quoted} WHERE ({quoted}, {quoted}) > (%s, %s)")
    assert text.replace(quoted, "").count("DROP") == 0


@pytest.mark.parametrize("zone", ["No/Where", "../../etc/passwd", ""])
def test_an_unknown_zone_is_refused(zone):
    with pytest.raises(RejectedError):
        read_zone(zone)


@pytest.mark.parametrize("zone", ["UTC", "utc", "GMT", "Etc/UTC"])
def test_utc_needs_no_table_of_zones(zone, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "zoneinfo", None)
    assert read_zone(zone).utcoffset(None).total_seconds() == 0


def test_a_time_beyond_the_calendar_is_refused():
    rows = TableRows(("t",), time_columns=("at",), after=Mark(None, 10**18))
    with pytest.raises(RejectedError, match="out of range"):
        build_count(rows, None)
