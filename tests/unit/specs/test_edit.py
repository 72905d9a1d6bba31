"""Changing single values in files: one value, one line."""

from __future__ import annotations

import json
from difflib import unified_diff
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.specs.edit import UneditableError, apply_edits, build_edits
from seamark.specs.load import load_definitions

YAML = """\
# Who changes this asks the game team.
defaults: {connector.class: J, shared: all}   # for all

connectors:
  - name: one      # the first
    config:
      # how often
      poll.interval.ms: 5000 # 5 s
      quoted: 'a b'
      double: "a # b"
      query: |
        SELECT a
          FROM t
        WHERE x
      empty: ""

  - name: two
    config: {a: b, c: "d e"}
  - name: three
"""
JSON = """\
[
  {
    "name": "one",
    "config": {
      "connector.class": "J",
      "tasks.max": 1,
      "mode": "bulk"
    }
  },
  {"name": "two", "connector.class": "J", "a": "b"}
]
"""
PROPERTIES = """\
# standalone
name=one
connector.class = J
query = SELECT \\
    a
mode: bulk
"""


def change(tmp_path, file, text, owner, changes):
    """The file after the changes, read back and found to say what it shall."""
    path = tmp_path / file
    path.write_bytes(text.encode())
    found = {one.connector.owner: one for one in load_definitions([path], environ={"E": "e"}).definitions}
    edited = apply_edits(text, build_edits(found[owner], changes))
    path.write_bytes(edited.encode())
    again = {one.connector.owner: one.connector for one in load_definitions([path], environ={"E": "e"}).definitions}
    wanted = {**found[owner].connector.config, **changes}
    assert dict(again[owner].config) == {key: value for key, value in wanted.items() if value is not None}
    for other in found.keys() - {owner}:
        assert again[other].config == found[other].connector.config
    return edited


def differ(before, after):
    """The changed lines alone."""
    rows = unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return [row for row in rows if not row.startswith(("---", "+++", "@@"))]


@pytest.mark.parametrize(
    ("owner", "changes", "lines"),
    [
        ("one", {"poll.interval.ms": "1000"},
         ["-      poll.interval.ms: 5000 # 5 s", "+      poll.interval.ms: 1000 # 5 s"]),
        ("one", {"quoted": "it's"}, ["-      quoted: 'a b'", "+      quoted: 'it''s'"]),
        ("one", {"double": "x\ny"}, ['-      double: "a # b"', '+      double: "x\\ny"']),
        ("one", {"query": "SELECT a\n  FROM u\nWHERE x\n"}, ["-          FROM t", "+          FROM u"]),
        ("one", {"empty": "${{ x"}, ['-      empty: ""', '+      empty: "$${{ x"']),
        ("one", {"quoted": None}, ["-      quoted: 'a b'"]),
        ("one", {"new": "yes"}, ['+      new: "yes"']),
        ("one", {"shared": None}, ["+      shared: null"]),
        ("one", {"shared": "own"}, ["+      shared: own"]),
        ("two", {"a": "x, y"}, ['-    config: {a: b, c: "d e"}', '+    config: {a: "x, y", c: "d e"}']),
        ("two", {"a": None}, ['-    config: {a: b, c: "d e"}', '+    config: {c: "d e"}']),
        ("two", {"c": None}, ['-    config: {a: b, c: "d e"}', "+    config: {a: b}"]),
        ("two", {"a": None, "c": None}, ['-    config: {a: b, c: "d e"}', "+    config: {}"]),
        ("two", {"new": "1", "c": None}, ['-    config: {a: b, c: "d e"}', "+    config: {new: 1, a: b}"]),
        ("three", {"new": "1"}, ["+    config:", "+      new: 1"]),
    ],
)  # fmt: skip
def test_a_changed_value_is_one_changed_line_of_yaml(tmp_path, owner, changes, lines):
    assert differ(YAML, change(tmp_path, "x.yaml", YAML, owner, changes)) == lines


@pytest.mark.parametrize(
    ("owner", "changes", "lines"),
    [
        ("one", {"tasks.max": "4"}, ['-      "tasks.max": 1,', '+      "tasks.max": 4,']),
        ("one", {"tasks.max": "four"}, ['-      "tasks.max": 1,', '+      "tasks.max": "four",']),
        ("one", {"mode": 'a"b\n'}, ['-      "mode": "bulk"', '+      "mode": "a\\"b\\n"']),
        ("one", {"new": "1"}, ['+      "new": "1",']),
        ("one", {"tasks.max": None}, ['-      "tasks.max": 1,']),
        ("one", {"mode": None}, ['-      "tasks.max": 1,', '-      "mode": "bulk"', '+      "tasks.max": 1']),
        ("two", {"a": None, "b": "c"}, None),
    ],
)
def test_a_changed_value_is_one_changed_line_of_json(tmp_path, owner, changes, lines):
    edited = change(tmp_path, "x.json", JSON, owner, changes)
    assert json.loads(edited)
    assert lines is None or differ(JSON, edited) == lines


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({"mode": "incrementing"}, ["-mode: bulk", "+mode: incrementing"]),
        ({"query": " é\n"}, ["-query = SELECT \\", "-    a", "+query = \\ \\u00E9\\n"]),
        ({"connector.class": "K"}, ["-connector.class = J", "+connector.class = K"]),
        ({"mode": None}, ["-mode: bulk"]),
        ({"a b": "c=d"}, ["+a\\ b=c=d"]),
    ],
)
def test_a_changed_value_is_one_changed_line_of_properties(tmp_path, changes, lines):
    assert differ(PROPERTIES, change(tmp_path, "x.properties", PROPERTIES, "one", changes)) == lines


