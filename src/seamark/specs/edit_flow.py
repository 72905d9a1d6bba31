"""Edits of a table in braces: every JSON object, and YAML's `{key: value}`."""

from __future__ import annotations

from collections.abc import Mapping

from seamark.specs.edit import Edit
from seamark.specs.nodes import Document, Table


def edit_flow(table: Table, document: Document, *, removed: frozenset[str], added: Mapping[str, str]) -> list[Edit]:
    """Take entries out of a table, and put rendered ones in. `added` holds them whole, as `key: value`.

    New entries stand before the last one that stays: behind it they would need a comma on its line.
    """
    names = list(table.entries)
    kept = [name for name in names if name not in removed]
    if not kept:
        return [Edit(table.start + 1, table.end - 1, ", ".join(added.values()))]
    edits = [_cut(table, names, run) for run in _find_runs(names, removed)]
    if added:
        at = table.entries[kept[-1]][0].start
        gap = document.text[document.line_start(at) : at]
        # Where the entry begins its line, the new ones get lines too.
        separator = f",{document.newline}{gap}" if not gap.strip() and document.line_start(at) > table.start else ", "
        edits.append(Edit(at, at, "".join(f"{entry}{separator}" for entry in added.values())))
    return edits


def _find_runs(names: list[str], removed: frozenset[str]) -> list[tuple[int, int]]:
    """First and last index of entries that go together."""
    runs: list[tuple[int, int]] = []
    for index, name in enumerate(names):
        if name not in removed:
            continue
        if runs and runs[-1][1] == index - 1:
            runs[-1] = (runs[-1][0], index)
        else:
            runs.append((index, index))
    return runs


def _cut(table: Table, names: list[str], run: tuple[int, int]) -> Edit:
    first, last = run
    if last + 1 < len(names):
        return Edit(table.entries[names[first]][0].start, table.entries[names[last + 1]][0].start, "")
    return Edit(table.entries[names[first - 1]][1].end, table.entries[names[last]][1].end, "")
