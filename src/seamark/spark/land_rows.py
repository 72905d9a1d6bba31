"""The rows of one task of a landing, from Arrow to CSV. A row that the database refuses is found by halves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from seamark.database.landing_rows import DeadLetter, RowSink
from seamark.errors import RejectedError
from seamark.model.ledger_entry import DELETED, OFFSET
from seamark.pipelines.landing import Landing, Mode, OnError
from seamark.spark.land_frame import KEY, REASON, TIMESTAMP, VALUE
from seamark.spark.land_refusal import build_refusal

# Strings are quoted and nulls are not: that is how PostgreSQL tells an empty string from null.
_PLAIN = csv.WriteOptions(include_header=False)


class RowWriter:
    """Hands the batches of one range to the database."""

    def __init__(self, landing: Landing, sink: RowSink, *, partition: int) -> None:
        self._landing = landing
        self._sink = sink
        self._spot = f"{landing.topic}-{partition}"
        beside = (OFFSET, DELETED) if landing.mode is Mode.UPSERT else ()
        self._names = [*(column.name for column in landing.columns), *beside]

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Write them all."""
        if self._landing.on_error is OnError.STOP:
            self._write_or_raise(batches)
        else:
            self._write_or_bury(batches)

    def _write_or_raise(self, batches: Iterable[pa.RecordBatch]) -> None:
        """In one COPY, which spares the database the beginnings and ends of many."""
        spots: list[pa.Array] = []
        refusal = self._sink.copy(self._list_texts(batches, spots))
        if refusal is None:
            return
        offsets = pa.chunked_array(spots)
        if refusal.line is not None and refusal.line <= len(offsets):
            raise self._build_error(f"the record {self._spot}@{offsets[refusal.line - 1]}", refusal.reason)
        which = f"a record of {self._spot}, from {offsets[0]} to {offsets[len(offsets) - 1]},"
        raise self._build_error(which, refusal.reason)

    def _list_texts(self, batches: Iterable[pa.RecordBatch], spots: list[pa.Array]) -> Iterator[pa.Buffer]:
        """The batches as CSV. `spots` gets their offsets, for the database tells of a line only."""
        for batch in batches:
            if batch.column(REASON).null_count < batch.num_rows:
                first = batch.filter(pc.is_valid(batch.column(REASON))).slice(0, 1).to_pylist()[0]
                raise self._build_error(f"the record {self._spot}@{first[OFFSET]}", first[REASON])
            # Anew: a part of a batch would keep all of it in memory.
            spots.append(pc.add(batch.column(OFFSET), 0))
            yield build_csv(batch.select(self._names))

    def _write_or_bury(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Dead letters come last, when no COPY is under way."""
        dead: list[DeadLetter] = []
        for batch in batches:
            bad = pc.is_valid(batch.column(REASON))
            if pc.any(bad).as_py():
                dead += _build_letters(batch.filter(bad))
                batch = batch.filter(pc.invert(bad))  # noqa: PLW2901 - what is left of it
            dead += self._copy(batch)
        if dead:
            self._sink.bury(dead)

    def _copy(self, batch: pa.RecordBatch) -> list[DeadLetter]:
        """Write a batch, and give those records of it that the database refuses."""
        if not batch.num_rows:
            return []
        refusal = self._sink.copy([build_csv(batch.select(self._names))])
        if refusal is None:
            return []
        if batch.num_rows == 1:
            place = batch.schema.get_field_index(REASON)
            return _build_letters(batch.set_column(place, REASON, pa.array([refusal.reason], pa.string())))
        half = batch.num_rows // 2
        return [*self._copy(batch.slice(0, half)), *self._copy(batch.slice(half))]

    def _build_error(self, which: str, reason: str) -> RejectedError:
        return build_refusal(self._landing, which, reason=reason)


def _build_letters(batch: pa.RecordBatch) -> list[DeadLetter]:
    rows = batch.select([OFFSET, TIMESTAMP, REASON, KEY, VALUE]).to_pylist()
    return [DeadLetter(*row.values()) for row in rows]


def build_csv(batch: pa.RecordBatch) -> pa.Buffer:
    """As PostgreSQL reads it, with moments in UTC."""
    columns = [
        pc.cast(column, pa.timestamp("us", "UTC")) if pa.types.is_timestamp(column.type) else column
        for column in batch.columns
    ]
    out = pa.BufferOutputStream()
    csv.write_csv(pa.RecordBatch.from_arrays(columns, names=batch.schema.names), out, _PLAIN)
    return out.getvalue()
