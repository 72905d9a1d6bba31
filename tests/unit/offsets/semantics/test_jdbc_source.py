"""JDBC sources: which offsets they read, in which order, and what is counted between two."""

from __future__ import annotations

import pytest

from seamark.core.offsets import Certainty, Fixed, Mark, Order, TableRows
from seamark.core.readings import Severity
from seamark.offsets.semantics import find_meaning
from seamark.offsets.semantics.semantics import Harm

AIVEN = "io.aiven.connect.jdbc.JdbcSourceConnector"
CONFLUENT = "io.confluent.connect.jdbc.JdbcSourceConnector"
TABLE = {"protocol": "1", "table": "game.public.purchase"}
OLD = {"table": "purchase"}
COLUMNS = {"incrementing.column.name": "seq", "timestamp.column.name": "at"}
MODES = ("bulk", "incrementing", "timestamp", "timestamp+incrementing")
GOOD = {
    "incrementing": {"incrementing": 7},
    "timestamp": {"timestamp": 1_700_000_000_123, "timestamp_nanos": 123_456_000},
    "timestamp+incrementing": {"timestamp": 1_700_000_000_123, "timestamp_nanos": 123_456_000, "incrementing": 7},
}


def make(mode, plugin=AIVEN, **more):
    return find_meaning(plugin, {**COLUMNS, "mode": mode, **{key.replace("_", "."): more[key] for key in more}})


def severities(findings):
    return [finding.severity for finding in findings]


@pytest.mark.parametrize("plugin", [AIVEN, CONFLUENT])
@pytest.mark.parametrize("mode", GOOD)
def test_what_the_connector_writes_is_fine(plugin, mode):
    meaning = make(mode, plugin)
    assert meaning.family == "JDBC source"
    assert meaning.check(TABLE, GOOD[mode]) == ()
    assert meaning.check(TABLE, None) == ()


@pytest.mark.parametrize("mode", GOOD)
def test_protocol_0_is_read_and_said_to_be_old(mode):
    (finding,) = make(mode).check(OLD, GOOD[mode])
    assert finding.severity is Severity.INFO
    assert "protocol 0" in finding.message


@pytest.mark.parametrize(
    "partition",
    [
        {},
        {"protocol": "1"},
        {"protocol": "2", "table": "t"},
        {"protocol": 1, "table": "t"},
        {"table": None},
        {"table": 5},
        {"table": "t", "query": "query"},
        {"query": "SELECT 1"},
        {"tables": "t"},
    ],
)
def test_a_partition_that_no_task_looks_up_is_an_error(partition):
    assert Severity.ERROR in severities(make("incrementing").check(partition, {"incrementing": 1}))


@pytest.mark.parametrize(
    ("mode", "offset", "word"),
    [
        ("incrementing", {"incrementing": "7"}, "incrementing"),
        ("incrementing", {"incrementing": 7.0}, "incrementing"),
        ("incrementing", {"incrementing": True}, "incrementing"),
        ("incrementing", {"incrementing": 2**63}, "incrementing"),
        ("timestamp", {"timestamp": "2026-01-01"}, "timestamp"),
        ("timestamp", {"timestamp": 1000, "timestamp_nanos": -1}, "timestamp_nanos"),
        ("timestamp", {"timestamp": 1000, "timestamp_nanos": 10**9}, "timestamp_nanos"),
    ],
)
def test_a_value_that_fails_the_task_is_an_error(mode, offset, word):
    errors = [found for found in make(mode).check(TABLE, offset) if found.severity is Severity.ERROR]
    assert errors
    assert errors[0].message.startswith(word)
    assert errors[0].fix


@pytest.mark.parametrize(
    ("mode", "offset", "words"),
    [
        ("incrementing", {}, "incrementing is missing"),
        ("incrementing", {"incrementing": 1, "timestamp": 5}, "does not read timestamp"),
        ("incrementing", {"incrementing": 1, "incremanting": 1}, "does not read incremanting"),
        ("timestamp", {"incrementing": 1, "timestamp": 5}, "does not read incrementing"),
        ("timestamp", {"timestamp": 1123, "timestamp_nanos": 124_000_000}, "differ below the second"),
        ("timestamp+incrementing", {"incrementing": 4, "timestamp_nanos": 5}, "timestamp is missing"),
        ("bulk", {"incrementing": 1}, "bulk mode stores no offset"),
    ],
)
def test_what_is_likely_not_meant_is_a_warning(mode, offset, words):
    warnings = [found for found in make(mode).check(TABLE, offset) if found.severity is Severity.WARNING]
    assert any(words in found.message for found in warnings)


