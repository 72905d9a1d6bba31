"""Read a YAML spec file: connectors, `each`, what they share, and the sections of all other kinds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from seamark.changes.spec_kind import SectionKind
from seamark.context.yaml import MappingNode, Node, ScalarNode, SequenceNode, parse_yaml
from seamark.core.files import FileLocation
from seamark.core.offsets import Offset, OffsetValue, spell_identity
from seamark.errors import SpecError
from seamark.specs.document import Document
from seamark.specs.keys import (
    CONNECTOR_KEYS,
    EACH_KEYS,
    LABELS,
    MANAGE_STATE,
    OFFSET_KEYS,
    OFFSETS,
    build_file_keys,
    build_template_keys,
    check_keys,
    list_sections,
    list_templates,
)
from seamark.specs.layers import (
    ConfigLeaf,
    Filler,
    Layer,
    NamedRows,
    Shared,
    build_connector,
    build_layer,
    check_name,
    check_state,
    fill_labels,
    fill_layers,
    is_true,
    require_table,
    require_text,
)
from seamark.specs.model import Contents, Definition, Maker

_ROWS_NAME = re.compile(r"[\w.-]+")
# Numbers and booleans of JSON. In quotation marks they are texts.
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BOOLEANS = {"true": True, "false": False}
# Connect's integers are 64 bits.
LARGEST_INTEGER = 2**63 - 1
_LONGEST_INTEGER = 20
# 100,000 connectors of 50 keys.
MAX_VALUES = 5_000_000


def read_yaml_file(document: Document, *, above: Shared, filler: Filler) -> Contents:
    """Read everything that the file defines. `above` is what its folders define, `filler` has the values."""
    root = parse_yaml(document)
    if root is None:
        return Contents()
    table = require_table(root, document, what="a spec file")
    check_keys(table, document, build_file_keys(), what="a spec file")
    shared = above.extend(table, document)
    named = _Reader(document, shared, filler).read_named_rows(table)
    reader = _Reader(document, shared, filler.with_named_rows(named))
    file = _FileTable(table, document, reader.filler)
    sections = {kind.section: tuple(kind.read(file)) for kind in list_sections() if kind.section in file}
    for kind in list_templates().values():
        if made := tuple(reader.read_templates(table, kind)):
            sections[kind.section] = (*sections.get(kind.section, ()), *made)
    return Contents(tuple(reader.read_definitions(table)), sections)


@dataclass(frozen=True, slots=True)
class _FileTable:
    """A `SpecTable` over the nodes of a file."""

    table: MappingNode
    document: Document
    filler: Filler

    def __contains__(self, key: object) -> bool:
        return key in self.table.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.table.entries)

    def check_keys(self, known: Mapping[str, str], *, what: str) -> None:
        check_keys(self.table, self.document, known, what=what)

    def read_name(self, key: str) -> str:
        return self.filler.fill(self.table.entries[key][0], self.document)

    def find_place(self, key: str) -> FileLocation:
        return self.document.place(self.table.entries[key][0])

    def is_null(self, key: str) -> bool:
        node = self._find(key)
        return isinstance(node, ScalarNode) and node.is_null

    def is_table(self, key: str) -> bool:
        return isinstance(self._find(key), MappingNode)

    def is_list(self, key: str) -> bool:
        return isinstance(self._find(key), SequenceNode)

    def read_table(self, key: str, *, what: str = "") -> _FileTable:
        table = require_table(self._find(key), self.document, what=what or key)
        return _FileTable(table, self.document, self.filler)

    def read_text(self, key: str, *, what: str = "") -> str:
        return self._fill(self._find(key), what=what or key)

    def read_texts(self, key: str, *, what: str) -> tuple[str, ...]:
        node = self._find(key)
        if not isinstance(node, SequenceNode):
            raise self.document.error(node, f"{key} must be a list")
        return tuple(self._fill(one, what=what) for one in node.nodes)

    def read_config(self, key: str) -> dict[str, str]:
        if key not in self:
            return {}
        return fill_layers(build_layer(self._find(key), self.document, what=key), filler=self.filler)

    def find_text(self, key: str) -> str:
        node = self._find(key)
        return self.filler.fill(node, self.document) if isinstance(node, ScalarNode) else ""

    def build_error(self, problem: str, *, key: str = "", at_key: bool = False, hint: str = "") -> SpecError:
        at = self.table.entries[key][0 if at_key else 1] if key else self.table
        return self.document.error(at, problem, hint=hint)

    def _find(self, key: str) -> Node:
        return self.table.entries[key][1]

    def _fill(self, node: Node, *, what: str) -> str:
        return self.filler.fill(require_text(node, self.document, what=what), self.document)


@dataclass(frozen=True, slots=True)
class _Reader:
    document: Document
    shared: Shared
    filler: Filler

    def read_definitions(self, root: MappingNode) -> Iterator[Definition]:
        for name, entry in self._list_connectors(root):
            check_keys(entry, self.document, CONNECTOR_KEYS, what="a connector")
            own = self._read_own(entry)
            yield self._build(name, entry, entry, own=own, filler=self.filler, maker=Maker.YAML)
        templates = list_templates().keys()
        for entry in self._list_tables(root, "each"):
            if templates & entry.entries.keys():
                continue
            check_keys(entry, self.document, EACH_KEYS, what="an entry of each")
            yield from self._read_each(entry)

    def read_named_rows(self, root: MappingNode) -> dict[str, NamedRows]:
        """Read the rows that `${{ each(NAME).FIELD }}` may refer to. They can't refer to one another."""
        found: dict[str, NamedRows] = {}
        for entry in self._list_tables(root, "each"):
            if "rows" not in entry.entries:
                continue
            name = require_text(entry.entries["rows"][1], self.document, what="rows")
            if not _ROWS_NAME.fullmatch(name.text):
                raise self.document.error(name, "invalid name of rows", hint="use letters, digits, '.', '_' and '-'")
            for row, _ in self._list_rows(entry, values=1):
                found.setdefault(name.text, NamedRows()).add(row)
        return found

    def read_templates(self, root: MappingNode, kind: SectionKind[Any]) -> Iterator[Any]:
        """Yield what `each` declares of a kind besides connectors: an entry for each row."""
        for entry in self._list_tables(root, "each"):
            if kind.noun not in entry.entries:
                continue
            check_keys(entry, self.document, build_template_keys(kind), what=f"an entry of each with {kind.noun}")
            if "config" not in entry.entries:
                raise self.document.error(entry, "this entry has no config", hint="add config: {…}")
            name = require_text(entry.entries[kind.noun][1], self.document, what=kind.noun)
            config = require_table(entry.entries["config"][1], self.document, what="config")
            for row, node in self._list_rows(entry, values=len(config.entries)):
                filler = self.filler.with_row(row)
                table = _FileTable(config, self.document, filler)
                yield kind.read_entry(filler.fill(name, self.document), table, self.document.place(node))

    def _list_connectors(self, root: MappingNode) -> Iterator[tuple[ScalarNode, MappingNode]]:
        if "connectors" not in root.entries:
            return
        node = root.entries["connectors"][1]
        if isinstance(node, MappingNode):
            for key, value in node.entries.values():
                entry = require_table(value, self.document, what=f"connector {key.text}")
                if "name" in entry.entries:
                    raise self.document.error(entry.entries["name"][0], "name is already the key of this entry")
                yield key, entry
            return
        for entry in self._list_tables(root, "connectors"):
            yield self._find_name(entry), entry

    def _list_tables(self, root: MappingNode, section: str) -> Iterator[MappingNode]:
        if section not in root.entries:
            return
        node = root.entries[section][1]
        if isinstance(node, ScalarNode) and node.is_null:
            return
        if not isinstance(node, SequenceNode):
            raise self.document.error(
                node, f"{section} must be a list", hint="start every entry with a dash: - name: …"
            )
        for part in node.nodes:
            yield require_table(part, self.document, what=f"an entry of {section}")

    def _find_name(self, entry: MappingNode) -> ScalarNode:
        if "name" not in entry.entries:
            raise self.document.error(entry, "this entry has no name", hint="add name: …")
        return require_text(entry.entries["name"][1], self.document, what="name")

    def _read_each(self, entry: MappingNode) -> Iterator[Definition]:
        name = self._find_name(entry)
        own = self._read_own(entry)
        for row, node in self._list_rows(entry, values=len(own) + len(self.shared.defaults)):
            filler = self.filler.with_row(row)
            yield self._build(name, entry, node, own=own, filler=filler, maker=Maker.EACH)

    def _list_rows(self, entry: MappingNode, *, values: int) -> Iterator[tuple[dict[str, str], Node]]:
        """Yield the rows of an entry of `each`, whose result has so many values for each row."""
        if "for" not in entry.entries:
            raise self.document.error(entry, "this entry has no rows", hint="add for: [{NAME: value}, …]")
        rows = entry.entries["for"][1]
        if not isinstance(rows, SequenceNode):
            raise self.document.error(rows, "for must be a list of rows", hint="write for: [{NAME: value}, …]")
        if len(rows.nodes) * values > MAX_VALUES:
            raise self.document.error(rows, f"more than {MAX_VALUES} values (rows times keys)")
        for node in rows.nodes:
            yield self._read_row(node), node

    def _read_row(self, node: Node) -> dict[str, str]:
        row: dict[str, str] = {}
        for name, (key, value) in require_table(node, self.document, what="a row of for").entries.items():
            if not isinstance(value, ScalarNode) or value.is_null:
                raise self.document.error(key, f"{name} in this row is not a string", hint="quote it, or add a value")
            row[name] = self.filler.fill(value, self.document)
        return row

    def _read_own(self, entry: MappingNode) -> Layer:
        """Return the config keys in the entry itself."""
        node = entry.entries.get("config")
        return build_layer(node[1], self.document, what="config") if node else {}

    def _build(
        self, name: ScalarNode, entry: MappingNode, at: Node, *, own: Layer, filler: Filler, maker: Maker
    ) -> Definition:
        document = self.document
        filled = check_name(filler.fill(name, document), document.place(name))
        base = self._find_base(entry, filler)
        inherited = {**self.shared.defaults, **base} if base else self.shared.defaults
        state = entry.entries.get("state")
        state_text = filler.fill(require_text(state[1], document, what="state"), document) if state else ""
        connector = build_connector(
            filled,
            fill_layers(inherited, own, filler=filler),
            place=document.place(at),
            cluster=self._find_cluster(entry, filler),
            state=check_state(state_text, document.place(state[1] if state else at)),
            manage_state=is_true(self._find_manage_state(entry), filler),
            offsets=tuple(self._read_offsets(entry, filler)),
            labels=self._read_labels(entry, filler, document.place(at)),
        )
        return Definition(connector, maker, document, entry, own, inherited)

    def _read_labels(self, entry: MappingNode, filler: Filler, place: FileLocation) -> dict[str, str]:
        base = entry.entries["base"][1] if "base" in entry.entries else None
        inherited = self.shared.find_labels(filler.fill(base, self.document) if isinstance(base, ScalarNode) else "")
        node = entry.entries.get(LABELS)
        own = build_layer(node[1], self.document, what=LABELS) if node else {}
        return fill_labels(inherited, own, filler=filler, place=place)

    def _read_offsets(self, entry: MappingNode, filler: Filler) -> Iterator[Offset]:
        """Yield the offsets at which a new connector starts."""
        if OFFSETS not in entry.entries:
            return
        node = entry.entries[OFFSETS][1]
        if not isinstance(node, SequenceNode) or not node.nodes:
            raise self.document.error(
                node, "offsets must be a list with an entry", hint="write - {partition: {…}, offset: {…}}"
            )
        known: set[str] = set()
        for one in node.nodes:
            table = require_table(one, self.document, what="an entry of offsets")
            check_keys(table, self.document, OFFSET_KEYS, what="an entry of offsets")
            if missing := [key for key in OFFSET_KEYS if key not in table.entries]:
                raise self.document.error(table, f"this entry has no {missing[0]}", hint=f"add {missing[0]}: {{…}}")
            partition, offset = (self._read_values(table.entries[key][1], filler, what=key) for key in OFFSET_KEYS)
            if (identity := spell_identity(partition)) in known:
                raise self.document.error(table, "another entry has the same partition", hint="remove one of them")
            known.add(identity)
            yield Offset(partition, offset)

    def _read_values(self, node: Node, filler: Filler, *, what: str) -> dict[str, OffsetValue]:
        table = require_table(node, self.document, what=what)
        return {key: self._read_value(value, filler, what=key) for key, (_, value) in table.entries.items()}

    def _read_value(self, node: Node, filler: Filler, *, what: str) -> OffsetValue:
        """Return a value as JSON has it: Connect compares numbers and texts as different values."""
        if not isinstance(node, ScalarNode):
            raise self.document.error(node, f"{what} must be a string, a number, a boolean or null")
        if node.is_null:
            return None
        text = filler.fill(node, self.document)
        if node.style not in ("", "*"):
            return text
        if text in _BOOLEANS:
            return _BOOLEANS[text]
        if _INTEGER.fullmatch(text):
            if len(text) > _LONGEST_INTEGER or not -LARGEST_INTEGER - 1 <= int(text) <= LARGEST_INTEGER:
                raise self.document.error(node, f"{what} is larger than Connect's largest integer")
            return int(text)
        return float(text) if _FLOAT.fullmatch(text) else text

    def _find_manage_state(self, entry: MappingNode) -> ConfigLeaf | None:
        if MANAGE_STATE not in entry.entries:
            return self.shared.manage_state
        node = require_text(entry.entries[MANAGE_STATE][1], self.document, what=MANAGE_STATE)
        return ConfigLeaf(node, self.document)

    def _find_base(self, entry: MappingNode, filler: Filler) -> Layer | None:
        if "base" not in entry.entries:
            return None
        node = require_text(entry.entries["base"][1], self.document, what="base")
        name = filler.fill(node, self.document)
        if name not in self.shared.bases:
            known = ", ".join(self.shared.bases) or "none"
            raise self.document.error(node, f"unknown base {name}", hint=f"use one of the known bases: {known}")
        return self.shared.bases[name]

    def _find_cluster(self, entry: MappingNode, filler: Filler) -> str | None:
        if "cluster" in entry.entries:
            return filler.fill(require_text(entry.entries["cluster"][1], self.document, what="cluster"), self.document)
        shared = self.shared.cluster
        return None if shared is None else filler.fill(shared.scalar, shared.document)
