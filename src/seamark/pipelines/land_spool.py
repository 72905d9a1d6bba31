"""The records of a range, kept until the table has taken their rows, and as dead letters."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from seamark.pipelines.land_frame import KEY, REASON, TIMESTAMP, VALUE
from seamark.tables.ledger_entry import OFFSET
from seamark.tables.postgres.refusals import Refusals

LETTER = (OFFSET, TIMESTAMP, REASON, KEY, VALUE)
# Each task of an executor has one; what is more goes to disk.
_MOST_IN_MEMORY = 16 * 2**20


class BatchSpool:
    """Batches in a file, to be read as often as needed."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(_MOST_IN_MEMORY)  # noqa: SIM115 - closed by `__exit__`
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Keep a batch, before the first one is read."""
        if self._writer is None:
            self._writer = pa.ipc.new_stream(self._file, batch.schema)
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Note that no batch follows."""
        if self._writer is not None:
            self._writer.close()

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read all batches, in their sequence."""
        if self._writer is None:
            return
        self._file.seek(0)
        yield from pa.ipc.open_stream(self._file)


def mark(batch: pa.RecordBatch, refusals: Refusals) -> pa.RecordBatch:
    """Set the reasons of the records of a batch that were refused."""
    if not len(refusals) or not batch.num_rows:
        return batch
    offsets = batch.column(OFFSET)
    found = refusals.find(pc.min(offsets).as_py(), pc.max(offsets).as_py())
    if not found:
        return batch
    says = pa.array([found.get(offset) for offset in offsets.to_pylist()], pa.string())
    return set_reasons(batch, pc.coalesce(batch.column(REASON), says))


def set_reasons(batch: pa.RecordBatch, reasons: pa.Array) -> pa.RecordBatch:
    """Set why each record of a batch can't be a row; null where it can."""
    place = batch.schema.get_field_index(REASON)
    return batch.set_column(place, batch.schema.field(place), reasons)


def build_letters(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Build dead letters of records. Times are texts, because PostgreSQL has years that Python doesn't have."""
    offsets, times, reasons, keys, values = (batch.column(name) for name in LETTER)
    columns = [offsets, pc.cast(times, pa.string()), reasons, _build_hex(keys), _build_hex(values)]
    return pa.RecordBatch.from_arrays(columns, names=list(LETTER))


def _build_hex(values: pa.Array) -> pa.Array:
    return pa.array([None if value is None else f"\\x{value.hex()}" for value in values.to_pylist()], pa.string())
