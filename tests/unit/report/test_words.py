from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.report.table import render_sparkline
from seamark.report.words import (
    build_time,
    parse_number,
    render_ago,
    render_bytes,
    render_count,
    render_duration,
    render_map,
    render_number,
    render_time,
)


def test_numbers_are_grouped():
    assert render_number(8412003) == "8,412,003"
    assert render_number(-14551) == "-14,551"
    assert render_number(999) == "999"


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("1234", 1234), ("1,234", 1234), (" -10,000 ", -10000), ("+5", 5), ("007", 7)]
)
def test_numbers_are_parsed_with_and_without_commas(text, number):
    assert parse_number(text) == number


@pytest.mark.parametrize("text", ["", "x", "1,2", "1,2345", ",123", "1,234,", "12 345", "1_0", "1.5", "\u0661", "--1"])
def test_other_texts_are_no_numbers(text):
    with pytest.raises(ValueError, match="is not a whole number"):
        parse_number(text)


@given(st.integers())
def test_a_printed_number_can_be_parsed(number):
    assert parse_number(render_number(number)) == number


def test_counts_have_their_noun():
    assert render_count(1, "task") == "1 task"
    assert render_count(0, "task") == "0 tasks"
    assert render_count(2, "check OK", "checks OK") == "2 checks OK"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (4, "4 s ago"),
        (59.9, "59 s ago"),
        (60, "1 min ago"),
        (3600, "1 h ago"),
        (47 * 3600, "47 h ago"),
        (3 * 86400, "3 d ago"),
        (90 * 86400, "3 months ago"),
        (800 * 86400, "2 years ago"),
        (-4, "in 4 s"),
        (0.2, "now"),
    ],
)
def test_ages_are_in_their_largest_unit(seconds, text):
    assert render_ago(seconds) == text


def test_short_lengths_are_in_milliseconds():
    assert render_duration(0.25) == "250 ms"


def test_times_are_utc():
    berlin = timezone(timedelta(hours=1))
    assert render_time(datetime(2026, 11, 14, 13, 4, 31, tzinfo=berlin)) == "2026-11-14T12:04:31Z"


def test_a_text_that_looks_like_a_number_is_told_from_one():
    assert render_map({"a": 5, "b": "5", "c": "x y", "d": None, "e": True, "f": "true", "g": "word"}) == (
        'a 5, b "5", c "x y", d null, e true, f "true", g word'
    )
    assert render_map(None) == "nothing"
    assert render_map({}) == "{}"


def test_sparkline_goes_from_lowest_to_highest():
    assert render_sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert render_sparkline([5, 5]) == "▁▁"
    assert render_sparkline([1, None, float("nan"), 2]) == "▁  █"
    assert render_sparkline([]) == ""


def test_sparkline_keeps_a_short_peak_when_folded():
    assert render_sparkline([0] * 50 + [9] + [0] * 49, width=10) == "▁▁▁▁▁█▁▁▁▁"


@given(st.lists(st.none() | st.floats()), st.integers(1, 40))
def test_sparkline_has_one_bar_a_value(values, width):
    assert len(render_sparkline(values)) == len(values)
    assert len(render_sparkline(values, width=width)) == min(width, len(values))


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 * 1024**3, "5.0 GiB"), (3000 * 1024**4, "3000.0 TiB")],
)
def test_sizes_are_in_their_largest_unit(number, text):
    assert render_bytes(number) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (1_794_657_871_817, "2026-11-14T12:04:31Z"),
        # A producer that counts in microseconds, and the greatest time that Kafka stores.
        (1_794_657_871_817_000, "9999-12-31T23:59:59Z"),
        (2**63 - 1, "9999-12-31T23:59:59Z"),
        (-(2**63), "1-01-01T00:00:00Z"),
    ],
)
def test_any_time_of_a_record_can_be_printed(milliseconds, text):
    assert render_time(build_time(milliseconds)).lstrip("0") == text
