"""Flow tables and lists on one line, such as `{table: login, poll: 5000}`, and texts in quotation marks."""

from __future__ import annotations

import re

from seamark.specs.nodes import MAX_DEPTH, Items, Node, Scalar, Table

_SINGLE = re.compile(r"'((?:[^'\n]|'')*)'(?!')")
_DOUBLE = re.compile(r'"((?:[^"\\\n]|\\(?:["\\/0abtnvfre ]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}))*)"')
_ESCAPE = re.compile(r"\\(?:([^xuU])|x(..)|u(.{4})|U(.{8}))")
_ESCAPES = {
    '"': '"', "\\": "\\", "/": "/", "0": "\0", "a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f",
    "r": "\r", "e": "\x1b", " ": " ",
}  # fmt: skip
# Narrow on purpose: no colon, no comma, no brackets, no quotation marks, single blanks only.
_WORD = re.compile(r"[A-Za-z0-9_./](?:[A-Za-z0-9_./+@=;()<>-]| (?=[A-Za-z0-9_./]))*")
_NULLS = frozenset({"~", "null", "Null", "NULL"})


class ComplexError(Exception):
    """The file is not plain: the whole grammar is needed. Never leaves the package."""


def parse_quoted(text: str, at: int, last: int) -> Scalar:
    """The text in quotation marks that begins at `at`."""
    found = (_DOUBLE if text[at] == '"' else _SINGLE).match(text, at, last)
    if found is None:
        raise ComplexError
    if text[at] == "'":
        return Scalar(found[1].replace("''", "'"), at, found.end(), "'")
    body = found[1] if "\\" not in found[1] else _ESCAPE.sub(_unescape, found[1])
    return Scalar(body, at, found.end(), '"')


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


def _parse_text(text: str, at: int, last: int) -> Scalar:
    if text[at : at + 1] in {'"', "'"}:
        return parse_quoted(text, at, last)
    found = _WORD.match(text, at, last)
    if found is None:
        raise ComplexError
    return Scalar(found[0], at, found.end(), is_null=found[0] in _NULLS)


def _skip(text: str, at: int, last: int) -> int:
    while at < last and text[at] == " ":
        at += 1
    return at


def _parse_items(text: str, at: int, last: int, depth: int) -> Items:
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
    return Items(tuple(nodes), at, position + 1, is_flow=True)


def _parse_table(text: str, at: int, last: int, depth: int) -> Table:
    entries: dict[str, tuple[Scalar, Node]] = {}
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
    return Table(entries, at, position + 1, is_flow=True)
