"""Run work of ours in Spark's tasks, and return what each task reports."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from seamark.errors import SeamarkError
from seamark.spark.sessions import active_session

_RECEIPT = "receipt"


class TaskWriter(Protocol):
    """Writes the rows of one task, on an executor. It is pickled: secrets in it are not shown by Spark."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> dict[str, Any] | None:
        """Write these rows, and return a receipt as a JSON object; None where there is nothing to report."""


def run_tasks(rows: DataFrame, writer: TaskWriter) -> list[dict[str, Any]]:
    """Have a task write each partition of these rows.

    A Python data source would do the same with two more Python processes for each batch: one plans the write, one
    commits it (`UserDefinedPythonDataSource`, Spark 4.2). A failed or repeated task leaves only what its writer wrote:
    of each partition one receipt is returned.

    Args:
        rows: What is written.
        writer: How.

    Returns:
        The receipts, in no order.

    Raises:
        PySparkException: A task has failed. The text has the class of the error, its message, cause and hint.
    """
    with active_session(rows.sparkSession):
        found = _map(rows, _Task(writer)).collect()
    return [json.loads(row[_RECEIPT]) for row in found]


def _map(rows: DataFrame, task: _Task) -> DataFrame:
    """Build what `DataFrame.mapInArrow` builds, which asks for pandas and doesn't use it (PySpark 4.2)."""
    schema = StructType([StructField(_RECEIPT, StringType())])
    function = UserDefinedFunction(
        task, returnType=schema, name="seamark", evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    )
    column = function(*(rows[name] for name in rows.columns))
    return DataFrame(rows._jdf.mapInArrow(column._jc, False, None), rows.sparkSession)  # noqa: SLF001


@dataclass(frozen=True, slots=True)
class _Task:
    """What Spark calls in a task. Not a closure, so that executors import our code from their archive."""

    writer: TaskWriter

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            receipt = self.writer.write(batches)
        except SeamarkError as error:
            # Spark passes on the text of the exception alone.
            words = (error.message, error.cause and f"cause: {error.cause}", error.hint and f"hint: {error.hint}")
            error.args = ("\n  ".join(word for word in words if word),)
            raise
        if receipt is not None:
            yield pa.RecordBatch.from_pydict({_RECEIPT: [json.dumps(receipt)]})
