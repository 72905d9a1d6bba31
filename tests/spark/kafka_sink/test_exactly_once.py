"""Tasks that fail, are retried, run twice at a time or are repeated: every record is there once."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import replace
from uuid import uuid4

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.sql import functions as sf

from seamark.errors import DeadlineError, RefusedError
from seamark.kafka_sink import task as task_hold
from seamark.kafka_sink.control import Claim
from seamark.kafka_sink.control_reads import read_progress
from seamark.kafka_sink.options import read_options
from seamark.kafka_sink.spark import build_piece
from seamark.kafka_sink.task import ExactTask
from tests.spark.kafka_side import WAIT_SECONDS, numbers
from tests.spark.kafka_sink.faulty import AfterCommit, Midway, OneFails

ROWS = 40_000


@pytest.fixture
def frame(spark):
    """Two tasks of 20,000 rows, in batches of 2,000."""
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "2000")
    yield spark.range(ROWS, numPartitions=2).select(
        sf.col("id").cast("string").alias("value"), (sf.col("id") % 3).cast("int").alias("partition")
    )
    spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


def attempts(folder):
    """How often each task was begun."""
    return Counter(int(file.name.split("-")[0]) for file in folder.iterdir() if "-" in file.name)


def test_task_that_fails_after_its_commit_writes_nothing_twice(spark, kafka, save, frame, tmp_path):
    spark.dataSource.register(AfterCommit)
    topic = kafka.topic()
    save(frame, topic, format="faulty.after_commit", folder=str(tmp_path))
    assert attempts(tmp_path) == {0: 3, 1: 3}
    assert kafka.count(topic) == numbers(ROWS)
    # Not even for those who read what was taken back.
    assert kafka.count(topic, committed=False) == numbers(ROWS)
    assert (tmp_path / "committed").read_text() == "0:True 1:True"


def test_task_that_fails_midway_is_written_once(spark, kafka, save, frame, tmp_path):
    spark.dataSource.register(Midway)
    topic = kafka.topic()
    save(frame, topic, format="faulty.midway", folder=str(tmp_path))
    assert attempts(tmp_path) == {0: 3, 1: 3}
    assert kafka.count(topic) == numbers(ROWS)
    # The fault was real: there is debris that readers of committed records don't see.
    assert sum(kafka.count(topic, committed=False).values()) > ROWS


def test_ordered_task_goes_on_where_it_was(spark, kafka, save, frame, tmp_path):
    spark.dataSource.register(Midway)
    topic = kafka.topic()
    options = {"ordered": "true", "transaction.records": "4000", "job": "pieces"}
    save(frame, topic, format="faulty.midway", folder=str(tmp_path), **options)
    assert attempts(tmp_path) == {0: 3, 1: 3}
    assert kafka.count(topic) == numbers(ROWS)
    newest = {record.claim.task: record for record in kafka.records_of_tasks()}
    assert {task: (record.is_done, record.amount.records) for task, record in newest.items()} == {
        0: (True, 20_000),
        1: (True, 20_000),
    }
    # 4,000 rows by the first attempt, and 16,000 by the last; the second one failed before its first commit.
    assert {record.transactions for record in newest.values()} == {5}
    found = kafka.read(topic)
    for partition in range(3):
        for task in (range(ROWS // 2), range(ROWS // 2, ROWS)):
            values = [int(one.value) for one in found if one.partition == partition and int(one.value) in task]
            assert values == sorted(values)


def test_repeat_of_a_finished_job_is_a_no_op(spark, kafka, save, frame):
    topic = kafka.topic()
    for _ in range(2):
        save(frame, topic, job="nightly")
    assert kafka.count(topic, committed=False) == numbers(ROWS)
    assert len(kafka.records_of_tasks()) == 2
    with pytest.raises(Exception, match="differ from those it wrote before"):
        save(frame.where("value != '7'"), topic, job="nightly")
    save(frame, topic, job="another")
    assert kafka.count(topic) == numbers(ROWS) + numbers(ROWS)


@pytest.fixture
def half(spark, kafka, save, frame, tmp_path):
    """A topic with the rows of task 0; the job died before task 1 was done."""
    spark.dataSource.register(OneFails)
    topic = kafka.topic()
    with pytest.raises(Exception, match="planted"):
        save(frame, topic, format="faulty.one_fails", folder=str(tmp_path), job="half")
    assert sum(kafka.count(topic).values()) == ROWS // 2
    return topic


def test_job_that_died_goes_on(kafka, save, frame, half):
    """One task of two was done; the repeat writes the other alone."""
    save(frame, half, job="half")
    assert kafka.count(half) == numbers(ROWS)


def test_rows_that_changed_their_tasks_are_refused(kafka, save, frame, half):
    swapped = frame.withColumn("task", 1 - sf.spark_partition_id())
    with pytest.raises(Exception, match="the rows of task 0 of job half differ from those it wrote before"):
        save(swapped, half, job="half")


def test_sum_of_rows_is_the_same_in_any_order_and_of_no_others():
    rows = [(b"k", b"1", 7), (None, b"2", 8), (b"k", None, None)]

    def total(*chosen):
        columns = {
            name: pa.array([rows[place][at] for place in chosen], pa.binary())
            for at, name in enumerate(("key", "value"))
        }
        stamps = pa.array([rows[place][2] for place in chosen], pa.timestamp("us", tz="UTC"))
        return build_piece(pa.record_batch({**columns, "timestamp": stamps}), "t", is_summed=True).amount

    assert total(0, 1, 2) == total(2, 0, 1) == total(1) + total(0, 2)
    assert len({total(0).sum, total(1).sum, total(2).sum, total(0, 1).sum}) == 4
    assert total(0, 0).records == total(0, 1).records


def test_job_with_fewer_tasks_than_before_is_refused(kafka, save, frame, half):
    with pytest.raises(Exception, match="the rows of task 0 of job half differ from those it wrote before"):
        save(frame.coalesce(1), half, job="half")
    assert sum(kafka.count(half).values()) == ROWS // 2
    # None of the tasks of the first time is among these.
    with pytest.raises(Exception, match="task 0 of an earlier run is missing") as caught:
        save(frame.coalesce(1).withColumn("task", sf.lit(7)), half, job="half")
    assert f"{ROWS // 2} rows are duplicated" in str(caught.value)


def test_task_that_had_rows_and_has_none_is_refused(kafka, save, frame, half):
    empty = frame.where(sf.spark_partition_id() == 1)
    with pytest.raises(Exception, match="differ from those it wrote before: 0 records"):
        save(empty, half, job="half")


def test_control_topic_made_anew_under_a_job_is_refused(spark, kafka, save, frame):
    save(frame, kafka.topic(), job="known")
    settings = replace(settings_of(kafka), control_id=kafka.topic_id(kafka.control))
    topic, claim = kafka.topic(), Claim("anew", task=0)
    ExactTask(settings, claim).write([piece(topic, 0, 10)])
    kafka.make_anew(kafka.control, partitions=8, cleanup_policy="compact")
    with pytest.raises(RefusedError, match="was recreated while the job ran"):
        ExactTask(settings, claim).write([piece(topic, 0, 10)])
    assert kafka.count(topic, committed=False) == numbers(10)


def settings_of(kafka, **kafka_options):
    given = {"kafka.bootstrap.servers": kafka.servers, "control.topic": kafka.control, **kafka_options}
    return read_options(given).build_settings()


def piece(topic, first, last):
    values = [str(number).encode() for number in range(first, last)]
    return build_piece(pa.record_batch({"value": pa.array(values, pa.binary())}), topic)


def test_twins_fence_each_other_and_one_of_them_writes(spark, kafka, save):
    """Two attempts at one task at the same time, as speculation has them."""
    topic = kafka.topic()
    # Makes the control topic.
    save(spark.range(1).selectExpr("'x' AS value"), kafka.topic())
    claim = Claim(f"twins-{uuid4().hex[:6]}", task=0)
    second_began, reports = threading.Event(), {}

    def slow():
        yield piece(topic, 0, 500)
        assert second_began.wait(WAIT_SECONDS), f"waited {WAIT_SECONDS} s for the second attempt to begin"
        yield piece(topic, 500, 1000)

    def fast():
        yield piece(topic, 0, 400)
        second_began.set()
        # The first attempt meets the fence while this one is still busy.
        time.sleep(3)
        yield piece(topic, 400, 1000)

    def attempt(name, rows):
        reports[name] = ExactTask(settings_of(kafka), claim).write(rows)

    first = threading.Thread(target=attempt, args=("first", slow()))
    first.start()
    deadline = time.monotonic() + WAIT_SECONDS
    while not kafka.count(topic, committed=False):
        assert time.monotonic() < deadline, f"waited {WAIT_SECONDS} s for rows of the first attempt"
        time.sleep(0.1)
    attempt("second", fast())
    first.join(WAIT_SECONDS)
    assert not first.is_alive(), f"waited {WAIT_SECONDS} s for the first attempt to see that the second has done it"
    assert (reports["first"].is_repeat, reports["second"].is_repeat) == (True, False)
    assert kafka.count(topic) == numbers(1000)
    assert sum(kafka.count(topic, committed=False).values()) > 1000


def test_hung_transaction_of_others_does_not_cause_a_repeat(spark, kafka, save, monkeypatch):
    """It hides our own control record from readers of committed records; the repeat waits instead of writing again."""
    topic = kafka.topic()
    save(spark.range(1).selectExpr("'x' AS value"), kafka.topic())
    claim = Claim(f"hung-{uuid4().hex[:6]}", task=0)
    hung = open_hung(kafka)

    def rows():
        yield piece(topic, 0, 500)
        # The task has read the control records and has not written its own.
        hung.produce(kafka.control, key=b"somebody/0", value=b"{}", partition=claim.partition)
        assert hung.flush(30) == 0
        yield piece(topic, 500, 1000)

    assert not ExactTask(settings_of(kafka), claim).write(rows()).is_repeat
    with pytest.raises(DeadlineError, match="to its end"):
        read_progress(settings_of(kafka).reader, kafka.control, claim=claim, patience_seconds=1)
    # An attempt whose patience ends before that transaction does refuses: it does not take silence for "not done".
    with monkeypatch.context() as patched:
        patched.setattr(task_hold, "_SLACK_SECONDS", 0.0)
        hasty = settings_of(kafka, **{"kafka.transaction.timeout.ms": "1000"})
        with pytest.raises(DeadlineError, match="to its end") as caught:
            ExactTask(hasty, claim).write([piece(topic, 0, 1000)])
        assert "an open transaction hides" in caught.value.cause
    assert kafka.count(topic, committed=False) == numbers(1000)
    began_at = time.monotonic()
    assert ExactTask(settings_of(kafka), claim).write([piece(topic, 0, 1000)]).is_repeat
    assert time.monotonic() - began_at > 1
    assert kafka.count(topic, committed=False) == numbers(1000)


def open_hung(kafka):
    """A producer in a transaction that nobody will end but the brokers."""
    hung = Producer(
        {
            "bootstrap.servers": kafka.servers,
            "transactional.id": uuid4().hex,
            "transaction.timeout.ms": 15_000,
            "message.timeout.ms": 14_000,
        }
    )
    hung.init_transactions(60)
    hung.begin_transaction()
    return hung
