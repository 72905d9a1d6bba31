"""COPY from each task of Spark, with nothing around it but a statement before and after, in the same transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import csv
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from bench.lands.copy_rows import copy_rows


class CopySink(DataSource):  # type: ignore[misc,unused-ignore] # Spark's types are not looked at
    """The sink as Spark knows it."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "bench.copy"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002 - Spark's words
        """The writer of one job."""
        around = {name: self.options.get(name, "") for name in ("before", "after")}
        return CopyWriter(self.options["statement"], self.options["database.url"], **around)


@dataclass
class CopyWriter(DataSourceArrowWriter):  # type: ignore[misc,unused-ignore]
    """One COPY in one transaction for each task."""

    statement: str
    dsn: str
    before: str = ""
    after: str = ""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task as CSV."""
        copy_rows(self.dsn, self.statement, map(_build_csv, iterator), before=self.before, after=self.after)
        return WriterCommitMessage()

    def commit(self, messages: Sequence[Any]) -> None:
        """Nothing to do."""

    def abort(self, messages: Sequence[Any]) -> None:
        """Nothing to do."""


def _build_csv(batch: pa.RecordBatch) -> bytes:
    text = pa.BufferOutputStream()
    csv.write_csv(batch, text, csv.WriteOptions(include_header=False))
    # psycopg takes any buffer, and a copy of it would take time that the rival need not spend.
    return text.getvalue()  # type: ignore[no-any-return,unused-ignore]
