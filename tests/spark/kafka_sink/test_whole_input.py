"""A task whose connection to Spark ends early commits nothing: Arrow alone would take that for the end of its rows."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pyarrow as pa
import pytest

from seamark.errors import UnreachableError, UnsupportedError
from seamark.kafka_sink.inputs import read_whole

BATCH = pa.record_batch({"value": [b"one", b"two", b"three"]})
# What Spark's worker reads behind the rows: SpecialLengths.END_OF_STREAM.
END = (-4).to_bytes(4, "big", signed=True)


def build_stream(batches):
    """Return the bytes of a stream, and where each of its messages ends."""
    written, ends = io.BytesIO(), []
    with pa.ipc.new_stream(written, BATCH.schema) as writer:
        for _ in range(batches):
            writer.write_batch(BATCH)
            ends.append(written.tell())
    return written.getvalue(), ends


def main(infile):
    """Read as `main` of pyspark.worker does."""
    return sum(batch.num_rows for batch in read_whole(iter(pa.ipc.open_stream(infile))))


def open_bytes(data):
    return io.BufferedReader(io.BytesIO(data))


def test_whole_input_is_passed_on():
    data, _ = build_stream(3)
    assert main(open_bytes(data + END)) == 9


@pytest.mark.parametrize("left", [1, 2, 3])
def test_input_that_ends_between_two_batches_is_an_error(left):
    data, ends = build_stream(3)
    cut = data[: ends[left - 1]]
    # Arrow itself notices nothing.
    assert len(list(pa.ipc.open_stream(io.BytesIO(cut)))) == left
    with pytest.raises(UnreachableError, match="ended early"):
        main(open_bytes(cut))


def test_input_without_rows_that_ends_early_is_an_error():
    data, _ = build_stream(0)
    with pytest.raises(UnreachableError, match="ended early"):
        main(open_bytes(data[:-8]))


def test_outside_of_spark_there_is_nothing_to_check():
    assert list(read_whole(iter([1, 2]))) == [1, 2]


def test_worker_whose_connection_is_not_found_is_refused(monkeypatch):
    worker = SimpleNamespace(__spec__=SimpleNamespace(name="pyspark.daemon"))
    monkeypatch.setitem(sys.modules, "__main__", worker)
    with pytest.raises(UnsupportedError):
        list(read_whole(iter([1, 2])))
