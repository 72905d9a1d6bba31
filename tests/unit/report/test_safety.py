from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.report.data import render_compact
from seamark.report.text import escape
from tests.unit.report.samples import FORBIDDEN, hostile_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ✓ 日本", "plain ✓ 日本"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\rb\tc\nd", "a\\rb\\tc\\nd"),
        ("\x00\x7f\x9b", "\\x00\\x7f\\x9b"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("\u2066\u2069\u200f\u2028", "\\u2066\\u2069\\u200f\\u2028"),
        ("\ud800", "\\ud800"),
        ("", ""),
    ],
)
def test_escape_makes_unsafe_characters_visible(text, shown):
    assert escape(text) == shown


def test_escape_keeps_newlines_only_where_several_lines_are_wanted():
    assert escape("a\nb\r", multiline=True) == "a\nb\\r"
    assert escape("a\nb") == "a\\nb"


@given(hostile_text)
def test_escaped_text_is_safe_and_can_be_written(text):
    shown = escape(text)
    assert not FORBIDDEN.search(shown)
    assert "\n" not in shown
    shown.encode()


@given(hostile_text)
def test_escaping_twice_changes_nothing(text):
    assert escape(escape(text)) == escape(text)


@given(st.text().filter(str.isprintable))
def test_printable_text_is_left_alone(text):
    assert escape(text) == text


@given(hostile_text)
def test_json_keeps_the_data_and_holds_no_unsafe_character(text):
    shown = render_compact({"key": text})
    assert not FORBIDDEN.search(shown)
    assert json.loads(shown) == {"key": text}
