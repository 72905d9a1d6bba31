"""The rows of one task of a landing, from Arrow to CSV. A row that the database refuses is found by halves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from seamark.database.landing_halves import find_refused
from seamark.database.landing_rows import DeadLetter, RowSink
from seamark.errors import RejectedError
from seamark.model.ledger_entry import OFFSET
from seamark.pipelines.landing import Landing, Mode, OnError
from seamark.spark.land_database import build_landing_table
from seamark.spark.land_frame import REASON
from seamark.spark.land_letters import LetterKeep, build_letters
from seamark.spark.land_lines import RowLines
from seamark.spark.land_refusal import build_refusal

# Strings are quoted and nulls are not: that is how PostgreSQL tells an empty string from null.
_PLAIN = csv.WriteOptions(include_header=False)


class RowWriter:
    """Hands the batches of one range to the database."""

    def __init__(self, landing: Landing, sink: RowSink, *, partition: int) -> None:
        self._landing = landing
        self._sink = sink
        self._spot = f"{landing.topic}-{partition}"
        self._names = list(build_landing_table(landing).staged)

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Write them all."""
        if self._landing.on_error is OnError.STOP:
            self._write_or_raise(batches)
        else:
            self._write_or_bury(batches)

    def _write_or_raise(self, batches: Iterable[pa.RecordBatch]) -> None:
        """In one COPY, which spares the database the beginnings and ends of many."""
        lines = RowLines()
        refusal = self._sink.copy(self._list_texts(batches, lines))
        if refusal is not None:
            offset = None if refusal.line is None else lines.find(refusal.line)
            which = f"a record of {self._spot}, {lines.describe()}," if offset is None else self._name(offset)
            raise self._build_error(which, refusal.reason)
        for offset, reason in self._sink.settle():
            raise self._build_error(self._name(offset), reason)

    def _list_texts(self, batches: Iterable[pa.RecordBatch], lines: RowLines) -> Iterator[bytes]:
        """The batches as CSV. `lines` gets to know them, for the database tells of a line only."""
        for batch in filter(len, batches):
            if batch.column(REASON).null_count < batch.num_rows:
                # No more than these two: others may hold what Python can't.
                first = batch.filter(pc.is_valid(batch.column(REASON))).select([OFFSET, REASON]).slice(0, 1)
                raise self._build_error(self._name(first.column(0)[0].as_py()), first.column(1)[0].as_py())
            text = build_csv(batch.select(self._names))
            lines.add(batch.select(list(dict.fromkeys([*self._names, OFFSET]))), text)
            yield text

    def _write_or_bury(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Dead letters come last, when no COPY is under way."""
        dead: list[DeadLetter] = []
        with LetterKeep() as keep:
            for batch in batches:
                bad = pc.is_valid(batch.column(REASON))
                if pc.any(bad).as_py():
                    dead += build_letters(batch.filter(bad))
                    batch = batch.filter(pc.invert(bad))  # noqa: PLW2901 - what is left of it
                dead += self._copy(batch)
                if self._landing.mode is Mode.UPSERT:
                    keep.add(batch)
            dead += keep.find(dict(self._sink.settle()))
        if dead:
            self._sink.bury(dead)

    def _copy(self, batch: pa.RecordBatch) -> list[DeadLetter]:
        """Write a batch, and give those records of it that the database refuses."""

        def take(first: int, end: int) -> str | None:
            refusal = self._sink.copy([build_csv(batch.slice(first, end - first).select(self._names))])
            return None if refusal is None else refusal.reason

        refused = dict(find_refused(batch.num_rows, take))
        if not refused:
            return []
        found = batch.take(pa.array(list(refused)))
        says = pa.array(list(refused.values()), pa.string())
        return build_letters(found.set_column(found.schema.get_field_index(REASON), REASON, says))

    def _name(self, offset: int) -> str:
        return f"the record {self._spot}@{offset}"

    def _build_error(self, which: str, reason: str) -> RejectedError:
        return build_refusal(self._landing, which, reason=reason)


def build_csv(batch: pa.RecordBatch) -> bytes:
    """As PostgreSQL reads it, with moments in UTC."""
    columns = [
        pc.cast(column, pa.timestamp("us", "UTC")) if pa.types.is_timestamp(column.type) else column
        for column in batch.columns
    ]
    out = pa.BufferOutputStream()
    csv.write_csv(pa.RecordBatch.from_arrays(columns, names=batch.schema.names), out, _PLAIN)
    text: bytes = out.getvalue().to_pybytes()
    return text
