"""YAML as a tree of texts, each with its place: the reader of contexts files and of spec files.

The plain part of YAML (block tables and lists, texts on one line, `|` blocks, flow on one line) is read by code of
seamark; anchors, tags, folded or continued texts, tabs and errors of any kind are left to ruamel.yaml, so that the fast
reader never has to explain a mistake. Decision 0010 has the reason.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from seamark.context.files import build_file_error
from seamark.core.files import FileLocation
from seamark.errors import ConfigurationError

MAX_DEPTH = 20
"""The deepest key of a spec file is at level 6, of a contexts file at 5; more room only helps the error to be exact."""

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


@dataclass(frozen=True, slots=True)
class YamlRules:
    """What a kind of file may hold. `max_size` is that of its tree with all aliases expanded.

    The size is the number of nodes, or with `counts_characters` that of the characters in them. In a file that
    `is_edited`, a text that came by an alias is placed where the alias stands, so that it can be replaced there.
    """

    what: str
    max_size: int
    counts_characters: bool = False
    max_aliases: int | None = None
    has_merge_keys: bool = False
    is_edited: bool = False


# Tuples, because a large fleet has some hundred thousand of them.


class ScalarNode(NamedTuple):
    """A text. `start` and `end` are offsets in the file.

    `style` is empty for a plain text, a quotation mark, `|`, `>`, or `*` for an alias. `is_shared` is true where the
    text stands elsewhere and came here by an alias or a merge key, or has an anchor by which others refer to it.
    """

    text: str
    start: int
    end: int
    style: str = ""
    is_null: bool = False
    is_shared: bool = False

    def __repr__(self) -> str:
        # The text may be a secret.
        return f"ScalarNode(start={self.start}, end={self.end})"


class SequenceNode(NamedTuple):
    """A list."""

    nodes: tuple[Node, ...]
    start: int
    end: int
    is_flow: bool = False
    is_shared: bool = False


class MappingNode(NamedTuple):
    """Keys and values, in the order of the file."""

    entries: dict[str, tuple[ScalarNode, Node]]
    start: int
    end: int
    is_flow: bool = False
    is_shared: bool = False


Node = ScalarNode | SequenceNode | MappingNode


class YamlDocument:
    """The text of one file, and where in it an offset is."""

    def __init__(self, file: str, text: str, *, rules: YamlRules) -> None:
        self.file = file
        self.text = text
        self.rules = rules

    def __repr__(self) -> str:
        # The text may hold secrets.
        return f"{type(self).__name__}({self.file!r})"

    @cached_property
    def _line_starts(self) -> list[int]:
        starts, position = [0], self.text.find("\n")
        while position >= 0:
            starts.append(position + 1)
            position = self.text.find("\n", position + 1)
        return starts

    def place(self, at: Node | int) -> FileLocation:
        """Where a node, or an offset, stands."""
        offset = at if isinstance(at, int) else at.start
        line = bisect_right(self._line_starts, offset)
        return FileLocation(self.file, line, offset - self._line_starts[line - 1] + 1)

    def line_end(self, offset: int) -> int:
        """The offset of the line break that ends the line of an offset, or of the text's end."""
        end = self.text.find("\n", offset)
        return len(self.text) if end < 0 else end

    def error(self, at: Node | int, problem: str, *, hint: str = "") -> ConfigurationError:
        """The error for one spot of this file."""
        return build_file_error(ConfigurationError, self.place(at), problem, hint=hint)


def parse_yaml(document: YamlDocument) -> Node | None:
    """Return the tree of the only YAML document in the text, or None where there is none.

    Raises:
        ConfigurationError: the text isn't YAML, or breaks the rules of the file.
    """
    # ruamel takes 50 to 150 µs for each key: half a minute for a fleet of ten thousand connectors. The plain part of
    # the grammar takes a fiftieth of that. Both give the same tree, which a test tries with texts of every kind.
    simple = parse_simple(document.text)
    return simple if simple is not None else parse_events(document)


def parse_events(document: YamlDocument) -> Node | None:
    """Return the same tree from the events of ruamel.yaml: the whole grammar."""
    from ruamel.yaml import YAML  # noqa: PLC0415 - it costs more than the rest of the package
    from ruamel.yaml.error import MarkedYAMLError, YAMLError  # noqa: PLC0415

    problem, at = "", 0
    try:
        return _TreeBuilder(YAML(typ="safe", pure=True).parse(document.text), document).build()
    except MarkedYAMLError as error:
        # What stands in quotation marks was taken from the file, and may be a secret.
        problem = _QUOTED.sub("…", error.problem or error.context or "it is not YAML")
        at = error.problem_mark.index if error.problem_mark is not None else 0
    except YAMLError as error:
        problem, at = "a character that YAML does not allow", getattr(error, "position", 0)
    # Raised outside of `except`, so that no traceback carries the parser's copy of the file.
    raise document.error(at, problem)


