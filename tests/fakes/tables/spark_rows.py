"""A batch of rows as Spark hands it to a sink: each task in a writer that was pickled, and the driver's commit last."""

from __future__ import annotations

import pickle

import pyarrow as pa
from pyspark.errors import PySparkException

from seamark.errors import SeamarkError
from seamark.pipelines.spark_frame import PARTITION, REASON
from seamark.tables.model import OFFSET


class FakeSession:
    """A session that knows the sinks that a driver's half registers."""

    def __init__(self):
        self.sinks = {}
        self.dataSource = self

    def register(self, sink):
        self.sinks[sink.name()] = sink


class FakeRows:
    """A DataFrame, as far as writing it to a sink needs one. `ids` are the records of each partition."""

    def __init__(self, session, steps, ids):
        self.sparkSession = session
        self.write = self
        firsts = {step.entry.partition: step.entry.next_offset for step in steps}
        self._tasks = [[build_batch(number, firsts[number], found)] for number, found in sorted(ids.items())]
        self._sink, self._options = None, {}

    def format(self, name):
        self._sink = self.sparkSession.sinks[name]
        return self

    def mode(self, word):
        assert word == "append"
        return self

    def options(self, **options):
        self._options = options
        return self

    def save(self):
        try:
            writer = self._sink(self._options).writer(None, overwrite=False)
            messages = [_copy(_copy(writer).write(iter(task))) for task in self._tasks]
            _copy(writer).commit(messages)
        except SeamarkError as error:
            # Spark passes on the text alone.
            raise PySparkException(str(error)) from None


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
