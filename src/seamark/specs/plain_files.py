"""Read JSON and properties files as trees of texts with their locations. Numbers keep their notation, as in Connect."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from seamark.context.properties import MalformedEscapeError, parse_properties
from seamark.context.yaml import MAX_DEPTH, MappingNode, Node, ScalarNode, SequenceNode
from seamark.core.files import FileLocation
from seamark.errors import SpecError
from seamark.specs.document import Document, build_spec_error
from seamark.specs.layers import ConfigLeaf, Layer, build_connector, check_name, check_state, settle_reference
from seamark.specs.model import Contents, Definition, Maker

_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'"((?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*)"')
_WORD = re.compile(r"(?:-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)(?![\w.+-])")


def parse_json(document: Document) -> Node:
    """Parse the single value of the text. A duplicate key is an error, because its meaning is ambiguous."""
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
            raise self._document.error(self._position, "unexpected text after the end of the JSON")
        return node

    def _skip(self) -> str:
        """Skip to the next significant character and return it; empty at the end."""
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
        return ScalarNode(found[0], found.start(), found.end(), is_null=found[0] == "null")

    def _parse_string(self) -> ScalarNode:
        start = self._position
        found = _STRING.match(self._text, start)
        if found is None:
            raise self._document.error(
                start,
                "unterminated string, line break in a string, or invalid escape",
                hint="write a backslash as \\\\",
            )
        self._position = found.end()
        text = found[1] if "\\" not in found[1] else str(json.loads(found[0]))
        return ScalarNode(text, start, found.end(), '"')

    def _parse_object(self, depth: int) -> MappingNode:
        start = self._position
        entries: dict[str, tuple[ScalarNode, Node]] = {}
        self._position += 1
        char = self._skip()
        while char != "}" or entries:
            if char != '"':
                raise self._document.error(self._position, "a key in quotation marks is missing here")
            key = self._parse_string()
            if key.text in entries:
                first = self._document.place(entries[key.text][0])
                raise self._document.error(key, f"duplicate key {key.text}, first in line {first.line}")
            self._expect(":")
            self._skip()
            entries[key.text] = (key, self._parse_value(depth=depth + 1))
            if self._expect(",", "}") == "}":
                return MappingNode(entries, start, self._position, is_flow=True)
            char = self._skip()
        self._position += 1
        return MappingNode(entries, start, self._position, is_flow=True)

    def _parse_array(self, depth: int) -> SequenceNode:
        start = self._position
        nodes: list[Node] = []
        self._position += 1
        char = self._skip()
        while char != "]" or nodes:
            nodes.append(self._parse_value(depth=depth + 1))
            if self._expect(",", "]") == "]":
                return SequenceNode(tuple(nodes), start, self._position, is_flow=True)
            char = self._skip()
        self._position += 1
        return SequenceNode((), start, self._position, is_flow=True)

    def _expect(self, *wanted: str) -> str:
        char = self._skip()
        if char not in wanted:
            raise self._document.error(self._position, f"{' or '.join(wanted)} is missing here")
        self._position += 1
        return char


_HOW = 'write {"name": "…", "config": {…}}; to exclude the file, start its name with _'
_KEYS = frozenset({"name", "config", "initial_state"})
_TOLD = frozenset({"tasks", "type"})


def read_json_file(document: Document, *, cluster: str | None) -> Contents:
    """Read every connector of the file. Nothing is filled in, and no defaults apply: Connect gets it as it is."""
    root = parse_json(document)
    parts = root.nodes if isinstance(root, SequenceNode) else (root,)
    return Contents(tuple(_build(part, document, cluster=cluster) for part in parts))


def _build(node: Node, document: Document, *, cluster: str | None) -> Definition:
    if not isinstance(node, MappingNode):
        raise document.error(node, "a connector must be a JSON object", hint=_HOW)
    if "connector.class" in node.entries:
        entry, config, state = node, node, ""
    else:
        entry, config, state = node, _find_config(node, document), _find_state(node, document)
    name = _find_text(entry, "name", document)
    own: Layer = dict(_read_config(config, document))
    connector = build_connector(
        check_name(name.text, document.place(name)),
        {key: settle_reference(leaf.scalar.text, document.folder) for key, leaf in own.items()},
        place=document.place(node),
        cluster=cluster,
        state=state,
    )
    return Definition(connector, Maker.JSON, document, entry, own)


def _find_config(node: MappingNode, document: Document) -> MappingNode:
    for name, (key, _) in node.entries.items():
        if name not in _KEYS:
            hint = "remove it: Connect returns it and does not accept it" if name in _TOLD else _HOW
            raise document.error(key, f"Connect does not accept {name} here", hint=hint)
    if "config" not in node.entries:
        raise document.error(node, "not a connector: config and connector.class are missing", hint=_HOW)
    config = node.entries["config"][1]
    if not isinstance(config, MappingNode):
        raise document.error(config, "config must be a JSON object", hint=_HOW)
    return config


def _find_state(node: MappingNode, document: Document) -> str:
    if "initial_state" not in node.entries:
        return ""
    found = _find_text(node, "initial_state", document)
    return check_state(found.text, document.place(found))


def _find_text(node: MappingNode, key: str, document: Document) -> ScalarNode:
    found = node.entries[key][1] if key in node.entries else None
    if not isinstance(found, ScalarNode) or found.style != '"':
        raise document.error(found or node, f"{key} is required and must be a string", hint=_HOW)
    return found


def _read_config(config: MappingNode, document: Document) -> Iterator[tuple[str, ConfigLeaf]]:
    for name, (key, value) in config.entries.items():
        if not isinstance(value, ScalarNode):
            raise document.error(
                value, f"{name} is not a single value", hint="quote it, because Connect accepts only strings"
            )
        if value.is_null:
            raise document.error(key, f"{name} is null", hint='remove the key, or write ""')
        yield name, ConfigLeaf(value, document)


def read_properties_file(document: Document, *, cluster: str | None) -> Contents:
    """Read the connector of the file. As in Java, the last value of a duplicate key is used."""
    malformed: SpecError | None = None
    try:
        found = {entry.key: entry for entry in parse_properties(document.text)}
    except MalformedEscapeError as error:
        malformed = build_spec_error(
            FileLocation(document.file, error.line, 1),
            "\\u must be followed by four hexadecimal digits",
            hint="write a backslash as \\\\",
        )
    if malformed is not None:
        raise malformed
    if "name" not in found or not found["name"].value:
        raise build_spec_error(
            FileLocation(document.file, 1, 1),
            "not a connector: name is missing",
            hint="add name=…; to exclude the file, start its name with _",
        )
    # Lines replace offsets here: such a file is changed by whole lines.
    own: Layer = {
        key: ConfigLeaf(ScalarNode(entry.value, entry.line, entry.last_line), document) for key, entry in found.items()
    }
    connector = build_connector(
        found["name"].value,
        {key: settle_reference(entry.value, document.folder) for key, entry in found.items()},
        place=FileLocation(document.file, found["name"].line, 1),
        cluster=cluster,
        state="",
    )
    return Contents((Definition(connector, Maker.PROPERTIES, document, own=own),))