# Nothing is ever constructed from a tag, so a file can't name code, and every text stays as it is written: `010`, `yes`
# and `12:30` are texts.


class _TreeBuilder:
    """Turns events into a tree, with limits on its depth and on its size with all aliases expanded."""

    def __init__(self, events: Iterator[Any], document: YamlDocument) -> None:
        self._events = events
        self._document = document
        self._rules = document.rules
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._aliases = 0

    def build(self) -> Node | None:
        root: Node | None = None
        documents = 0
        for event in self._events:
            kind = type(event).__name__
            if kind == "DocumentStartEvent":
                documents += 1
                if documents > 1:
                    raise self._error(event, f"a second document starts here; {self._rules.what} has one")
            elif kind not in {"StreamStartEvent", "DocumentEndEvent", "StreamEndEvent"}:
                root, _ = self._build_node(event, depth=1)
        return root

    def _build_node(self, event: Any, *, depth: int) -> tuple[Node, int]:
        """The node that starts with this event, and its size with all aliases expanded."""
        kind = type(event).__name__
        if kind == "AliasEvent":
            return self._follow(event)
        if event.tag is not None:
            raise self._error(event, "tags are not supported", hint="put the text in quotation marks")
        if depth > MAX_DEPTH:
            raise self._error(event, f"it is nested more than {MAX_DEPTH} levels deep")
        if kind == "ScalarEvent":
            node, size = self._build_scalar(event)
        elif kind == "SequenceStartEvent":
            node, size = self._build_items(event, depth)
        else:
            node, size = self._build_table(event, depth)
        if event.anchor is not None:
            node = node._replace(is_shared=True)
            self._anchors[event.anchor] = (node, size)
        return node, size

    def _follow(self, event: Any) -> tuple[Node, int]:
        self._aliases += 1
        if self._rules.max_aliases is not None and self._aliases > self._rules.max_aliases:
            raise self._error(event, f"more than {self._rules.max_aliases} aliases")
        if event.anchor not in self._anchors:
            raise self._error(
                event, "an alias without its anchor", hint="a text that starts with * needs quotation marks"
            )
        node, size = self._anchors[event.anchor]
        if self._rules.is_edited and isinstance(node, ScalarNode):
            # It may be replaced where the alias stands; the anchor's own text stays.
            start, end = event.start_mark.index, event.end_mark.index
            return node._replace(start=start, end=end, style="*", is_shared=False), size
        return node, size

    def _build_scalar(self, event: Any) -> tuple[Node, int]:
        is_plain = event.implicit[0]
        start, end = event.start_mark.index, event.end_mark.index
        style = event.style or ""
        if style in {"|", ">"}:
            end = self._document.line_end(start + len(self._document.text[start:end].rstrip(" \r\n")))
        node = ScalarNode(event.value, start, end, style, is_null=is_plain and event.value in _NULLS)
        return node, len(event.value) + 1 if self._rules.counts_characters else 1

    def _build_items(self, event: Any, depth: int) -> tuple[Node, int]:
        nodes: list[Node] = []
        total = 1
        while type(part := next(self._events)).__name__ != "SequenceEndEvent":
            node, size = self._build_node(part, depth=depth + 1)
            nodes.append(node)
            total = self._add(total, size, part)
        return SequenceNode(tuple(nodes), event.start_mark.index, part.end_mark.index, bool(event.flow_style)), total

    def _build_table(self, event: Any, depth: int) -> tuple[Node, int]:
        entries: dict[str, tuple[ScalarNode, Node]] = {}
        merged: list[MappingNode] = []
        total = 1
        while type(part := next(self._events)).__name__ != "MappingEndEvent":
            key, key_size = self._build_node(part, depth=depth + 1)
            if not isinstance(key, ScalarNode):
                raise self._error(part, "a key must be a single text")
            is_merge = self._rules.has_merge_keys and key.text == "<<" and not key.style
            if key.text in entries and not is_merge:
                first = self._document.place(entries[key.text][0])
                raise self._error(part, f"duplicate key {key.text}, first in line {first.line}")
            value, size = self._build_node(next(self._events), depth=depth + 1)
            if isinstance(value, ScalarNode) and value.start == value.end:
                # The parser puts a missing value before whatever comes next; it belongs behind its colon.
                behind = max(self._document.text.find(":", key.end), key.end - 1) + 1
                value = value._replace(start=behind, end=behind)
            total = self._add(total, key_size + size, part)
            if is_merge:
                merged += self._find_merged(part, value)
            else:
                entries[key.text] = (key, value)
        for table in merged:
            for name, (key, value) in table.entries.items():
                entries.setdefault(name, (key, value._replace(is_shared=True)))
        return MappingNode(entries, event.start_mark.index, part.end_mark.index, bool(event.flow_style)), total

    def _add(self, total: int, size: int, event: Any) -> int:
        """Both sizes. Checked with every part: what comes by merge keys is copied, so a bomb must be stopped early."""
        if total + size > self._rules.max_size:
            unit = "characters" if self._rules.counts_characters else "parts"
            raise self._error(event, f"with its aliases expanded it has more than {self._rules.max_size} {unit}")
        return total + size

    def _find_merged(self, event: Any, value: Node) -> list[MappingNode]:
        """The tables behind a merge key; the first one that has a key wins."""
        found = value.nodes if isinstance(value, SequenceNode) else (value,)
        tables = [node for node in found if isinstance(node, MappingNode)]
        if len(tables) != len(found):
            raise self._error(event, "<< needs an alias of a mapping, or a list of them")
        return tables

    def _error(self, event: Any, problem: str, *, hint: str = "") -> ConfigurationError:
        return self._document.error(event.start_mark.index, problem, hint=hint)


