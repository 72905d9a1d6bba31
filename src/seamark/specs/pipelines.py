"""The section `pipelines` of a YAML spec file: what Spark shall do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from seamark.core.time import parse_duration
from seamark.pipelines.declared import DesiredColumn, DesiredDeadLetters, DesiredLanding
from seamark.specs.keys import (
    COLUMN_KEYS,
    DEAD_LETTER_KEYS,
    FROM_KEYS,
    LIMIT_KEYS,
    ON_ERROR_KEYS,
    PIPELINE_KEYS,
    TO_KEYS,
    check_keys,
)
from seamark.specs.layers import Filler, require_table, require_text
from seamark.specs.nodes import Document, Items, Node, Scalar, Table

_SECTION = "pipelines"
_KINDS = ("land",)
_STOP = "stop"
_TRUTHS = {"true": True, "false": False}
_NUMBER = re.compile(r"[1-9][0-9]{0,11}")


def read_landings(root: Table, document: Document, *, filler: Filler) -> Iterator[DesiredLanding]:
    """The landings of a file."""
    if _SECTION not in root.entries:
        return
    section = root.entries[_SECTION][1]
    if isinstance(section, Scalar) and section.is_null:
        return
    for key, node in require_table(section, document, what=_SECTION).entries.values():
        name = filler.fill(key, document)
        table = require_table(node, document, what=f"pipeline {name}")
        yield _Entry(table, document, filler).read(name, key)


@dataclass(frozen=True, slots=True)
class _Entry:
    """One table of the file."""

    table: Table
    document: Document
    filler: Filler

    def read(self, name: str, key: Scalar) -> DesiredLanding:
        self._refuse_former()
        check_keys(self.table, self.document, PIPELINE_KEYS, what="a pipeline")
        kind = self.require("kind")
        if kind not in _KINDS:
            raise self.document.error(self.node("kind"), f"no pipeline is of kind {kind}", hint="kind: land")
        source = self.read_below("from", FROM_KEYS, what="from")
        target = self.read_below("to", TO_KEYS, what="to")
        return DesiredLanding(
            name,
            self.document.place(key),
            topic=source.require("topic"),
            table=target.require("table"),
            columns=tuple(self._read_columns()),
            **source.read_some("format", "start"),
            **source.read_schemas(),
            **target.read_store(),
            **target.read_some("mode", "date"),
            **target.read_names("key"),
            **target.read_names("order"),
            **target.read_duration("tombstones"),
            dead_letters=self._read_letters(),
            **self.read_duration("every"),
            **self._read_limits(),
        )

    def _refuse_former(self) -> None:
        """Refuse the words that on_error had before, with those that it has now."""
        if (found := self.table.entries.get("dead_letters")) is not None:
            table = found[1].text if isinstance(found[1], Scalar) else "TABLE"
            hint = f"on_error: {{dead_letter: {{table: {table}}}}}"
            raise self.document.error(found[0], "dead_letters is a part of on_error", hint=hint)

    def _read_letters(self) -> DesiredDeadLetters | None:
        if "on_error" not in self.table.entries:
            return None
        node = self.node("on_error")
        if not isinstance(node, Table):
            word = self._text(node, "on_error")
            if word == _STOP:
                return None
            hint = "on_error: stop, or on_error: {dead_letter: {table: TABLE, max: 10%}}"
            raise self.document.error(node, f"on_error can't be {word}", hint=hint)
        entry = self.read_below("on_error", ON_ERROR_KEYS, what="on_error")
        if "dead_letter" not in entry.table.entries:
            raise self.document.error(node, "dead_letter is missing here", hint="add dead_letter: {}")
        letter = entry.node("dead_letter")
        if isinstance(letter, Scalar) and letter.is_null:
            return DesiredDeadLetters()
        below = entry.read_below("dead_letter", DEAD_LETTER_KEYS, what="dead_letter")
        return DesiredDeadLetters(**below.read_some("table", "max"))

    def node(self, key: str) -> Node:
        return self.table.entries[key][1]

    def require(self, key: str) -> str:
        if key not in self.table.entries:
            raise self.document.error(self.table, f"{key} is missing here", hint=f"add {key}: …")
        return self._text(self.node(key), key)

    def _text(self, node: Node, what: str) -> str:
        return self.filler.fill(require_text(node, self.document, what=what), self.document)

    def read_below(self, key: str, known: Mapping[str, str], *, what: str) -> _Entry:
        if key not in self.table.entries:
            raise self.document.error(self.table, f"{key} is missing here", hint=f"add {key}: {{…}}")
        table = require_table(self.node(key), self.document, what=what)
        check_keys(table, self.document, known, what=what)
        return _Entry(table, self.document, self.filler)

    def read_some(self, *keys: str) -> dict[str, Any]:
        return {key: self._text(self.node(key), key) for key in keys if key in self.table.entries}

    def read_store(self) -> dict[str, Any]:
        found = self.read_some("database", "lake")
        if len(found) != 1:
            problem = "database is missing here" if not found else "a table is in a database or in a lake, not in both"
            raise self.document.error(self.table, problem, hint="add database: NAME, or lake: NAME")
        return found

    def _read_columns(self) -> Iterator[DesiredColumn]:
        if "columns" not in self.table.entries:
            raise self.document.error(self.table, "columns are missing here", hint="add columns: {NAME: TYPE, …}")
        columns = require_table(self.node("columns"), self.document, what="columns")
        for key, node in columns.entries.values():
            name = self.filler.fill(key, self.document)
            if not isinstance(node, Table):
                yield DesiredColumn(name, self._text(node, f"the type of column {name}"))
                continue
            check_keys(node, self.document, COLUMN_KEYS, what="a column")
            entry = _Entry(node, self.document, self.filler)
            yield DesiredColumn(name, entry.require("type"), entry.read_some("from").get("from", ""))

    def read_schemas(self) -> dict[str, Any]:
        if "schemas" not in self.table.entries:
            return {}
        node = self.node("schemas")
        text = self._text(node, "schemas")
        if text not in _TRUTHS:
            raise self.document.error(node, "schemas must be true or false")
        return {"schemas": _TRUTHS[text]}

    def read_names(self, key: str) -> dict[str, Any]:
        if key not in self.table.entries:
            return {}
        node = self.node(key)
        if not isinstance(node, Items):
            raise self.document.error(node, f"{key} must be a list of columns", hint=f"{key}: [id]")
        return {key: tuple(self._text(one, f"a column of {key}") for one in node.nodes)}

    def read_duration(self, key: str) -> dict[str, Any]:
        if key not in self.table.entries:
            return {}
        node = self.node(key)
        try:
            return {key: parse_duration(self._text(node, key))}
        except ValueError:
            raise self.document.error(node, f"{key} must be a length of time", hint=f"as in {key}: 10s") from None

    def _read_limits(self) -> dict[str, Any]:
        if "limits" not in self.table.entries:
            return {}
        limits = self.read_below("limits", LIMIT_KEYS, what="limits")
        if "records" not in limits.table.entries:
            return {}
        node = limits.node("records")
        text = self._text(node, "records")
        if not _NUMBER.fullmatch(text):
            raise self.document.error(node, "records must be a whole number above 0")
        return {"records": int(text)}
