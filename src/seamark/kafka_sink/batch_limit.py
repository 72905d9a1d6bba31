"""The bytes of a batch that Spark hands to Python, and when nobody needs to count them.

Spark counts the bytes of all columns anew for each row, to end a batch at 64 MiB. For small rows that is a quarter of
its work, and ten thousand of them never come near.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from seamark.kafka.record_sizes import read_record_bytes

_BATCH_BYTES, _BATCH_ROWS = "spark.sql.execution.arrow.maxBytesPerBatch", "spark.sql.execution.arrow.maxRecordsPerBatch"
T = TypeVar("T")
# What Spark takes for "do not count".
_NO_LIMIT = str(2**31 - 1)
_DEFAULT = 64 << 20
# Records that follow may be larger than those that were looked at.
_RESERVE = 4
# How Spark and Arrow say that a batch was too large after all.
_TOO_LARGE = (
    "OutOfMemory",
    "OversizedAllocation",
    "ExecutorLostFailure",
    "MemoryLimit",
    # The kernel's out-of-memory killer takes a Python worker, and Spark only sees that it is gone.
    "Python worker exited unexpectedly",
)


class BatchLimit:
    """Whether the bytes of batches are counted. They are not, once records were seen to be small."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._is_lifted = False

    def look(self, config: Mapping[str, str], topic: str, *, begins: Mapping[int, int]) -> None:
        """Look at the next records of the source. A limit of the user's own stays."""
        if str(self._spark.conf.get(_BATCH_BYTES)).removesuffix("b") != str(_DEFAULT):
            return
        size = read_record_bytes(config, topic, begins=begins)
        rows = int(str(self._spark.conf.get(_BATCH_ROWS)))
        self._is_lifted = 0 < size * rows * _RESERVE <= _DEFAULT

    def run(self, job: Callable[[], T]) -> T:
        """Run a job of Spark's; once more, with bytes counted from then on, where a batch may have been too large.

        What the job wrote the first time it must not write again.
        """
        try:
            with self._hold():
                return job()
        except PySparkException as error:
            if not self._is_lifted or not any(word in str(error) for word in _TOO_LARGE):
                raise
            self._is_lifted = False
            return job()

    @contextmanager
    def _hold(self) -> Iterator[None]:
        if not self._is_lifted:
            yield
            return
        former = str(self._spark.conf.get(_BATCH_BYTES))
        self._spark.conf.set(_BATCH_BYTES, _NO_LIMIT)
        try:
            yield
        finally:
            self._spark.conf.set(_BATCH_BYTES, former)
