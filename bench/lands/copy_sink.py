"""COPY from each task of Spark, without anything around it: what a landing would be if nothing could ever fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
import pyarrow as pa
from pyarrow import csv
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType


class CopySink(DataSource):  # type: ignore[misc,unused-ignore] # Spark's types are not looked at
    """The sink as Spark knows it."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "bench.copy"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002 - Spark's words
        """The writer of one job."""
        return CopyWriter(self.options["statement"], self.options["database.url"])


@dataclass
class CopyWriter(DataSourceArrowWriter):  # type: ignore[misc,unused-ignore]
    """One COPY in one transaction for each task."""

    statement: str
    dsn: str

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task as CSV."""
        plain = csv.WriteOptions(include_header=False)
        with (
            psycopg.connect(self.dsn) as connection,
            connection.cursor() as cursor,
            cursor.copy(self.statement.encode()) as out,
        ):
            for batch in iterator:
                text = pa.BufferOutputStream()
                csv.write_csv(batch, text, plain)
                out.write(text.getvalue())
        return WriterCommitMessage()

    def commit(self, messages: Sequence[Any]) -> None:
        """Nothing to do."""

    def abort(self, messages: Sequence[Any]) -> None:
        """Nothing to do."""