_SINGLE = re.compile(r"'((?:[^'\n]|'')*)'(?!')")
_DOUBLE = re.compile(r'"((?:[^"\\\n]|\\(?:["\\/0abtnvfre ]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}))*)"')
_ESCAPE = re.compile(r"\\(?:([^xuU])|x(..)|u(.{4})|U(.{8}))")
_ESCAPES = {
    '"': '"', "\\": "\\", "/": "/", "0": "\0", "a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f",
    "r": "\r", "e": "\x1b", " ": " ",
}  # fmt: skip
# Narrow on purpose: no colon, no comma, no brackets, no quotation marks, single blanks only.
_WORD = re.compile(r"[A-Za-z0-9_./](?:[A-Za-z0-9_./+@=;()<>-]| (?=[A-Za-z0-9_./]))*")


class ComplexError(Exception):
    """The file is not plain: the whole grammar is needed. Never leaves this module."""


def parse_quoted(text: str, at: int, last: int) -> ScalarNode:
    """The text in quotation marks that begins at `at`."""
    found = (_DOUBLE if text[at] == '"' else _SINGLE).match(text, at, last)
    if found is None:
        raise ComplexError
    if text[at] == "'":
        return ScalarNode(found[1].replace("''", "'"), at, found.end(), "'")
    body = found[1] if "\\" not in found[1] else _ESCAPE.sub(_unescape, found[1])
    return ScalarNode(body, at, found.end(), '"')


def _unescape(found: re.Match[str]) -> str:
    if found[1] is not None:
        return _ESCAPES[found[1]]
    code = int(found[2] or found[3] or found[4], 16)
    if code > 0x10FFFF:
        raise ComplexError
    return chr(code)


def parse_flow(text: str, at: int, last: int, *, depth: int) -> Node:
    """The flow table or list that begins at `at`. Its `end` is where it ends."""
    if depth > MAX_DEPTH:
        raise ComplexError
    return _parse_table(text, at, last, depth) if text[at] == "{" else _parse_items(text, at, last, depth)


def _parse_node(text: str, at: int, last: int, depth: int) -> Node:
    char = text[at : at + 1]
    if char in {"{", "["}:
        return parse_flow(text, at, last, depth=depth + 1)
    return _parse_text(text, at, last)


def _parse_text(text: str, at: int, last: int) -> ScalarNode:
    if text[at : at + 1] in {'"', "'"}:
        return parse_quoted(text, at, last)
    found = _WORD.match(text, at, last)
    if found is None:
        raise ComplexError
    return ScalarNode(found[0], at, found.end(), is_null=found[0] in _NULLS)


def _skip(text: str, at: int, last: int) -> int:
    while at < last and text[at] == " ":
        at += 1
    return at


def _parse_items(text: str, at: int, last: int, depth: int) -> SequenceNode:
    nodes: list[Node] = []
    position = _skip(text, at + 1, last)
    while text[position : position + 1] != "]" or nodes:
        node = _parse_node(text, position, last, depth)
        nodes.append(node)
        position = _skip(text, node.end, last)
        if position >= last or text[position] not in ",]":
            raise ComplexError
        if text[position] == "]":
            break
        position = _skip(text, position + 1, last)
    return SequenceNode(tuple(nodes), at, position + 1, is_flow=True)


