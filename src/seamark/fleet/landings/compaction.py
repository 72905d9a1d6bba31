"""Small files of a lake's table written together: what there is to do, and doing it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from seamark.errors import UsageError
from seamark.fleet.lakes import open_lake
from seamark.fleet.landings.declared import Declared
from seamark.report.listing import Column, Listing, View
from seamark.report.words import render_bytes, render_number

if TYPE_CHECKING:
    from seamark.lake.table import FilePart, LakeTable


def list_files(declared: Declared) -> list[FilePart]:
    """How many files each date has."""
    return _open(declared).list_files()


def compact_table(declared: Declared) -> tuple[int, int]:
    """Write small files together. Gives how many became how many."""
    return _open(declared).compact()


def build_files_view(parts: Sequence[FilePart]) -> View[FilePart]:
    """The files by date."""
    return View(LISTING, tuple(parts), empty="the table has no files")


def _open(declared: Declared) -> LakeTable:
    if declared.lake is None:
        raise UsageError(
            f"{declared.landing.name} lands in a database, which has no files to compact", hint="VACUUM is its own"
        )
    place = open_lake(declared.lake)
    from seamark.lake.table import LakeTable  # noqa: PLC0415

    return LakeTable(place.below(declared.landing.table), owner=declared.landing.owner)


LISTING: Listing[FilePart] = Listing(
    kind="LakeFileList",
    noun="date",
    name=lambda part: part.date,
    columns=(
        Column("date", "DATE", lambda part: part.date, text=lambda part: part.date or "-"),
        Column("files", "FILES", lambda part: part.files, text=lambda part: render_number(part.files), right=True),
        Column("bytes", "SIZE", lambda part: part.size, text=lambda part: render_bytes(part.size), right=True),
        Column("fewest", "COULD BE", lambda part: part.fewest, right=True),
    ),
)
