from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from seamark.report.data import render_json, render_json_line, render_yaml

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=12)
)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


@given(documents)
def test_yaml_reads_back_as_the_same_value(value):
    assert YAML(typ="safe", pure=True).load(io.StringIO(render_yaml(value))) == value


@pytest.mark.parametrize(
    "word", ["yes", "No", "on", "null", "~", "010", "12:30", "1e3", "", " a", "a: b", "# a", "- a", "é"]
)
def test_doubtful_words_stay_text_in_yaml(word):
    assert YAML(typ="safe", pure=True).load(render_yaml({"key": word})) == {"key": word}


def test_yaml_of_a_document_is_plain_to_read():
    text = render_yaml({"kind": "X", "items": [{"name": "a", "tags": ["x", 1]}, {}], "none": None, "empty": []})
    assert text == ("kind: X\nitems:\n  - name: a\n    tags:\n      - x\n      - 1\n  - {}\nnone: null\nempty: []\n")


@given(documents)
def test_a_json_line_is_one_line(value):
    text = render_json_line(value)
    assert text.endswith("\n")
    assert text.count("\n") == 1
    assert json.loads(text) == value


def test_numbers_that_json_has_not_become_text():
    text = render_json({"a": [float("nan"), float("inf"), 1.5]})
    assert json.loads(text) == {"a": ["nan", "inf", 1.5]}
