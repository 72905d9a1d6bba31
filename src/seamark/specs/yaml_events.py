"""YAML 1.2 by its whole grammar: a tree built from the events of ruamel's parser.

Nothing is ever constructed from a tag, so a file can't name code, and every text stays as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from seamark.errors import SpecError
from seamark.specs.nodes import MAX_DEPTH, Document, Items, Node, Scalar, Table

# Aliases make a file larger than it is: this is the most that it may become. Ten thousand connectors of fifty keys
# are a million nodes.
MAX_NODES = 2_000_000

NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


def parse_events(document: Document) -> Node | None:
    """The only document of the text, or None where there is none."""
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


class _TreeBuilder:
    """Turns events into a tree, with limits on its depth and on its size with all aliases expanded."""

    def __init__(self, events: Iterator[Any], document: Document) -> None:
        self._events = events
        self._document = document
        self._anchors: dict[str, tuple[Node, int]] = {}

    def build(self) -> Node | None:
        root: Node | None = None
        documents = 0
        for event in self._events:
            kind = type(event).__name__
            if kind == "DocumentStartEvent":
                documents += 1
                if documents > 1:
                    raise self._error(event, "a second document starts here; a spec file has one")
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
        if event.anchor not in self._anchors:
            raise self._error(
                event, "an alias without its anchor", hint="a text that starts with * needs quotation marks"
            )
        node, size = self._anchors[event.anchor]
        start, end = event.start_mark.index, event.end_mark.index
        if isinstance(node, Scalar):
            # It may be replaced where the alias stands; the anchor's own text stays.
            return node._replace(start=start, end=end, style="*", is_shared=False), size
        return node, size

    def _build_scalar(self, event: Any) -> tuple[Node, int]:
        is_plain = event.implicit[0]
        start, end = event.start_mark.index, event.end_mark.index
        style = event.style or ""
        if style in {"|", ">"}:
            end = self._document.line_end(start + len(self._document.text[start:end].rstrip(" \r\n")))
        return Scalar(event.value, start, end, style, is_null=is_plain and event.value in NULLS), 1

    def _build_items(self, event: Any, depth: int) -> tuple[Node, int]:
        nodes: list[Node] = []
        total = 1
        while type(part := next(self._events)).__name__ != "SequenceEndEvent":
            node, size = self._build_node(part, depth=depth + 1)
            nodes.append(node)
            total = self._add(total, size, part)
        return Items(tuple(nodes), event.start_mark.index, part.end_mark.index, bool(event.flow_style)), total

    def _build_table(self, event: Any, depth: int) -> tuple[Node, int]:
        entries: dict[str, tuple[Scalar, Node]] = {}
        merged: list[Table] = []
        total = 1
        while type(part := next(self._events)).__name__ != "MappingEndEvent":
            key, _ = self._build_node(part, depth=depth + 1)
            if not isinstance(key, Scalar):
                raise self._error(part, "a key must be a single text")
            value, size = self._build_node(next(self._events), depth=depth + 1)
            if isinstance(value, Scalar) and value.start == value.end:
                # The parser puts a missing value before whatever comes next; it belongs behind its colon.
                behind = max(self._document.text.find(":", key.end), key.end - 1) + 1
                value = value._replace(start=behind, end=behind)
            total = self._add(total, 1 + size, part)
            if key.text == "<<" and not key.style:
                merged += self._find_merged(part, value)
                continue
            if key.text in entries:
                first = self._document.place(entries[key.text][0])
                raise self._error(part, f"the key {key.text} is here twice, first in line {first.line}")
            entries[key.text] = (key, value)
        for table in merged:
            for name, (key, value) in table.entries.items():
                entries.setdefault(name, (key, value._replace(is_shared=True)))
        return Table(entries, event.start_mark.index, part.end_mark.index, bool(event.flow_style)), total

    def _add(self, total: int, size: int, event: Any) -> int:
        """Both sizes. Checked with every part: what comes by merge keys is copied, so a bomb must be stopped early."""
        if total + size > MAX_NODES:
            raise self._error(event, f"with its aliases expanded it has more than {MAX_NODES} parts")
        return total + size

    def _find_merged(self, event: Any, value: Node) -> list[Table]:
        """The tables behind a merge key; the first one that has a key wins."""
        found = value.nodes if isinstance(value, Items) else (value,)
        tables = [node for node in found if isinstance(node, Table)]
        if len(tables) != len(found):
            raise self._error(event, "<< takes an alias of a table, or a list of such")
        return tables

    def _error(self, event: Any, problem: str, *, hint: str = "") -> SpecError:
        return self._document.error(event.start_mark.index, problem, hint=hint)
