"""Small files of a table written together, date by date. Rows and offsets stay as they are."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa

from seamark.tables.delta.files import FILE_BYTES
from seamark.tables.delta.table import LakeTable

_MARK = "seamark.compaction"


@dataclass(frozen=True, slots=True)
class FilePart:
    """The files of one date; of the whole table where it is not parted."""

    date: str
    files: int
    size: int

    @property
    def fewest(self) -> int:
        """As many as they could be."""
        return max(1, -(-self.size // FILE_BYTES))


def list_files(table: LakeTable) -> list[FilePart]:
    """How many files each part of the table has, and how large they are together."""
    with table.telling():
        told = pa.table(table.refresh().get_add_actions(flatten=True))
    name = next((one for one in told.column_names if one.startswith("partition.")), None)
    days = told.column(name).to_pylist() if name else [None] * told.num_rows
    found: dict[str, list[int]] = {}
    for day, size in zip(days, told.column("size_bytes").to_pylist(), strict=True):
        found.setdefault("" if day is None else str(day), []).append(size)
    return [FilePart(day, len(sizes), sum(sizes)) for day, sizes in sorted(found.items())]


def compact_files(table: LakeTable) -> tuple[int, int]:
    """Have small files written together; gives how many became how many. A landing that is under way goes on.

    Raises:
        StalePlanError: another compaction of the table has begun meanwhile.
    """
    # delta-rs lets two compactions replace the same files, and has their rows twice. What it does look at is whether
    # the table's properties were changed: so who begins later ends who began before, however long that one was away.
    table.set_property(_MARK, uuid4().hex)
    with table.telling():
        told = table.refresh().optimize.compact(target_size=FILE_BYTES)
    return told["numFilesRemoved"], told["numFilesAdded"]
