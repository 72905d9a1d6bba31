"""Dead letters of a landing's task, from Arrow."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from seamark.database.landing_rows import DeadLetter
from seamark.model.ledger_entry import OFFSET
from seamark.spark.land_frame import KEY, REASON, TIMESTAMP, VALUE

_NAMES = [OFFSET, TIMESTAMP, REASON, KEY, VALUE]
_MOST_IN_MEMORY = 64 * 2**20


def build_letters(batch: pa.RecordBatch) -> list[DeadLetter]:
    """The records of a batch as dead letters. Moments are texts: PostgreSQL knows years that Python does not."""
    columns = [batch.column(name) for name in _NAMES]
    columns[1] = pc.cast(columns[1], pa.string())
    return [DeadLetter(*row) for row in zip(*(column.to_pylist() for column in columns), strict=True)]


class LetterKeep:
    """Keeps the records of a range until the table has taken their rows, beyond some size on disk."""

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
        """Keep what a dead letter of these records would say."""
        kept = batch.select(_NAMES)
        if self._writer is None:
            self._writer = pa.ipc.new_stream(self._file, kept.schema)
        self._writer.write_batch(kept)

    def find(self, reasons: Mapping[int, str]) -> Iterator[DeadLetter]:
        """The dead letters of these offsets. Nothing can be added afterwards."""
        if self._writer is None or not reasons:
            return
        self._writer.close()
        self._file.seek(0)
        wanted = pa.array(list(reasons), pa.int64())
        for batch in pa.ipc.open_stream(self._file):
            found = batch.filter(pc.is_in(batch.column(OFFSET), wanted))
            says = [reasons[offset] for offset in found.column(OFFSET).to_pylist()]
            yield from build_letters(found.set_column(2, REASON, pa.array(says, pa.string())))
