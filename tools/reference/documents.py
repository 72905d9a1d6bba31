"""The JSON documents that commands print, from what `tools.transcripts` has recorded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tools.reference.commands import RECORDED, build_link, list_commands, list_leaves

# What every document has.
_COMMON = ("apiVersion", "kind")
_DOCUMENT = re.compile(r"^\{$.*?^\}$|^\{\"apiVersion\".*\}$", re.MULTILINE | re.DOTALL)
# Documents with a schema or a page of their own, which has the fields.
DESCRIBED: Mapping[str, str] = {
    "Error": "[Output formats](command-line.md#output-formats) describes the fields. Printed on standard error.",
    "OffsetExport": "[Exports](offsets.md#exports) describes the fields.",
    "Plan": "[seamark-plan.schema.json](../schema/seamark-plan.schema.json) is its JSON schema.",
}


@dataclass(slots=True)
class Document:
    """One kind of document: the commands that print it, and the types of its fields."""

    kind: str
    commands: set[str] = field(default_factory=set)
    types: dict[str, set[str]] = field(default_factory=dict)

    def add(self, document: Mapping[str, Any]) -> None:
        """Add the fields of a recorded document. Fields of nested lists follow their list."""
        for name, value in document.items():
            if name in _COMMON:
                continue
            self.types.setdefault(name, set()).add(_find_type(value))
            if isinstance(value, list):
                for item in value:
                    for below, inner in item.items() if isinstance(item, dict) else ():
                        self.types.setdefault(f"{name}[].{below}", set()).add(_find_type(inner))

    def list_fields(self) -> Iterator[tuple[str, str]]:
        """Yield each field with its type; the fields of a list come right after it."""
        for name, types in sorted(self.types.items(), key=lambda one: _order(one[0], list(self.types))):
            shown = sorted(types - {"null", "array"}) or sorted(types - {"null"})
            yield name, " or ".join([*shown, *(["null"] if "null" in types else [])])


def _order(name: str, names: Sequence[str]) -> tuple[int, int]:
    return names.index(name.partition("[]")[0]), names.index(name) if "[]" in name else -1


def _find_type(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, list):
        found = sorted({_find_type(item) for item in value} - {"null"})
        return f"array of {' or '.join(f'{one}s' for one in found)}" if found else "array"
    kinds: dict[type, str] = {str: "string", int: "integer", float: "number", dict: "object", type(None): "null"}
    return kinds[type(value)]


@cache
def read_documents() -> Mapping[str, Document]:
    """Return the kinds of documents by name, as commands print them with `-o json`."""
    leaves = sorted((path for name in list_commands() for path, _, _ in list_leaves(name)), key=len, reverse=True)
    found: dict[str, Document] = {}
    for file in sorted(RECORDED.glob("*.txt")):
        for block in re.split(r"^(?=\$ seamark )", file.read_text(encoding="utf-8"), flags=re.MULTILINE):
            line = f"{block.partition(chr(10))[0].removeprefix('$ seamark ')} "
            command = next((path for path in leaves if line.startswith(f"{path} ")), None)
            for document in _parse_documents(block) if command else ():
                kind = found.setdefault(document["kind"], Document(document["kind"]))
                kind.commands.add(str(command))
                kind.add(document)
    return dict(sorted(found.items()))


def _parse_documents(block: str) -> Iterator[dict[str, Any]]:
    for text in _DOCUMENT.findall(block):
        # Updates of `--watch` are recorded with what differs in each run replaced, which is not always JSON.
        try:
            document = json.loads(text)
        except ValueError:
            continue
        if "kind" in document:
            yield document


def build_documents() -> str:
    """Return a section for each kind of document: the commands that print it, and its fields."""
    lines: list[str] = []
    for kind, document in read_documents().items():
        links = [f"[`{path}`]({build_link(path)})" for path in sorted(document.commands)]
        printed = "many commands" if len(links) > 10 else ", ".join(links)
        lines += [f"## {kind}", "", f"Printed by {printed}.", ""]
        if kind in DESCRIBED:
            lines += [DESCRIBED[kind], ""]
            continue
        rows = [f"| `{name}` | {shown} |" for name, shown in document.list_fields()]
        lines += ["| field | type |", "|---|---|", *rows, ""]
    return "\n".join(lines)
