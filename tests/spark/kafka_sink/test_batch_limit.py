"""When Spark counts the bytes of batches for Python, and when not. Needs pyspark, and no server."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from seamark.kafka_sink import spark as batch_limit
from seamark.kafka_sink.spark import BatchLimit

BYTES, ROWS = "spark.sql.execution.arrow.maxBytesPerBatch", "spark.sql.execution.arrow.maxRecordsPerBatch"


class Session:
    def __init__(self, **confs):
        self.confs = {BYTES: "67108864b", ROWS: "10000", **confs}

    @property
    def conf(self):
        return self

    def get(self, key):
        return self.confs[key]

    def set(self, key, value):
        self.confs[key] = value


def open_limit(monkeypatch, session, size):
    monkeypatch.setattr(batch_limit, "read_record_bytes", lambda config, topic, *, begins: size)
    limit = BatchLimit(session)
    limit.look({}, "t", begins={0: 0})
    return limit


def read_held(limit, session, *errors):
    """The limit of each time that a job is run, which fails so often with these errors."""
    seen, failures = [], list(errors)

    def job():
        seen.append(session.confs[BYTES])
        if failures:
            raise PySparkException(failures.pop(0))

    limit.run(job)
    return seen


@pytest.mark.parametrize(
    ("size", "confs", "held"),
    [
        (100, {}, "2147483647"),
        (1677, {}, "2147483647"),
        (1678, {}, "67108864b"),
        # None came: nobody knows.
        (0, {}, "67108864b"),
        (100, {BYTES: "16777216b"}, "16777216b"),
        # Without an end to its rows, a batch has no end.
        (100, {ROWS: "0"}, "67108864b"),
    ],
)
def test_bytes_of_small_records_are_not_counted(monkeypatch, size, confs, held):
    session = Session(**confs)
    before = dict(session.confs)
    assert read_held(open_limit(monkeypatch, session, size), session) == [held]
    assert session.confs == before


def test_bytes_are_counted_after_a_batch_was_too_large(monkeypatch):
    session = Session()
    limit = open_limit(monkeypatch, session, 100)
    with pytest.raises(PySparkException, match="at 7"):
        read_held(limit, session, "misplaced record at 7: its key belongs to target partition 1")
    too_large = "org.apache.arrow.memory.OutOfMemoryException: Unable to allocate buffer"
    assert read_held(limit, session, too_large) == ["2147483647", "67108864b"]
    assert read_held(limit, session) == ["67108864b"]
    # Then it was something else.
    with pytest.raises(PySparkException, match="OutOfMemory"):
        read_held(limit, session, "OutOfMemory")
