"""Changing some config keys of a connector in its file, and nothing else of the file.

An edit is a piece of text in place of another. All edits of a file are made against its text as it was read, so
comments, order and formatting stay: one changed value is one changed line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from seamark.specs.definition import Definition, Maker


class Edit(NamedTuple):
    """The text that shall stand from `start` to `end`."""

    start: int
    end: int
    text: str


class UneditableError(Exception):
    """The file can't be changed that way; the message says why. Whoever edits catches it."""


_REASONS = {
    Maker.EACH: "it is made by each: change the template or its rows",
    Maker.PY: "it is made by a program: change the program",
}


def build_edits(definition: Definition, changes: Mapping[str, str | None]) -> list[Edit]:
    """The edits by which the connector's config gets the changes; None takes a key out.

    Raises:
        UneditableError: it can't be done without touching something else.
    """
    from seamark.specs.edit_json import edit_json  # noqa: PLC0415
    from seamark.specs.edit_properties import edit_properties  # noqa: PLC0415
    from seamark.specs.edit_yaml import edit_yaml  # noqa: PLC0415

    if definition.maker in _REASONS:
        raise UneditableError(_REASONS[definition.maker])
    editor = {Maker.YAML: edit_yaml, Maker.JSON: edit_json, Maker.PROPERTIES: edit_properties}[definition.maker]
    return editor(definition, changes)


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text with all edits made. They must not overlap."""
    parts: list[str] = []
    position = 0
    for edit in sorted(edits):
        if edit.start < position:
            raise UneditableError("two changes touch the same place")
        parts += [text[position : edit.start], edit.text]
        position = edit.end
    return "".join([*parts, text[position:]])
