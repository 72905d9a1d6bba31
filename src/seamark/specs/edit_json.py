"""Edits of a connector in a JSON file."""

from __future__ import annotations

from collections.abc import Mapping

from seamark.specs.definition import Definition
from seamark.specs.edit import Edit, UneditableError
from seamark.specs.edit_flow import edit_flow
from seamark.specs.nodes import Table
from seamark.specs.render import render_json_text


def edit_json(definition: Definition, changes: Mapping[str, str | None]) -> list[Edit]:
    """A number stays a number where the new value is one."""
    table = _find_config(definition)
    edits = [
        Edit(scalar.start, scalar.end, render_json_text(text, bare=not scalar.style))
        for key, text in changes.items()
        if text is not None and key in definition.own
        for scalar in [definition.own[key].scalar]
    ]
    removed = frozenset(key for key, text in changes.items() if text is None)
    added = {
        key: f"{render_json_text(key)}: {render_json_text(text)}"
        for key, text in changes.items()
        if text is not None and key not in definition.own
    }
    return edits + edit_flow(table, definition.document, removed=removed, added=added)


def _find_config(definition: Definition) -> Table:
    entry = definition.entry
    if entry is None:
        raise UneditableError("its place in the file is not known")
    config = entry.entries["config"][1] if "config" in entry.entries else entry
    return config if isinstance(config, Table) and "connector.class" not in entry.entries else entry
