"""A task whose connection to Spark ends early commits nothing. tests/spark has the same with Arrow's own reader."""

from __future__ import annotations

import io

import pytest

from seamark.errors import UnreachableError
from seamark.kafka_sink.inputs import read_whole

SIZE, EOS, END = 4, b"done", b"\xff\xff\xff\xfc"


def read_messages(infile):
    """Messages of one size, as Arrow's reader takes them: the end is its mark, or a connection that is closed."""
    while (message := infile.read(SIZE)) not in (b"", EOS):
        yield message


def main(infile):
    """Read as `main` of pyspark.worker does."""
    return list(read_whole(read_messages(infile)))


@pytest.mark.parametrize("rows", [[], [b"row1"], [b"row1", b"row2"]])
def test_input_counts_only_with_what_spark_writes_behind_it(rows):
    whole = b"".join(rows) + EOS + END
    assert main(io.BufferedReader(io.BytesIO(whole))) == rows
    for left in range(len(rows) + 1):
        with pytest.raises(UnreachableError, match="ended early"):
            main(io.BufferedReader(io.BytesIO(b"".join(rows[:left]))))


def test_outside_of_spark_there_is_nothing_to_check():
    assert list(read_whole(iter([1, 2]))) == [1, 2]