def test_lines_that_end_as_on_windows_stay_so(tmp_path):
    text = YAML.replace("\n", "\r\n")
    edited = change(tmp_path, "x.yaml", text, "one", {"poll.interval.ms": "1", "new": "2", "quoted": None})
    assert edited.count("\r\n") == edited.count("\n") == text.count("\n")


def test_a_file_without_a_last_line_break_can_be_added_to(tmp_path):
    text = "connectors:\n  - name: a\n    config:\n      connector.class: J"
    assert change(tmp_path, "x.yaml", text, "a", {"k": "v"}).endswith("J\n      k: v\n")


def test_several_changes_go_together(tmp_path):
    changes = {"poll.interval.ms": "1", "quoted": None, "double": None, "empty": None, "a": "1", "b": "2", "query": "x"}
    edited = change(tmp_path, "x.yaml", YAML, "one", changes)
    assert "# how often\n" in edited
    assert "# 5 s\n" in edited


def test_what_comes_by_a_merge_key_is_overridden_and_not_changed(tmp_path):
    text = dedent("""\
        connectors:
          - name: a
            config: &common
              connector.class: J
              k: v
          - name: b
            config:
              <<: *common
          - name: c
            config:
              <<: *common
              own: 1
        """)
    assert differ(text, change(tmp_path, "x.yaml", text, "b", {"k": "w"})) == ["+      k: w"]
    assert differ(text, change(tmp_path, "x.yaml", text, "c", {"k": "w"})) == ["+      k: w"]


@pytest.mark.parametrize(
    ("text", "owner", "reason"),
    [
        ("each: [{name: a, for: [{x: 1}], config: {connector.class: J, k: v}}]\n", "a", "generated by each"),
        ("connectors: [{name: a, config: &x {connector.class: J, k: v}}]\n", "a", "anchor"),
        ("connectors: [{name: a, config: {connector.class: J, k: &x v, l: *x}}]\n", "a", "k has an anchor"),
        ("connectors: [{name: a, config: {connector.class: J, k: '${{ env.E }}'}}]\n", "a", "k has a placeholder"),
        ("defaults: {connector.class: J, k: v}\nconnectors: [{name: a}]\n", "a", "no config and is on one line"),
    ],
)
def test_what_can_not_be_changed_alone_says_why(tmp_path, text, owner, reason):
    path = tmp_path / "x.yaml"
    path.write_text(text)
    found = {one.connector.owner: one for one in load_definitions([path], environ={"E": "e"}).definitions}
    with pytest.raises(UneditableError, match=reason):
        build_edits(found[owner], {"k": "w"})


NASTY = st.one_of(
    st.text(st.sampled_from(" ab\n\t\r'\"#:-{}[],$&*!|>%@`~?\\é😀\u2028\x85\x00\ufeff="), max_size=12),
    st.sampled_from(
        ["", " ", "${{ each.x }}", "$${{", "null", "~", "yes", "010", "a: b", "a #b", " x", "x ", "- a", "\ud83d"]
    ),
    st.text(max_size=12),
)
KEY = st.one_of(
    st.sampled_from(["poll.interval.ms", "quoted", "double", "query", "empty", "shared"]), NASTY.filter(bool)
)
CHANGES = st.dictionaries(
    KEY.filter(lambda key: key not in {"name", "connector.class"} and "${{" not in key), NASTY, max_size=4
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["one", "two", "three"]), CHANGES)
def test_any_value_comes_back_from_yaml(tmp_path_factory, owner, changes):
    change(tmp_path_factory.mktemp("y"), "x.yaml", YAML, owner, changes)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["one", "two"]), CHANGES)
def test_any_value_comes_back_from_json(tmp_path_factory, owner, changes):
    change(tmp_path_factory.mktemp("j"), "x.json", JSON, owner, changes)


@settings(max_examples=100, deadline=None)
@given(CHANGES)
def test_any_value_comes_back_from_properties(tmp_path_factory, changes):
    # Java's own text has no lone surrogates.
    good = {key: value for key, value in changes.items() if not any("\ud800" <= c <= "\udfff" for c in key + value)}
    change(tmp_path_factory.mktemp("p"), "x.properties", PROPERTIES, "one", good)
