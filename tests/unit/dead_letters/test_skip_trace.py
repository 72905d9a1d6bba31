"""What the trace of a failed task tells of the record."""

from __future__ import annotations

import pytest

from seamark.connect.model import State, Task
from seamark.dead_letters.records import build_failure, find_places, find_stage
from seamark.errors import UsageError
from seamark.kafka.model import RecordLocation, parse_place
from seamark.offsets.codec.converter_faults import SinkStage

HEAD = "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler\n"
CONVERTER = (
    HEAD
    + "\tat org.apache.kafka.connect.runtime.WorkerSinkTask.convertAndTransformRecord(WorkerSinkTask.java:549)\n"
    + "Caused by: org.apache.kafka.connect.errors.DataException: Converting byte[] to Kafka Connect data failed\n"
    + "\tat org.apache.kafka.connect.runtime.WorkerSinkTask.convertValue(WorkerSinkTask.java:593)\n"
    + "Caused by: com.fasterxml.jackson.core.JsonParseException: Unrecognized token 'x'\n"
)


@pytest.mark.parametrize(
    ("trace", "stage"),
    [
        (CONVERTER, SinkStage.VALUE_CONVERTER),
        ("a\n\tat o.a.k.c.runtime.WorkerSinkTask.convertKey(W.java:1)", SinkStage.KEY_CONVERTER),
        ("a\n\tat o.a.k.c.runtime.WorkerSinkTask.convertHeadersFor(W.java:1)", SinkStage.HEADER_CONVERTER),
        ("a\n\tat o.a.k.c.runtime.TransformationChain.apply(T.java:1)", SinkStage.TRANSFORMATION),
        (HEAD + "\tat o.a.k.c.runtime.WorkerSinkTask.deliverMessages(W.java:1)", SinkStage.TASK_PUT),
        ("java.lang.OutOfMemoryError", SinkStage.UNKNOWN),
        ("", SinkStage.UNKNOWN),
    ],
)
def test_stage_is_told_by_connects_own_frames(trace, stage):
    assert find_stage(trace) is stage


@pytest.mark.parametrize(
    "words",
    [
        "SinkRecord{kafkaOffset=123, timestampType=CreateTime} ConnectRecord{topic='a.b-c', kafkaPartition=3}",
        "where consumed record is {topic='a.b-c', partition=3, offset=123, timestamp=1}",
        "could not write topic a.b-c partition 3 offset 123",
        "record of topic: a.b-c, partition: 3, offset: 123 is too large",
        "Topic 'a.b-c', partition 3, at offset 123",
        "Error deserializing key/value for partition a.b-c-3 at offset 123. If needed, please seek past the record",
    ],
)
def test_place_is_found_in_words(words):
    assert find_places(f"java.lang.RuntimeException: {words}\n\tat x.y(Z.java:3)") == (RecordLocation("a.b-c", 3, 123),)


def test_numbers_that_are_no_place_are_none():
    assert find_places("Batch entry 300 INSERT INTO t-1 VALUES (2)\n\tat a.B-2(C.java:55)") == ()
    assert find_places(f"topic='t', partition=0, offset={'9' * 30}") == ()


def test_two_records_in_one_trace_are_both_named():
    trace = "topic='t', partition=0, offset=1 and topic='t', partition=0, offset=2"
    assert find_places(trace) == (RecordLocation("t", 0, 1), RecordLocation("t", 0, 2))


def test_failure_is_that_of_the_innermost_cause():
    failure = build_failure(Task(2, State.FAILED, trace=CONVERTER), class_name="c.Sink")
    assert (failure.exception, failure.task) == ("com.fasterxml.jackson.core.JsonParseException", 2)
    assert failure.message == "Unrecognized token 'x'"
    assert failure.stage == "VALUE_CONVERTER"
    assert "Unrecognized" not in repr(failure), "what a record holds stays out of plans and journals"


def test_place_is_read_and_written():
    place = parse_place(" orders-eu-3@123 ")
    assert place == RecordLocation("orders-eu", 3, 123)
    assert str(place) == "orders-eu-3@123"
    for wrong in ("orders@1", "orders-3", "orders-3@x", "-3@1", "a b-3@1", "orders-3@-1"):
        with pytest.raises(UsageError, match="invalid record location"):
            parse_place(wrong)
