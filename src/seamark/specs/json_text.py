"""JSON as a tree of texts with their places. Numbers stay as they are spelled, as Connect keeps them."""

from __future__ import annotations

import json
import re

from seamark.specs.nodes import MAX_DEPTH, Document, Items, Node, Scalar, Table

_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'"((?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*)"')
_WORD = re.compile(r"(?:-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)(?![\w.+-])")


def parse_json(document: Document) -> Node:
    """The only value of the text. A key that stands twice is an error: nobody knows which one is meant."""
    return _Parser(document).parse()


class _Parser:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._text = document.text
        self._position = 0

    def parse(self) -> Node:
        self._skip()
        node = self._parse_value(depth=1)
        self._skip()
        if self._position < len(self._text):
            raise self._document.error(self._position, "something stands behind the end of the JSON")
        return node

    def _skip(self) -> str:
        """Go to the next character that counts, and give it; empty at the end."""
        found = _SPACE.match(self._text, self._position)
        self._position = found.end() if found else self._position
        return self._text[self._position : self._position + 1]

    def _parse_value(self, *, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self._document.error(self._position, f"it is nested more than {MAX_DEPTH} levels deep")
        char = self._text[self._position : self._position + 1]
        if char == '"':
            return self._parse_string()
        if char == "{":
            return self._parse_object(depth)
        if char == "[":
            return self._parse_array(depth)
        found = _WORD.match(self._text, self._position)
        if found is None:
            raise self._document.error(self._position, "a JSON value is missing here")
        self._position = found.end()
        return Scalar(found[0], found.start(), found.end(), is_null=found[0] == "null")

    def _parse_string(self) -> Scalar:
        start = self._position
        found = _STRING.match(self._text, start)
        if found is None:
            raise self._document.error(
                start, "this text has no end, a line break in it, or a wrong escape", hint="a backslash is written \\\\"
            )
        self._position = found.end()
        text = found[1] if "\\" not in found[1] else str(json.loads(found[0]))
        return Scalar(text, start, found.end(), '"')

    def _parse_object(self, depth: int) -> Table:
        start = self._position
        entries: dict[str, tuple[Scalar, Node]] = {}
        self._position += 1
        char = self._skip()
        while char != "}" or entries:
            if char != '"':
                raise self._document.error(self._position, "a key in quotation marks is missing here")
            key = self._parse_string()
            if key.text in entries:
                first = self._document.place(entries[key.text][0])
                raise self._document.error(key, f"the key {key.text} is here twice, first in line {first.line}")
            self._expect(":")
            self._skip()
            entries[key.text] = (key, self._parse_value(depth=depth + 1))
            if self._expect(",", "}") == "}":
                return Table(entries, start, self._position, is_flow=True)
            char = self._skip()
        self._position += 1
        return Table(entries, start, self._position, is_flow=True)

    def _parse_array(self, depth: int) -> Items:
        start = self._position
        nodes: list[Node] = []
        self._position += 1
        char = self._skip()
        while char != "]" or nodes:
            nodes.append(self._parse_value(depth=depth + 1))
            if self._expect(",", "]") == "]":
                return Items(tuple(nodes), start, self._position, is_flow=True)
            char = self._skip()
        self._position += 1
        return Items((), start, self._position, is_flow=True)

    def _expect(self, *wanted: str) -> str:
        char = self._skip()
        if char not in wanted:
            raise self._document.error(self._position, f"{' or '.join(wanted)} is missing here")
        self._position += 1
        return char
