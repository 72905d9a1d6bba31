"""Which record a line is that PostgreSQL names. It counts the lines of the text, also those within quotes."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from seamark.tables.ledger_entry import OFFSET


class RowLines:
    """The offsets of the rows of one COPY, by the lines of its text."""

    def __init__(self) -> None:
        self._parts: list[tuple[pa.Array, pa.Array | None]] = []
        # Before the first row has ended PostgreSQL does not know what ends one, and takes it for a \r.
        self._returns_in_first = 0

    def add(self, batch: pa.RecordBatch, text: bytes) -> None:
        """The next rows, and their text. The batch has their offsets, too."""
        breaks = None
        if not self._parts:
            self._returns_in_first = _count(batch.slice(0, 1), "\r")[0].as_py()
        if text.count(b"\n") > batch.num_rows:
            breaks = _count(batch, "\n")
        # Anew: a part of a batch would keep all of it in memory.
        self._parts.append((pc.add(batch.column(OFFSET), 0), breaks))

    def find(self, line: int) -> int | None:
        """The offset of the row in which that line is, from 1."""
        end = 0
        for place, (offset, breaks) in enumerate(self._list_rows()):
            end += 1 + (breaks if place else self._returns_in_first)
            if line <= end:
                return offset
        return None

    def find_ends(self) -> tuple[int, int]:
        """Find the offsets of its first and its last row."""
        return self._parts[0][0][0].as_py(), self._parts[-1][0][-1].as_py()

    def describe(self) -> str:
        """From which offset to which its rows are."""
        return "from {} to {}".format(*self.find_ends())

    def _list_rows(self) -> Iterator[tuple[int, int]]:
        for offsets, breaks in self._parts:
            counts = [0] * len(offsets) if breaks is None else breaks.to_pylist()
            yield from zip(offsets.to_pylist(), counts, strict=True)


def _count(batch: pa.RecordBatch, character: str) -> pa.Array:
    """How often a character is in the texts of each row."""
    found = pa.array([0] * batch.num_rows, pa.int32())
    for column in batch.columns:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            counts = pc.count_substring(column, character)
            found = pc.add(found, pc.fill_null(counts, 0).cast(pa.int32()))
    return found
