"""Edits of a connector in a properties file, by whole lines."""

from __future__ import annotations

import re
from collections.abc import Mapping

from seamark.specs.definition import Definition
from seamark.specs.edit import Edit, UneditableError
from seamark.specs.nodes import Document
from seamark.specs.render import render_property

# A key as Java reads it, and what separates it from its value.
_HEAD = re.compile(r"[ \t\f]*(?:\\.|[^\\=: \t\f\r\n])+[ \t\f]*[=:]?[ \t\f]*")


def edit_properties(definition: Definition, changes: Mapping[str, str | None]) -> list[Edit]:
    """A changed value takes one line, also where it had several; a new key stands at the end."""
    document = definition.document
    if document.text.count("\r") != document.text.count("\r\n"):
        raise UneditableError("its lines end as on no system of today: change it by hand")
    edits: list[Edit] = []
    added: list[str] = []
    for key, text in changes.items():
        leaf = definition.own.get(key)
        if leaf is None:
            added += [f"{render_property(key, is_key=True)}={render_property(text)}"] if text is not None else []
            continue
        start, end = document.line_span(leaf.scalar.start, leaf.scalar.end)
        edits.append(_replace(document, start, end, text))
    if added:
        gap = "" if document.text.endswith("\n") else document.newline
        at = len(document.text)
        edits.append(Edit(at, at, gap + "".join(f"{row}{document.newline}" for row in added)))
    return edits


def _replace(document: Document, start: int, end: int, text: str | None) -> Edit:
    if text is None:
        return Edit(start, min(document.line_end(end) + 1, len(document.text)), "")
    found = _HEAD.match(document.text, start, end)
    if found is None:
        raise UneditableError("its line can't be told apart: change it by hand")
    head = found[0]
    if not head.rstrip(" \t\f").endswith(("=", ":")) and head == head.rstrip(" \t\f"):
        head += "="
    return Edit(start, end, head + render_property(text))
