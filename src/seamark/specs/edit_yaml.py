"""Edits of a connector in a YAML file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from seamark.specs.definition import Definition
from seamark.specs.edit import Edit, UneditableError
from seamark.specs.edit_flow import edit_flow
from seamark.specs.fill import has_slots
from seamark.specs.nodes import Document, Scalar, Table
from seamark.specs.render import render_block, render_key, render_text

_HEADER = re.compile(r"[|>][0-9+-]*")
_NULL = "null"


def edit_yaml(definition: Definition, changes: Mapping[str, str | None]) -> list[Edit]:
    """Own keys are changed where they stand; what comes from elsewhere is overridden here, not changed there."""
    return _Editor(definition).edit(changes)


@dataclass(frozen=True, slots=True)
class _Editor:
    definition: Definition

    @property
    def document(self) -> Document:
        return self.definition.document

    def edit(self, changes: Mapping[str, str | None]) -> list[Edit]:
        table = self._find_config()
        edits: list[Edit] = []
        removed: set[str] = set()
        added: dict[str, str] = {}
        for key, text in changes.items():
            own = self._find_own(key)
            if own is None:
                added[key] = text if text is not None else _NULL
            elif text is None and not self._is_inherited(key):
                removed.add(key)
            else:
                edits.append(self._replace(own, text, flow=table is not None and table.is_flow))
        flow = table is not None and table.is_flow
        entries = {
            key: f"{render_key(key)}: {_NULL if changes[key] is None else render_text(text, flow=flow)}"
            for key, text in added.items()
        }
        if table is None:
            return edits + self._add_config(entries)
        if flow and any(value.is_shared for _, value in table.entries.values()):
            raise UneditableError("its config holds an anchor or a merge key on one line: change it by hand")
        if flow:
            return edits + edit_flow(table, self.document, removed=frozenset(removed), added=entries)
        return edits + self._cut_lines(table, removed, entries) + self._add_lines(table, entries)

    def _find_config(self) -> Table | None:
        entry = self.definition.entry
        if entry is None or entry.is_shared:
            raise UneditableError("it is written by an anchor or an alias: change it by hand")
        node = entry.entries["config"][1] if "config" in entry.entries else None
        if node is None or (isinstance(node, Scalar) and node.is_null):
            return None
        if not isinstance(node, Table) or node.is_shared:
            raise UneditableError("its config has an anchor or is an alias: change it by hand")
        return node

    def _find_own(self, key: str) -> Scalar | None:
        """The key's value, if it stands in this config itself and not behind a merge key."""
        leaf = self.definition.own.get(key)
        if leaf is None:
            return None
        if has_slots(leaf.scalar.text):
            raise UneditableError(f"{key} is filled in from elsewhere: change it by hand")
        if leaf.scalar.is_shared:
            table = self._find_config()
            where = table.entries[key][0].start if table is not None else -1
            if table is not None and table.start <= where < table.end and table.entries[key][1].start >= where:
                raise UneditableError(f"{key} has an anchor that others refer to: change it by hand")
            return None
        return leaf.scalar

    def _is_inherited(self, key: str) -> bool:
        leaf = self.definition.inherited.get(key)
        return leaf is not None and not leaf.scalar.is_null

    def _replace(self, scalar: Scalar, text: str | None, *, flow: bool) -> Edit:
        if text is None:
            return Edit(scalar.start, scalar.end, _NULL)
        if scalar.style == "|":
            block = self._render_block(scalar, text)
            if block is not None:
                return Edit(scalar.start, scalar.end, block)
        gap = "" if scalar.end > scalar.start or self.document.text[scalar.start - 1] == " " else " "
        return Edit(scalar.start, scalar.end, gap + render_text(text, style=scalar.style, flow=flow))

    def _render_block(self, scalar: Scalar, text: str) -> str | None:
        """The block with its old indent and the comment of its first line."""
        head, _, rows = self.document.text[scalar.start : scalar.end].partition("\n")
        if "\r" in head:
            return None
        first = rows.lstrip("\n")
        indent = first[: len(first) - len(first.lstrip(" "))]
        block = render_block(text, indent=indent)
        if block is None:
            return None
        comment = _HEADER.sub("", head, count=1)
        new_head, _, body = block.partition("\n")
        return f"{new_head}{comment}\n{body}"

    def _cut_lines(self, table: Table, removed: set[str], added: Mapping[str, str]) -> list[Edit]:
        document = self.document
        here = [name for name, (_, value) in table.entries.items() if not value.is_shared]
        if removed and len(removed) == len(table.entries) and not added:
            key = self._config_key()
            return [Edit(key.end + 1, table.entries[here[-1]][1].end, " {}")]
        edits = []
        for name in here:
            if name in removed:
                key, value = table.entries[name]
                self._measure_indent(key)
                end = min(document.line_end(value.end) + 1, len(document.text))
                edits.append(Edit(document.line_start(key.start), end, ""))
        return edits

    def _add_lines(self, table: Table, added: Mapping[str, str]) -> list[Edit]:
        if not added:
            return []
        here = [(key, value) for key, value in table.entries.values() if not value.is_shared]
        newline = self.document.newline
        if not here:
            # All of it comes by a merge key.
            indent = self._measure_indent(table)
            at = self.document.line_start(table.start)
            return [Edit(at, at, "".join(f"{indent}{entry}{newline}" for entry in added.values()))]
        key, value = here[-1]
        return [self._add_behind(value.end, self._measure_indent(key), list(added.values()))]

    def _add_config(self, added: Mapping[str, str]) -> list[Edit]:
        """Write `config:` where there is none, or nothing behind it."""
        if not added:
            return []
        entry = self.definition.entry
        if entry is None or entry.is_flow:
            raise UneditableError("it has no config of its own, and stands on one line: add config: {} to it")
        if "config" in entry.entries:
            key = self._config_key()
            indent = self._measure_indent(key)
            rows = [f"  {row}" for row in added.values()]
            return [self._add_behind(entry.entries["config"][1].end, indent, rows)]
        here = list(entry.entries.values())
        indent = " " * (self.document.place(entry).column - 1)
        return [self._add_behind(here[-1][1].end, indent, ["config:", *(f"  {row}" for row in added.values())])]

    def _config_key(self) -> Scalar:
        entry = self.definition.entry
        if entry is None or "config" not in entry.entries:
            raise UneditableError("its config can't be found in the file")
        return entry.entries["config"][0]

    def _add_behind(self, offset: int, indent: str, rows: list[str]) -> Edit:
        document = self.document
        end = document.line_end(offset)
        text = "".join(f"{indent}{row}{document.newline}" for row in rows)
        if end == len(document.text):
            return Edit(end, end, document.newline + text)
        return Edit(end + 1, end + 1, text)

    def _measure_indent(self, at: Scalar | Table) -> str:
        """The blanks before a key. A dash counts as blanks: it begins the first line of a table only."""
        before = self.document.text[self.document.line_start(at.start) : at.start]
        if before.strip():
            if before.strip() == "-":
                return " " * len(before)
            raise UneditableError("it shares its line with something else: change it by hand")
        return before
