"""JSON files: what Connect's REST API takes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.context.yaml import MappingNode, ScalarNode, SequenceNode
from seamark.errors import SpecError
from seamark.specs.document import Document
from seamark.specs.plain_files import parse_json


def test_a_post_body_a_list_and_a_flat_config_are_taken(folder):
    folder.write("a.json", '{"name": "a", "config": {"connector.class": "A", "name": "a"}, "initial_state": "stopped"}')
    folder.write(
        "b.json", '[{"name": "b", "config": {"connector.class": "B"}},\n {"name": "c", "connector.class": "C"}]'
    )
    found = folder.connectors()
    assert {owner: dict(one.config) for owner, one in found.items()} == {
        "a": {"connector.class": "A"},
        "b": {"connector.class": "B"},
        "c": {"connector.class": "C"},
    }
    assert found["a"].state == "STOPPED"
    assert (found["c"].place.line, found["c"].place.column) == (2, 2)


def test_numbers_and_truth_values_become_the_texts_that_jackson_makes(folder):
    folder.write("a.json", '{"name":"a","connector.class":"A","i":4,"f":1.0,"e":1e3,"t":true,"u":"\\u00e9\\n${{ x }}"}')
    assert folder.configs()["a"] == {
        "connector.class": "A", "i": "4", "f": "1.0", "e": "1e3", "t": "true", "u": "é\n${{ x }}",
    }  # fmt: skip


def test_only_the_cluster_is_inherited(folder):
    folder.write("_defaults.yaml", "cluster: game\ndefaults: {k: v}\n")
    folder.write("a.json", '{"name": "a", "connector.class": "A"}')
    assert folder.configs() == {"game/a": {"connector.class": "A"}}


CASES = {
    '{"name": "a", "config": {"k": "1",\n  "k": "2"}}': "a.json:2:3: duplicate key k, first in line 1",
    '{"name": "a",\n "config": {"k": }}': "a.json:2:18: a JSON value is missing here",
    '{"name": "a", "config": {"k": 1}, }': "a.json:1:35: a key in quotation marks is missing here",
    '{"name": "a" "config"': "a.json:1:14: , or } is missing here",
    '{"name": "a\n"}': "a.json:1:10: unterminated string",
    '{"name": "\\q"}': "a.json:1:10: unterminated string, line break in a string, or invalid escape",
    "[1]": "a.json:1:2: a connector must be a JSON object",
    "": "a.json:1:1: a JSON value is missing here",
    "{} {}": "a.json:1:4: unexpected text after the end",
    "{}": "a.json:1:1: not a connector",
    '{"config": {}}': "a.json:1:1: name is required and must be a string",
    '{"name": 1, "config": {}}': "a.json:1:10: name is required and must be a string",
    '{"name": "a", "config": []}': "a.json:1:25: config must be a JSON object",
    '{"name": "a", "config": {}, "tasks": []}': "a.json:1:29: Connect does not accept tasks here",
    '{"name": "a", "config": {"connector.class": "A", "k": {}}}': "a.json:1:55: k is not a single value",
    '{"name": "a", "config": {"connector.class": "A", "k": null}}': "a.json:1:50: k is null",
    '{"name": "a", "config": {"connector.class": "A", "k": NaN}}': "a.json:1:55: a JSON value is missing here",
    '{"name": "a", "config": {"connector.class": "A", "k": 01}}': "a.json:1:55: a JSON value is missing here",
    "[" * 30: "a.json:1:21: it is nested more than 20 levels deep",
}


@pytest.mark.parametrize("text", CASES)
def test_a_broken_file_says_where(folder, text):
    folder.write("a.json", text)
    error = folder.fail()
    assert isinstance(error, SpecError)
    assert error.cause.startswith(CASES[text])


def plain(node):
    if isinstance(node, SequenceNode):
        return [plain(part) for part in node.nodes]
    if isinstance(node, MappingNode):
        return {name: plain(value) for name, (_, value) in node.entries.items()}
    assert isinstance(node, ScalarNode)
    return node.text if node.style else json.loads(node.text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


@given(VALUES, st.sampled_from([None, 2]), st.booleans())
def test_any_json_is_read_as_python_reads_it(value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert plain(parse_json(Document("x.json", text))) == value


@given(st.text(st.sampled_from('{}[],:"\\ \n01.-eatrufl'), max_size=25))
def test_any_text_is_read_or_refused_as_python_does(text):
    try:
        expected = json.loads(text, object_pairs_hook=_refuse_twice)
    except (ValueError, RecursionError):
        with pytest.raises(SpecError):
            parse_json(Document("x.json", text))
    else:
        assert plain(parse_json(Document("x.json", text))) == expected


def _refuse_twice(pairs):
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found
