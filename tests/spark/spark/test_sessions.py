"""Copies and landings in a given Spark session while another session is active in the thread."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from seamark.copies.run.spark_copy import CopySink, run_copy
from seamark.spark.sessions import active_session, describe_jobs, register_sink
from tests.spark.copy_side import build_ends, build_plan, fill
from tests.spark.lake_stage import open_lake_stage
from tests.spark.land_stage import open_land_stage

ROWS = 600
VALUES = [{"number": number, "words": f"w{number}"} for number in range(90)]


def get_sessions(spark):
    return SparkSession._get_j_spark_session_class(spark.sparkContext._jvm)


def is_active(spark):
    """Ask the JVM: PySpark's own `getActiveSession` may return a session that it has cached."""
    found = get_sessions(spark).getActiveSession()
    return found.isDefined() and found.get().equals(spark._jsparkSession)


def read_descriptions(spark):
    """Read the descriptions of all jobs that Spark still knows."""
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    found = [jobs.apply(number).description() for number in range(jobs.size())]
    return [one.get() for one in found if one.isDefined()]


def test_descriptions_are_escaped_and_end_with_their_block(spark):
    with describe_jobs(spark, "copy <b>a</b>"):
        assert spark.range(3).count() == 3
    with pytest.raises(ZeroDivisionError), describe_jobs(spark, "copy <b>a</b>"):
        print(1 / 0)
    before = read_descriptions(spark)
    assert "copy &lt;b&gt;a&lt;/b&gt;" in before
    assert spark.range(4).count() == 4
    assert sum("copy &lt;" in one for one in read_descriptions(spark)) == sum("copy &lt;" in one for one in before)


@pytest.fixture
def given(spark):
    """A session that is given to seamark. Another session, without seamark's sinks, is active in this thread."""
    other = spark.newSession()
    # As a user's own work does: creating a frame makes its session the active one.
    assert other.createDataFrame([(1,)], "number int").count() == 1
    assert is_active(other)
    yield spark.newSession()
    # The caller's session stays the active one.
    assert is_active(other)
    get_sessions(spark).setActiveSession(spark._jsparkSession)


def test_copy_runs_in_the_given_session(given, kafka):
    source, target = kafka.topic(partitions=2), kafka.topic(partitions=3)
    fill(kafka, source, rows=ROWS, partitions=2)
    plan = build_plan(source, target, found=kafka.read(source), shape=(2, 3), limit=ROWS)
    assert run_copy(given, plan, build_ends(kafka)).is_complete
    wanted = {f"seamark copy {source} to {target}: slice {part.id}" for part in plan.slices}
    assert wanted <= set(read_descriptions(given))
    copied = [(one.key, one.value, one.timestamp_ms) for one in kafka.read(target)]
    assert sorted(copied, key=str) == sorted(
        ((one.key, one.value, one.timestamp_ms) for one in kafka.read(source)), key=str
    )


def test_landing_in_postgresql_runs_in_the_given_session(given, stack, kafka):
    with open_land_stage(stack, kafka) as stage:
        stage.produce(VALUES)
        stage.run(given)
        assert stage.read("SELECT count(*), count(DISTINCT number) FROM {table}") == [(90, 90)]
        assert f"seamark pipeline {stage.build().name}: batch 0" in read_descriptions(given)


def test_landing_in_a_lake_runs_in_the_given_session(given, stack, kafka):
    with open_lake_stage(stack, kafka) as stage:
        stage.produce(VALUES)
        stage.run(given)
        assert stage.read("number") == [(number,) for number in range(90)]


def test_previous_active_session_is_restored_even_after_an_error(given):
    with active_session(given):
        assert is_active(given)
    assert not is_active(given)
    with pytest.raises(ZeroDivisionError), active_session(given):
        print(1 / 0)
    assert not is_active(given)
    register_sink(given, CopySink)
    assert not is_active(given)


def test_thread_without_an_active_session_has_none_afterwards(spark):
    sessions = get_sessions(spark)
    sessions.clearActiveSession()
    try:
        with active_session(spark):
            assert is_active(spark)
        assert not sessions.getActiveSession().isDefined()
    finally:
        sessions.setActiveSession(spark._jsparkSession)
