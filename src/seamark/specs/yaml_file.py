"""A YAML spec file: connectors, each, topics, and what they share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from seamark.specs.keys import CONNECTOR_KEYS, EACH_KEYS, FILE_KEYS, TOPIC_KEYS, check_keys
from seamark.specs.layers import (
    Filler,
    Layer,
    Shared,
    build_connector,
    build_layer,
    check_name,
    check_state,
    fill_layers,
    require_table,
    require_text,
)
from seamark.specs.model import Contents, Definition, Maker
from seamark.specs.nodes import Document, Items, Node, Scalar, Table
from seamark.specs.pipelines import read_landings
from seamark.specs.yaml import parse_yaml
from seamark.topics.service import DesiredTopic

# A hundred thousand connectors of fifty keys.
MAX_VALUES = 5_000_000
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")


def read_yaml_file(document: Document, *, above: Shared, environ: Mapping[str, str]) -> Contents:
    """Everything the file defines. `above` is what its folders say."""
    root = parse_yaml(document)
    if root is None:
        return Contents()
    table = require_table(root, document, what="a spec file")
    check_keys(table, document, FILE_KEYS, what="a spec file")
    reader = _Reader(document, above.extend(table, document), Filler(environ))
    landings = tuple(read_landings(table, document, filler=reader.filler))
    return Contents(tuple(reader.read_definitions(table)), tuple(reader.read_topics(table)), landings)


@dataclass(frozen=True, slots=True)
class _Reader:
    document: Document
    shared: Shared
    filler: Filler

    def read_definitions(self, root: Table) -> Iterator[Definition]:
        for name, entry in self._list_connectors(root):
            check_keys(entry, self.document, CONNECTOR_KEYS, what="a connector")
            own = self._read_own(entry)
            yield self._build(name, entry, entry, own=own, filler=self.filler, maker=Maker.YAML)
        for entry in self._list_tables(root, "each"):
            check_keys(entry, self.document, EACH_KEYS, what="an entry of each")
            yield from self._read_each(entry)

    def read_topics(self, root: Table) -> Iterator[DesiredTopic]:
        if "topics" not in root.entries:
            return
        topics = require_table(root.entries["topics"][1], self.document, what="topics")
        for key, node in topics.entries.values():
            name = self.filler.fill(key, self.document)
            if isinstance(node, Scalar) and node.is_null:
                yield DesiredTopic(name, self.document.place(key))
                continue
            table = require_table(node, self.document, what=f"topic {name}")
            check_keys(table, self.document, TOPIC_KEYS, what="a topic")
            yield self._build_topic(name, key, table)

    def _list_connectors(self, root: Table) -> Iterator[tuple[Scalar, Table]]:
        if "connectors" not in root.entries:
            return
        node = root.entries["connectors"][1]
        if isinstance(node, Table):
            for key, value in node.entries.values():
                entry = require_table(value, self.document, what=f"connector {key.text}")
                if "name" in entry.entries:
                    raise self.document.error(entry.entries["name"][0], "the name stands before the colon already")
                yield key, entry
            return
        for entry in self._list_tables(root, "connectors"):
            yield self._find_name(entry), entry

    def _list_tables(self, root: Table, section: str) -> Iterator[Table]:
        if section not in root.entries:
            return
        node = root.entries[section][1]
        if isinstance(node, Scalar) and node.is_null:
            return
        if not isinstance(node, Items):
            raise self.document.error(
                node, f"{section} must be a list", hint="begin every entry with a dash: - name: …"
            )
        for part in node.nodes:
            yield require_table(part, self.document, what=f"an entry of {section}")

    def _find_name(self, entry: Table) -> Scalar:
        if "name" not in entry.entries:
            raise self.document.error(entry, "this entry has no name", hint="add name: …")
        return require_text(entry.entries["name"][1], self.document, what="name")

    def _read_each(self, entry: Table) -> Iterator[Definition]:
        name = self._find_name(entry)
        if "for" not in entry.entries:
            raise self.document.error(entry, "this entry has no rows", hint="add for: [{NAME: value}, …]")
        rows = entry.entries["for"][1]
        if not isinstance(rows, Items):
            raise self.document.error(rows, "for must be a list of rows", hint="for: [{NAME: value}, …]")
        own = self._read_own(entry)
        if len(rows.nodes) * (len(own) + len(self.shared.defaults)) > MAX_VALUES:
            raise self.document.error(rows, f"rows times keys are more than {MAX_VALUES} values")
        for node in rows.nodes:
            row = self._read_row(node)
            filler = self.filler.with_row(row)
            yield self._build(name, entry, node, own=own, filler=filler, maker=Maker.EACH)

    def _read_row(self, node: Node) -> dict[str, str]:
        row: dict[str, str] = {}
        for name, (key, value) in require_table(node, self.document, what="a row of for").entries.items():
            if not isinstance(value, Scalar) or value.is_null:
                raise self.document.error(key, f"{name} in this row is not a text", hint="give it a value, or quote it")
            row[name] = self.filler.fill(value, self.document)
        return row

    def _read_own(self, entry: Table) -> Layer:
        """The config keys that stand in the entry itself."""
        node = entry.entries.get("config")
        return build_layer(node[1], self.document, what="config") if node else {}

    def _build(self, name: Scalar, entry: Table, at: Node, *, own: Layer, filler: Filler, maker: Maker) -> Definition:
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
        )
        return Definition(connector, maker, document, entry, own, inherited)

    def _find_base(self, entry: Table, filler: Filler) -> Layer | None:
        if "base" not in entry.entries:
            return None
        node = require_text(entry.entries["base"][1], self.document, what="base")
        name = filler.fill(node, self.document)
        if name not in self.shared.bases:
            known = ", ".join(self.shared.bases) or "there are none"
            raise self.document.error(node, f"no base is named {name}", hint=f"known bases: {known}")
        return self.shared.bases[name]

    def _find_cluster(self, entry: Table, filler: Filler) -> str | None:
        if "cluster" in entry.entries:
            return filler.fill(require_text(entry.entries["cluster"][1], self.document, what="cluster"), self.document)
        shared = self.shared.cluster
        return None if shared is None else filler.fill(shared.scalar, shared.document)

    def _build_topic(self, name: str, key: Scalar, table: Table) -> DesiredTopic:
        node = table.entries.get("config")
        layer = build_layer(node[1], self.document, what="config") if node else {}
        return DesiredTopic(
            name,
            self.document.place(key),
            partitions=self._read_number(table, "partitions"),
            replication=self._read_number(table, "replication"),
            config=fill_layers(layer, filler=self.filler),
        )

    def _read_number(self, table: Table, key: str) -> int | None:
        if key not in table.entries:
            return None
        node = table.entries[key][1]
        text = self.filler.fill(node, self.document) if isinstance(node, Scalar) else ""
        if not _NUMBER.fullmatch(text):
            raise self.document.error(node, f"{key} must be a whole number above 0")
        return int(text)
