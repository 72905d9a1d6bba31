"""Two readings of offsets, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from seamark.core.offset import Offset, spell_identity, spell_offset
from seamark.errors import RefusedError
from seamark.offsets.offset_export import Difference, OffsetComparison, OffsetDifference
from seamark.offsets.read.export_file import is_envelope, parse_bare_export, read_export, read_json_file

Side = Mapping[str, tuple[Offset, ...]]
"""Offsets by owner."""


def read_side(path: Path) -> Side:
    """The offsets in a file: an export, which must be as it was written, or the bare JSON of `connect-offsets`."""
    return read_saved(path)[0]


def read_saved(path: Path) -> tuple[Side, Mapping[str, str] | None]:
    """The offsets in a file, and the ids of the topics that they stand on; None where a file never has them."""
    body = read_json_file(path)
    if not is_envelope(body):
        return {found.owner: found.offsets for found in parse_bare_export(body, name=str(path))}, None
    export, problems = read_export(path)
    if problems:
        raise RefusedError(
            f"{path} is not as it was written", cause="; ".join(problems), hint="take another copy of the export"
        )
    return {found.owner: found.offsets for found in export.owners}, export.topics


def build_comparison(before: Side, after: Side, *, names: tuple[str, str]) -> OffsetComparison:
    """What is added, removed and changed from one to the other."""
    differences: list[OffsetDifference] = []
    equal = 0
    for owner in sorted({*before, *after}):
        old, new = _by_identity(before.get(owner, ())), _by_identity(after.get(owner, ()))
        for identity in sorted({*old, *new}):
            was, now = old.get(identity), new.get(identity)
            found = _compare(owner, was, now)
            if found is None:
                equal += 1
            else:
                differences.append(found)
    return OffsetComparison(*names, tuple(differences), equal)


def _compare(owner: str, was: Offset | None, now: Offset | None) -> OffsetDifference | None:
    if was is None or now is None:
        present = was or now
        if present is None or present.offset is None:
            # That nothing is held is said in two ways, and means the same.
            return None
        kind = Difference.ADDED if was is None else Difference.REMOVED
        return OffsetDifference(
            owner, present.partition, kind, was.offset if was else None, now.offset if now else None
        )
    if spell_offset(was.offset) == spell_offset(now.offset):
        return None
    return OffsetDifference(owner, now.partition, Difference.CHANGED, was.offset, now.offset)


def _by_identity(offsets: tuple[Offset, ...]) -> dict[str, Offset]:
    return {spell_identity(found.partition): found for found in offsets}
