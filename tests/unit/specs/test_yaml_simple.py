"""The fast reader of plain YAML gives what the whole grammar gives, or gives up."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.context.yaml import MappingNode, Node, ScalarNode, SequenceNode, parse_events, parse_simple
from seamark.errors import SpecError
from seamark.specs.document import Document

PLAIN_FILE = """\
# a comment
---
defaults:
  connector.class: io.aiven.connect.jdbc.JdbcSourceConnector   # which one
  connection.url: jdbc:postgresql://db.internal/game
  connection.user: ${file:/etc/kafka/db.properties:user}
  'quoted.key': 'it''s'
  "other.key": "tab\\there \\u00e9 #no comment"
  nothing:
  tilde: ~
each:
- name: log-${{ each.table }}
  for:
    - {table: login,    poll: 5000}
    - { table: purchase, poll: 1000, list: [a, "b", {c: d}], empty: {}, none: [] }
  config:
    query: |
      SELECT *, '{shard}' AS shard
        FROM {table}   # no comment in here

      WHERE a = 1
    after: 12:30
    minus: -1
    keep: |+
      text

  # a comment between
  state: STOPPED
topics:
  game-purchase: {partitions: 6, replication_factor: 3, config: {retention.ms: 604800000}}
list:
  - one
  - two words
"""


def shape(node: Node | None) -> object:
    """A tree without the ends of blocks, which nobody uses."""
    if isinstance(node, SequenceNode):
        return [node.start, node.is_flow, [shape(part) for part in node.nodes], node.end if node.is_flow else 0]
    if isinstance(node, MappingNode):
        entries = {name: (key, shape(value)) for name, (key, value) in node.entries.items()}
        return [node.start, node.is_flow, entries, node.end if node.is_flow else 0]
    return node


def check(text: str) -> bool:
    """Whether the fast reader took the text; it must then have read it right."""
    found = parse_simple(text)
    if found is not None:
        assert shape(found) == shape(parse_events(Document("x.yaml", text)))
    return found is not None


def test_a_usual_file_is_read_fast_and_right():
    assert check(PLAIN_FILE)


@pytest.mark.parametrize(
    "text",
    [
        "a: &x 1\nb: *x\n",
        "a: !!str 1\n",
        "a: one\n  two\n",
        "a: >\n  folded\n",
        "a: |2\n   deep\n",
        "a: 1\na: 2\n",
        "a:\tb\n",
        "a: b: c\n",
        "a: [1,\n  2]\n",
        "? a\n: b\n",
        "- a\n",
        "just text\n",
        "a: 1\n---\nb: 2\n",
        "a: 1\r\nb: 2\r\n",
        "<<: {a: b}\n",
        "a: 'open\n",
        'a: "\\q"\n',
        "a: @b\n",
        "a: |\n  x\n y: 1\n",
        "",
        "# nothing\n",
    ],
)
def test_what_is_not_plain_is_left_to_the_whole_grammar(text):
    assert not check(text)


WORDS = """\
a|a.b|x1|null|~|yes|010|12:30|1e3|-1|- x|''|""|'it''s'|"a\\nb"|a b|a #c|a: b|a:|#c|# c|{a: b}|[a, b]|{}|[]|{a: [b]}
${{ each.a }}|>|&a|*a|!x|?|%|@|`|é|😀|a  b|a,b|{a, b}|{a: }|---|...|<<|\t|a\tb|${file:/x:y}|"\\ud83d"|'a|"a|\\|a\\|=
"\\x00a"|"\\u00e9a"|"\\U0001f6000"|"\\x4"|"\\ \\/\\0"
<|a{b}|: a|[a,b]|{a: b, a: c}|{"a": 'b'}|{a:b}|[ a , b ]|[a b, c]|{a: b c}|"a"b|'a' # c|"a"  #c|"a"#c|- - a|-|$|<=|(a)
"""
WORD = st.one_of(
    st.sampled_from(WORDS.replace("\n", "|").split("|") + ["|", "|-", "|+", "| # c", "|2"]),  # noqa: RUF005
    st.text(st.sampled_from("ab01 .:#-'\"{}[],|>&*!?%@`$\\~é"), max_size=8),
)
LINE = st.builds(
    lambda indent, dash, key, value: " " * indent + dash + key + value,
    st.sampled_from([0, 0, 0, 2, 2, 2, 4, 4, 1, 3, 6]),
    st.sampled_from(["", "", "", "- ", "-", "-  "]),
    st.one_of(st.just(""), st.builds(lambda word: word + ": ", WORD), st.sampled_from(["a:", "b:", "c: ", "d:  "])),
    st.one_of(st.just(""), WORD),
)
LINES = st.lists(LINE, max_size=9)


@settings(max_examples=250, deadline=None)
@given(LINES, st.sampled_from(["\n", ""]))
def test_any_text_is_read_as_by_the_whole_grammar(lines, end):
    check("\n".join(lines) + end)


VALUE = st.one_of(WORD, st.sampled_from(["a b", "1", "'a'", '"b"', "{a: b, c: [d]}", "x # c", "", "|", "a-b.c/d"]))
KEYS = st.sampled_from(["", "", "", "- ", "  ", "  ", "  - ", "    "])


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(KEYS, VALUE), max_size=6))
def test_lines_with_keys_are_read_as_by_the_whole_grammar(lines):
    rows = [f"{before}k{number}: {value}\n" for number, (before, value) in enumerate(lines)]
    check("root:\n" + "".join(rows))


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["a", "b.c", "d-e", "f", "g"]),
        st.text(st.sampled_from("abc \n#:-'{}|"), max_size=20),
        min_size=1,
    ),
    st.sampled_from(["", "-", "+"]),
)
def test_blocks_are_read_as_by_the_whole_grammar(entries, chomp):
    text = ""
    for key, value in entries.items():
        rows = value.split("\n")
        text += f"{key}: |{chomp}\n" + "".join(f"  {row}\n" if row else "\n" for row in rows)
    check("x:\n" + "".join(f"  {line}\n" if line else "\n" for line in text.split("\n")))


def test_a_file_that_is_broken_is_never_taken():
    for text in ("a: {b: c\n", "a:\n  b: 1\n c: 2\n", "a: 'x' y\n", "a: %x\n"):
        assert parse_simple(text) is None
        with pytest.raises(SpecError) as caught:
            parse_events(Document("x.yaml", text))
        assert caught.value.cause.startswith("x.yaml:")


def test_scalars_keep_their_spelling():
    found = parse_simple("a: yes\nb: 010\nc: 12:30\nd: 1.0\ne: 1e3\nf: true\ng: 0x1F\n")
    assert isinstance(found, MappingNode)
    texts = [value.text for _, value in found.entries.values() if isinstance(value, ScalarNode)]
    assert texts == ["yes", "010", "12:30", "1.0", "1e3", "true", "0x1F"]
