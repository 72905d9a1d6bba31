"""Small files of a lake's table written together: what there is to do, and doing it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from seamark.changes.access import check_permission
from seamark.pipelines.declared import Declared
from seamark.pipelines.targets import open_table
from seamark.policy.permission import Access, Permission
from seamark.report.listing import Column, Listing, View
from seamark.report.words import render_bytes, render_number

if TYPE_CHECKING:
    from seamark.tables.delta.compaction import FilePart


def list_table_files(declared: Declared) -> list[FilePart]:
    """How many files each date has."""
    table = open_table(declared)
    from seamark.tables.delta.compaction import list_files  # noqa: PLC0415

    return list_files(table)


def compact_table(declared: Declared, access: Access) -> tuple[int, int]:
    """Write small files together. Returns how many files became how many.

    Raises:
        PermissionDeniedError: no role allows it, or the context is read-only.
    """
    check_permission(access, Permission.OPERATE, doing=f"compact the table of {declared.landing.name}")
    table = open_table(declared)
    from seamark.tables.delta.compaction import compact_files  # noqa: PLC0415

    return compact_files(table)


def build_files_view(parts: Sequence[FilePart]) -> View[FilePart]:
    """The files by date."""
    return View(LISTING, tuple(parts), empty="the table has no files")


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
