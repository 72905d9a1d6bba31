"""The rows of one task of a landing, from Arrow to CSV. A row that the database refuses is found by halves."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from seamark.database.landing_rows import DeadLetter, RowSink
from seamark.errors import RejectedError
from seamark.model.ledger_entry import DELETED, OFFSET
from seamark.pipelines.landing import Landing, Mode, OnError
from seamark.spark.land_frame import KEY, PARTITION, REASON, TIMESTAMP, VALUE
from seamark.spark.land_refusal import build_refusal

# Strings are quoted and nulls are not: that is how PostgreSQL tells an empty string from null.
_PLAIN = csv.WriteOptions(include_header=False)


class RowWriter:
    """Hands the batches of one range to the database."""

    def __init__(self, landing: Landing, sink: RowSink) -> None:
        self._landing = landing
        self._sink = sink
        beside = (OFFSET, DELETED) if landing.mode is Mode.UPSERT else ()
        self._names = [*(column.name for column in landing.columns), *beside]

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Write them all. Dead letters come last, when no COPY is under way."""
        dead: list[DeadLetter] = []
        for batch in batches:
            bad = pc.is_valid(batch.column(REASON))
            if pc.any(bad).as_py():
                dead += self._build_letters(batch.filter(bad))
                batch = batch.filter(pc.invert(bad))  # noqa: PLW2901 - what is left of it
            dead += self._copy(batch)
        if dead:
            self._sink.bury(dead)

    def _copy(self, batch: pa.RecordBatch) -> list[DeadLetter]:
        """Write a batch, and give those records of it that the database refuses."""
        if not batch.num_rows:
            return []
        refusal = self._sink.copy(build_csv(batch.select(self._names)), batch.num_rows)
        if refusal is None:
            return []
        if self._landing.on_error is OnError.STOP:
            raise self._build_error(batch, refusal.line, refusal.reason)
        if batch.num_rows == 1:
            place = batch.schema.get_field_index(REASON)
            return self._build_letters(batch.set_column(place, REASON, pa.array([refusal.reason], pa.string())))
        half = batch.num_rows // 2
        return [*self._copy(batch.slice(0, half)), *self._copy(batch.slice(half))]

    def _build_letters(self, batch: pa.RecordBatch) -> list[DeadLetter]:
        if self._landing.on_error is OnError.STOP:
            raise self._build_error(batch, 1, batch.column(REASON)[0].as_py())
        rows = batch.select([OFFSET, TIMESTAMP, REASON, KEY, VALUE]).to_pylist()
        return [DeadLetter(*row.values()) for row in rows]

    def _build_error(self, batch: pa.RecordBatch, line: int | None, reason: str) -> RejectedError:
        """The error for one record of a batch; where its line is not known, for all of them."""
        offsets = batch.column(OFFSET)
        spot = f"{self._landing.topic}-{batch.column(PARTITION)[0]}"
        which = f"a record of {spot}, from {offsets[0]} to {offsets[len(offsets) - 1]},"
        if line is not None and line <= batch.num_rows:
            which = f"the record {spot}@{offsets[line - 1]}"
        return build_refusal(self._landing, which, reason=reason)


def build_csv(batch: pa.RecordBatch) -> pa.Buffer:
    """As PostgreSQL reads it, with moments in UTC."""
    columns = [
        pc.cast(column, pa.timestamp("us", "UTC")) if pa.types.is_timestamp(column.type) else column
        for column in batch.columns
    ]
    out = pa.BufferOutputStream()
    csv.write_csv(pa.RecordBatch.from_arrays(columns, names=batch.schema.names), out, _PLAIN)
    return out.getvalue()
