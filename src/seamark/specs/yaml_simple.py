"""The plain part of YAML, read fast: block tables and lists, texts on one line, `|` blocks, flow on one line.

Anything else (anchors, tags, folded or continued texts, tabs, errors of any kind) gives None, and the file is read by
the whole grammar. So this reader never has to explain a mistake.
"""

from __future__ import annotations

import re

from seamark.specs.nodes import MAX_DEPTH, Items, Node, Scalar, Table
from seamark.specs.yaml_flow import ComplexError, parse_flow, parse_quoted

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
_NULLS = frozenset({"~", "null", "Null", "NULL"})


def parse_simple(text: str) -> Table | None:
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

    def read(self) -> Table:
        if self._lines and text_of(self._text, self._lines[0]) == "---":
            self._next = 1
        if self._next >= len(self._lines) or self._lines[self._next][0]:
            raise ComplexError
        root = self._read_table(0, depth=1)
        if self._next < len(self._lines):
            raise ComplexError
        return root

    def _read_table(self, indent: int, *, depth: int) -> Table:
        if depth > MAX_DEPTH:
            raise ComplexError
        entries: dict[str, tuple[Scalar, Node]] = {}
        value: Node
        lines, text = self._lines, self._text
        start = end = lines[self._next][1]
        while self._next < len(lines) and lines[self._next][0] == indent:
            _, at, last = lines[self._next]
            usual = _USUAL.fullmatch(text, at, last)
            if usual is not None and usual[1] not in entries and usual[1] not in _NULLS:
                name, word = usual.groups()
                first = last - len(word)
                value = Scalar(word, first, last, "", word in _NULLS)
                entries[name] = (Scalar(name, at, at + len(name)), value)
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
            key = Scalar(name, at, key_end, "" if found[1] else text[at])
            value = self._read_value(found.end(), last, indent=indent, after_key=key_end + 1, depth=depth)
            entries[name] = (key, value)
            end = value.end
        self._refuse_deeper(indent)
        return Table(entries, start, end)

    def _refuse_deeper(self, indent: int) -> None:
        """A deeper line here would go on with the text above it, or be a mistake."""
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
        return Scalar("", after_key, after_key, is_null=True)

    def _read_items(self, indent: int, *, depth: int) -> Items:
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
        return Items(tuple(nodes), start, nodes[-1].end)

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

    def _read_plain(self, at: int, last: int) -> Scalar:
        if not _PLAIN.match(self._text, at, last):
            raise ComplexError
        stop = _END_OF_PLAIN.search(self._text, at, last)
        if stop is not None:
            if stop[0][0] == ":":
                raise ComplexError
            last = stop.start()
        word = self._text[at:last]
        return Scalar(word, at, last, is_null=word in _NULLS)

    def _read_literal(self, at: int, last: int, *, indent: int) -> Scalar:
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
        return Scalar(body, at, end, "|")


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
