from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.report.data import build_cell, render_csv
from seamark.report.text import escape
from tests.unit.report.samples import FORBIDDEN, hostile_text

STARTS = ("=", "+", "-", "@", "\t", "\r")
WIDE_STARTS = (*STARTS, "\uff1d", "\uff0b", "\uff0d", "\uff20")


@pytest.mark.parametrize("start", STARTS)
def test_a_text_that_starts_like_a_formula_is_defused(start):
    assert build_cell(f"{start}cmd|'/c calc'!A1").startswith("'")


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (None, ""),
        (True, "true"),
        (-5, "-5"),
        (1.5, "1.5"),
        ("a-b", "a-b"),
        ({"kafka_offset": -1}, '{"kafka_offset":-1}'),
        (["a", "b"], '["a","b"]'),
    ],
)
def test_other_values_are_written_as_they_are(value, cell):
    assert build_cell(value) == cell


@given(st.lists(st.lists(hostile_text, min_size=2, max_size=2), max_size=4))
def test_csv_is_safe_and_reads_back(rows):
    text = render_csv(["a", "b"], rows)
    assert not FORBIDDEN.search(text)
    header, *cells = csv.reader(io.StringIO(text))
    assert header == ["a", "b"]
    assert text.count("\n") == len(rows) + 1
    for row, found in zip(rows, cells, strict=True):
        for value, cell in zip(row, found, strict=True):
            assert not cell.startswith(STARTS)
            guard = "'" if value.startswith(WIDE_STARTS) else ""
            assert cell == guard + escape(value)