def test_an_offset_that_the_config_does_not_lead_to_is_a_warning():
    query = make("incrementing", query="SELECT * FROM purchase")
    assert severities(query.check(TABLE, {"incrementing": 1})) == [Severity.WARNING]
    assert query.check({"query": "query"}, {"incrementing": 1}) == ()
    assert severities(make("incrementing").check({"query": "query"}, {"incrementing": 1})) == [Severity.WARNING]
    other = make("incrementing", table_whitelist="login, public.raid")
    assert severities(other.check(TABLE, {"incrementing": 1})) == [Severity.WARNING]
    assert make("incrementing", table_whitelist="public.purchase").check(TABLE, {"incrementing": 1}) == ()


@pytest.mark.parametrize(
    ("mode", "left", "right", "order"),
    [
        ("incrementing", {"incrementing": 1}, {"incrementing": 2}, Order.BEFORE),
        ("incrementing", {"incrementing": 2}, {"incrementing": 2, "timestamp": 9}, Order.EQUAL),
        ("incrementing", None, {"incrementing": 0}, Order.BEFORE),
        ("incrementing", None, {"incrementing": -1}, Order.EQUAL),
        ("timestamp", {"timestamp": 1000, "timestamp_nanos": 7}, {"timestamp": 1000}, Order.AFTER),
        ("timestamp", {"timestamp": 1000, "timestamp_nanos": 0}, {"timestamp": 1000}, Order.EQUAL),
        ("timestamp", {"timestamp": 1999, "timestamp_nanos": 1}, {"timestamp": 1500}, Order.BEFORE),
        ("timestamp", {"timestamp": -1, "timestamp_nanos": 999_000_000}, {"timestamp": -2}, Order.AFTER),
        ("timestamp", None, None, Order.EQUAL),
        (
            "timestamp+incrementing",
            {"timestamp": 5, "incrementing": 9},
            {"timestamp": 6, "incrementing": 1},
            Order.BEFORE,
        ),
        (
            "timestamp+incrementing",
            {"timestamp": 5, "incrementing": 9},
            {"timestamp": 5, "incrementing": 8},
            Order.AFTER,
        ),
        ("timestamp+incrementing", {"timestamp": 5}, {"timestamp": 5, "incrementing": -1}, Order.EQUAL),
        ("bulk", {"incrementing": 1}, {"incrementing": 2}, Order.UNKNOWN),
        ("bulk", None, None, Order.EQUAL),
        ("nonsense", {"incrementing": 1}, {"incrementing": 2}, Order.UNKNOWN),
    ],
)
def test_positions_are_ordered_as_the_connector_orders_rows(mode, left, right, order):
    assert make(mode).compare(left, right) is order
    assert make(mode).compare(right, left) is order.turned


def test_the_place_it_begins_at_comes_from_the_config():
    aiven = make("timestamp+incrementing", **{"timestamp.initial.ms": "2000", "incrementing.initial": "40"})
    distance = aiven.build_distance(TABLE, None, None)
    assert distance.count.after == Mark(number=40, time_micros=2_000_000)
    confluent = make("timestamp", CONFLUENT, timestamp_initial="2000")
    assert confluent.build_distance(TABLE, None, None).count.after == Mark(time_micros=2_000_000)
    # -1 is Confluent's word for the moment of the first start, which nobody wrote down.
    now = make("timestamp", CONFLUENT, timestamp_initial="-1")
    assert now.build_distance(TABLE, None, None).count is None
    assert now.compare(None, {"timestamp": 1}) is Order.UNKNOWN