def _parse_table(text: str, at: int, last: int, depth: int) -> MappingNode:
    entries: dict[str, tuple[ScalarNode, Node]] = {}
    position = _skip(text, at + 1, last)
    while text[position : position + 1] != "}" or entries:
        key = _parse_text(text, position, last)
        if key.text in entries or key.is_null or text[key.end : key.end + 2] != ": ":
            raise ComplexError
        node = _parse_node(text, _skip(text, key.end + 2, last), last, depth)
        entries[key.text] = (key, node)
        position = _skip(text, node.end, last)
        if position >= last or text[position] not in ",}":
            raise ComplexError
        if text[position] == "}":
            break
        position = _skip(text, position + 1, last)
    return MappingNode(entries, at, position + 1, is_flow=True)


# Tabs, carriage returns, other line breaks, and what YAML does not allow at all.
_STRANGE = re.compile(r"[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_LINE = re.compile(r"^( *)([^ \n#](?:.*[^ \n])?) *$", re.MULTILINE)
_KEY = re.compile(r"(?:([A-Za-z0-9_][A-Za-z0-9_./-]*)|(\"[^\"\\\n]*\")|('[^'\n]*')):(?: +|$)", re.MULTILINE)
_DASH = re.compile(r"-(?: +|$)", re.MULTILINE)
# A plain text may begin with these; what may follow is checked by _END_OF_PLAIN.
_PLAIN = re.compile(r"[A-Za-z0-9_./$^()+\\<;~=]|-(?=[A-Za-z0-9])")
_END_OF_PLAIN = re.compile(r" +#|: |:$", re.MULTILINE)
# Most lines: a plain key and a plain text that has neither a colon nor a comment in it.
_USUAL = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_./-]*): +([A-Za-z0-9_./$][^:#\n]*)")
_REST = re.compile(r" *(?: #.*)?$", re.MULTILINE)
_LITERAL = re.compile(r"\|([+-]?)(?: +#.*)?$", re.MULTILINE)


def parse_simple(text: str) -> MappingNode | None:
    """The tree of a plain file, or None for any other."""
    if _STRANGE.search(text):
        return None
    try:
        return _Reader(text).read()
    except ComplexError:
        return None


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        # Indent, first and last offset of every line that holds something; lines of `|` blocks are jumped over.
        self._lines = [(len(found[1]), found.start(2), found.end(2)) for found in _LINE.finditer(text)]
        self._next = 0

    def read(self) -> MappingNode:
        if self._lines and text_of(self._text, self._lines[0]) == "---":
            self._next = 1
        if self._next >= len(self._lines) or self._lines[self._next][0]:
            raise ComplexError
        root = self._read_table(0, depth=1)
        if self._next < len(self._lines):
            raise ComplexError
        return root

    def _read_table(self, indent: int, *, depth: int) -> MappingNode:
        if depth > MAX_DEPTH:
            raise ComplexError
        entries: dict[str, tuple[ScalarNode, Node]] = {}
        value: Node
        lines, text = self._lines, self._text
        start = end = lines[self._next][1]
        while self._next < len(lines) and lines[self._next][0] == indent:
            _, at, last = lines[self._next]
            usual = _USUAL.fullmatch(text, at, last)
            if usual is not None and usual[1] not in entries and usual[1] not in _NULLS:
                name, word = usual.groups()
                first = last - len(word)
                value = ScalarNode(word, first, last, "", word in _NULLS)
                entries[name] = (ScalarNode(name, at, at + len(name)), value)
                self._next += 1
                end = last
                continue
            found = _KEY.match(text, at, last)
            if found is None:
                raise ComplexError
            name = found[1] or (found[2] or found[3])[1:-1]
            if name in entries or (found[1] and name in _NULLS):
                raise ComplexError
            key_end = at + len(found[0].rstrip(" ")) - 1
            key = ScalarNode(name, at, key_end, "" if found[1] else text[at])
            value = self._read_value(found.end(), last, indent=indent, after_key=key_end + 1, depth=depth)
            entries[name] = (key, value)
            end = value.end
        self._refuse_deeper(indent)
        return MappingNode(entries, start, end)

    def _refuse_deeper(self, indent: int) -> None:
        """A deeper line here would continue the text above it, or be a mistake."""
        if self._next < len(self._lines) and self._lines[self._next][0] > indent:
            raise ComplexError

    def _read_value(self, at: int, last: int, *, indent: int, after_key: int, depth: int) -> Node:
        """What stands behind a key: on its line, or below it."""
        if at >= last or self._text[at] == "#":
            self._next += 1
            return self._read_below(indent, after_key=after_key, depth=depth)
        return self._read_inline(at, last, indent=indent, depth=depth)

    def _read_below(self, indent: int, *, after_key: int, depth: int) -> Node:
        if self._next < len(self._lines):
            below, at, last = self._lines[self._next]
            is_list = _DASH.match(self._text, at, last) is not None
            if is_list and below >= indent:
                return self._read_items(below, depth=depth + 1)
            if below > indent:
                return self._read_table(below, depth=depth + 1)
        return ScalarNode("", after_key, after_key, is_null=True)

    def _read_items(self, indent: int, *, depth: int) -> SequenceNode:
        if depth > MAX_DEPTH:
            raise ComplexError
        nodes: list[Node] = []
        start = self._lines[self._next][1]
        while self._next < len(self._lines) and self._lines[self._next][0] == indent:
            _, at, last = self._lines[self._next]
            dash = _DASH.match(self._text, at, last)
            if dash is None:
                break
            nodes.append(self._read_item(dash.end(), last, indent=indent, depth=depth))
        self._refuse_deeper(indent)
        return SequenceNode(tuple(nodes), start, nodes[-1].end)

    def _read_item(self, at: int, last: int, *, indent: int, depth: int) -> Node:
        if at >= last or self._text[at] == "#" or _DASH.match(self._text, at, last):
            raise ComplexError
        if _KEY.match(self._text, at, last):
            # `- key: value` is a table whose first line begins behind the dash.
            inner = at - self._lines[self._next][1] + indent
            self._lines[self._next] = (inner, at, last)
            return self._read_table(inner, depth=depth + 1)
        return self._read_inline(at, last, indent=indent, depth=depth)

    def _read_inline(self, at: int, last: int, *, indent: int, depth: int) -> Node:
        text = self._text
        char = text[at]
        node: Node
        if char == "|":
            return self._read_literal(at, last, indent=indent)
        if char in "\"'":
            node = parse_quoted(text, at, last)
        elif char in "{[":
            node = parse_flow(text, at, last, depth=depth)
        else:
            node = self._read_plain(at, last)
        if not _REST.match(text, node.end, last):
            raise ComplexError
        self._next += 1
        return node

    def _read_plain(self, at: int, last: int) -> ScalarNode:
        if not _PLAIN.match(self._text, at, last):
            raise ComplexError
        stop = _END_OF_PLAIN.search(self._text, at, last)
        if stop is not None:
            if stop[0][0] == ":":
                raise ComplexError
            last = stop.start()
        word = self._text[at:last]
        return ScalarNode(word, at, last, is_null=word in _NULLS)

    def _read_literal(self, at: int, last: int, *, indent: int) -> ScalarNode:
        head = _LITERAL.match(self._text, at, last)
        if head is None or self._next + 1 >= len(self._lines):
            raise ComplexError
        first = self._text.find("\n", last) + 1
        rows, end, after = _cut_block(self._text, first, indent=indent)
        self._next += 1
        while self._next < len(self._lines) and self._lines[self._next][1] < after:
            self._next += 1
        body = "\n".join(rows)
        if head[1] == "-":
            body = body.rstrip("\n")
        elif head[1] == "":
            body = body.rstrip("\n") + "\n"
        else:
            body += "\n"
        return ScalarNode(body, at, end, "|")


def text_of(text: str, line: tuple[int, int, int]) -> str:
    """What stands on a line."""
    return text[line[1] : line[2]]


def _cut_block(text: str, first: int, *, indent: int) -> tuple[list[str], int, int]:
    """The rows of a `|` block that begins at `first`, where its last full row ends, and where the block ends."""
    rows: list[str] = []
    position, end, inner = first, first, 0
    while position < len(text):
        stop = text.find("\n", position)
        if stop < 0:
            # Without a last line break the rules of chomping differ.
            raise ComplexError
        row = text[position:stop]
        bare = row.lstrip(" ")
        if not bare and not inner and row:
            # Blanks before the first row say something about the indent.
            raise ComplexError
        if bare:
            depth = len(row) - len(bare)
            inner = inner or depth
            if depth < inner or inner <= indent:
                break
            end = stop
        rows.append(row[inner:])
        position = stop + 1
    if end == first:
        raise ComplexError
    return rows, end, position
