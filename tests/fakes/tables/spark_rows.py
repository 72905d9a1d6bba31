"""A batch of rows as Spark hands it to tasks: each with a writer that was pickled, and receipts as JSON."""

from __future__ import annotations

import json
import pickle

import pyarrow as pa
from pyspark.errors import PySparkException

from seamark.errors import SeamarkError
from seamark.pipelines.spark_frame import PARTITION, REASON
from seamark.tables.model import OFFSET


class FakeRows:
    """A DataFrame, as far as its tasks need one. `ids` are the records of each partition."""

    def __init__(self, steps, ids):
        firsts = {step.entry.partition: step.entry.next_offset for step in steps}
        self.tasks = [[build_batch(number, firsts[number], found)] for number, found in sorted(ids.items())]

    def coalesce(self, count):
        assert count >= 1
        return self


def run_fake_tasks(rows, writer):
    """What `run_tasks` does, without Spark."""
    try:
        receipts = [_copy(writer).write(iter(task)) for task in rows.tasks]
    except SeamarkError as error:
        # Spark passes on the text alone.
        raise PySparkException(str(error)) from None
    return [json.loads(json.dumps(one)) for one in receipts if one is not None]


def build_batch(partition, first, ids):
    count = len(ids)
    return pa.record_batch(
        {
            "id": pa.array(ids, pa.int64()),
            PARTITION: pa.array([partition] * count, pa.int32()),
            OFFSET: pa.array(range(first, first + count), pa.int64()),
            REASON: pa.nulls(count, pa.string()),
        }
    )


def _copy(value):
    return pickle.loads(pickle.dumps(value))