def test_rows_are_counted_by_the_columns_of_the_mode():
    both = make("timestamp+incrementing", db_timezone="Asia/Seoul", timestamp_delay_interval_ms="3000")
    later = {"timestamp": 1_700_000_060_123, "timestamp_nanos": 123_456_000, "incrementing": 9}
    distance = both.build_distance(TABLE, GOOD["timestamp+incrementing"], later)
    assert distance.count == TableRows(
        ("game", "public", "purchase"),
        number_column="seq",
        time_columns=("at",),
        after=Mark(7, 1_700_000_000_123_456),
        upto=Mark(9, 1_700_000_060_123_456),
        time_zone="Asia/Seoul",
        delay_ms=3000,
    )
    assert distance.certainty is Certainty.EXACT
    assert distance.seconds == 60.0
    number = make("incrementing").build_distance(OLD, {"incrementing": 7}, None)
    assert number.count == TableRows(("purchase",), number_column="seq", after=Mark(7))
    times = make("timestamp", **{"timestamp.column.name": "changed, made"}).build_distance(
        TABLE, {"timestamp": 1}, None
    )
    assert (times.count.time_columns, times.count.number_column) == (("changed", "made"), None)


def test_a_column_that_is_not_named_is_left_to_the_database():
    meaning = find_meaning(AIVEN, {"mode": "incrementing"})
    assert meaning.build_distance(TABLE, {"incrementing": 1}, None).count.number_column == ""


def test_names_without_quotation_marks_are_in_small_letters():
    aiven = make("incrementing", **{"incrementing.column.name": "SEQ", "sql.quote.identifiers": "never"})
    assert aiven.build_distance(TABLE, None, None).count.number_column == "seq"
    confluent = make("incrementing", CONFLUENT, **{"incrementing.column.name": "SEQ"})
    assert confluent.build_distance(TABLE, None, None).count.number_column == "SEQ"


def test_bulk_reads_the_whole_table_again_and_again():
    meaning = make("bulk")
    assert meaning.build_distance(OLD, None, None).count == TableRows(("purchase",))
    assert meaning.explain_rewind().harm is Harm.NOTHING
    assert meaning.explain_skip().harm is Harm.NOTHING


def test_the_text_of_a_query_is_never_counted_with():
    meaning = make("incrementing", query="SELECT 1; DROP TABLE x")
    place = {"query": "query"}
    bound = meaning.build_distance(place, {"incrementing": 10}, {"incrementing": 25})
    assert (bound.count, bound.certainty) == (Fixed(15), Certainty.BOUND)
    open_end = meaning.build_distance(place, {"incrementing": 10}, None)
    assert (open_end.count, open_end.certainty) == (None, Certainty.UNKNOWN)
    assert "DROP" not in repr((bound, open_end))
    times = make("timestamp", query="x").build_distance(place, {"timestamp": 0}, {"timestamp": 1500})
    assert (times.count, times.seconds) == (None, 1.5)


@pytest.mark.parametrize("name", ["a.b.c.d", "", ".t", "s..t"])
def test_a_name_whose_parts_can_not_be_told_is_not_counted(name):
    distance = make("incrementing").build_distance({"protocol": "1", "table": name}, {"incrementing": 1}, None)
    assert (distance.count, distance.certainty) == (None, Certainty.UNKNOWN)


def test_columns_by_pattern_are_not_counted():
    meaning = make("incrementing", CONFLUENT, **{"incrementing.column.mapping": ".*:[seq]"})
    assert meaning.build_distance(TABLE, {"incrementing": 1}, None).count is None


def test_offsets_are_told_in_words():
    both = make("timestamp+incrementing")
    assert both.describe(TABLE, GOOD["timestamp+incrementing"]) == (
        "table game.public.purchase",
        "seq 7, at 2023-11-14 22:13:20.123456 UTC",
    )
    assert both.describe(OLD, None) == ("table purchase (protocol 0)", "nothing")
    assert both.describe({"query": "query"}, {"timestamp": 0}) == ("the query", "at 1970-01-01 00:00:00 UTC")
    assert both.describe({"x": 1}, {"y": None}) == ("x 1", "y null")
    assert both.describe(TABLE, {"timestamp": 2**62})[1] == f"at {2**62 * 1_000_000} ns"


@pytest.mark.parametrize("mode", MODES)
def test_a_rewind_doubles_and_a_skip_loses_but_for_bulk(mode):
    meaning = make(mode)
    wanted = (Harm.NOTHING, Harm.NOTHING) if mode == "bulk" else (Harm.DUPLICATES, Harm.LOSS)
    assert (meaning.explain_rewind().harm, meaning.explain_skip().harm) == wanted
