"""What Spark says, in our words."""

from __future__ import annotations

import logging
import os
import signal
import time
from pathlib import Path

import pytest

from seamark.errors import ConfigurationError, RefusedError, SeamarkError
from seamark.spark import settings as session
from seamark.spark.settings import (
    SparkOptions,
    build_copy_work,
    explain_failure,
    open_spark,
    require_spark,
    taking_interrupts,
)

WORK = build_copy_work("01A")
TASK = """Job aborted due to stage failure: Task 3 in stage 7.0 failed 4 times
  File "seamark/kafka_sink/spark.py", line 20, in told
seamark.errors.RefusedError: misplaced record at offset 7 of partition 1
  cause: the plan determined the partitioner from samples
  hint: create a new plan with --partitioner
	at org.apache.spark.api.python.BasePythonRunner
"""


def test_error_of_a_task_is_told_as_it_was_raised():
    error = explain_failure(Exception(TASK), WORK)
    assert isinstance(error, RefusedError)
    assert error.message == "misplaced record at offset 7 of partition 1"
    assert error.cause == "the plan determined the partitioner from samples"
    assert error.hint == "create a new plan with --partitioner"


NOT_FOUND = (
    "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: {}. Make sure the provider name is correct and the "
    "package is properly registered and compatible with your Spark version. SQLSTATE: 42K02"
)


@pytest.mark.parametrize(
    "text",
    [
        NOT_FOUND.format("kafka"),
        "Failed to find data source: kafka. Please deploy the application",
        "find data source: kafka",
    ],
)
def test_missing_kafka_source_is_reported_with_its_jars(text):
    error = explain_failure(Exception(text), WORK)
    assert isinstance(error, ConfigurationError)
    assert error.message == "Spark's Kafka source is not installed"
    assert "spark-sql-kafka-0-10" in error.hint


def test_other_missing_source_is_reported_by_its_name():
    error = explain_failure(Exception(NOT_FOUND.format("delta")), WORK)
    assert isinstance(error, ConfigurationError)
    assert error.message == "Spark did not find data source delta"
    assert "--jars" in error.hint
    assert "kafka" not in f"{error.message}{error.cause}{error.hint}"


@pytest.mark.parametrize("name", ["seamark.copy", "seamark.pipeline.postgres"])
def test_missing_source_of_seamark_is_not_reported_as_missing_jars(name):
    error = explain_failure(Exception(NOT_FOUND.format(name)), WORK)
    assert type(error) is SeamarkError
    assert error.message == f"Spark did not find seamark's data source {name}"
    assert "active" in error.cause
    assert "--jars" not in error.hint


def test_java_that_does_not_start_is_no_failure_of_the_copy():
    error = explain_failure(Exception("[JAVA_GATEWAY_EXITED] Java gateway process exited"), WORK)
    assert isinstance(error, ConfigurationError)
    assert "java is version 17 or 21" in error.hint


def test_log_of_spark_is_quiet_unless_somebody_has_set_it_up():
    found = session._build_quiet({}, {"spark.ui.enabled": "true"})
    assert Path(found["spark.driver.extraJavaOptions"].partition("=")[2]).is_file()
    assert (found["spark.log.level"], found["spark.ui.enabled"]) == ("ERROR", "true")
    own = {"spark.log.level": "INFO"}
    assert session._build_quiet({"SPARK_CONF_DIR": "/etc/spark"}, own) == own
    assert session._build_quiet({}, own)["spark.log.level"] == "INFO"


def test_other_java_options_keep_the_log_quiet():
    found = session._build_quiet({}, {"spark.driver.extraJavaOptions": "-Xss4m -Da=b"})["spark.driver.extraJavaOptions"]
    quiet, *own = found.split(" ")
    assert quiet.startswith("-Dlog4j2.configurationFile=")
    assert own == ["-Xss4m", "-Da=b"]
    logged = {"spark.driver.extraJavaOptions": "-Dlog4j2.configurationFile=/my/log.properties"}
    assert session._build_quiet({}, logged) == logged


def test_lines_of_java_are_logged_and_not_shown(caplog, capfd):
    caplog.set_level(logging.INFO, logger="seamark.spark")

    def launch(stderr):
        os.write(stderr, b"WARNING: Using incubator modules: jdk.incubator.vector\n\nspark: ERROR Executor: \xff\n")
        return "gateway"

    assert session.start_java(launch) == "gateway"
    deadline = time.monotonic() + 10
    while len(caplog.messages) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert caplog.messages == [
        "WARNING: Using incubator modules: jdk.incubator.vector",
        "spark: ERROR Executor: \ufffd",
    ]
    assert capfd.readouterr() == ("", "")


def test_the_last_line_of_a_java_that_ends_is_the_cause():
    def launch(stderr):
        os.write(stderr, b"Picked up JAVA_TOOL_OPTIONS: -Da=b\nError: Could not find or load main class X\n")
        raise RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.")

    with pytest.raises(ConfigurationError, match="can't start Spark") as caught:
        session.start_java(launch)
    assert caught.value.cause == "Error: Could not find or load main class X"
    with pytest.raises(ValueError, match="another one"):
        session.start_java(lambda _stderr: (_ for _ in ()).throw(ValueError("another one")))


def test_interrupt_raises_once_and_is_not_logged(caplog):
    def spark_handler(*_):
        raise AssertionError

    def work():
        with taking_interrupts():
            for module, words in (("clientserver", "noise"), ("elsewhere", "news")):
                record = {"module": module, "msg": words, "levelno": logging.ERROR, "levelname": "ERROR"}
                logging.getLogger().handle(logging.makeLogRecord(record))
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, spark_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            work()
        assert signal.getsignal(signal.SIGINT) is spark_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert caplog.messages == ["news"]


def test_other_failures_say_how_to_go_on_and_no_secret():
    error = explain_failure(Exception("\njava.lang.X: password=hunter2\n at y"), WORK)
    assert type(error) is SeamarkError
    assert "seamark copies run 01A" in error.hint
    assert "hunter2" not in error.cause
    gone = explain_failure(Exception("Some data may have been lost because they are not available"), WORK)
    assert "create a new plan" in gone.hint


@pytest.mark.parametrize("kind", ["PartialError", "dict", "NoSuchError"])
def test_name_of_an_error_is_not_trusted(kind):
    assert type(explain_failure(Exception(f"seamark.errors.{kind}: x"), WORK)) is SeamarkError


def test_missing_extra_is_named_before_anything_is_done(monkeypatch):
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match="pyspark and pyarrow") as caught:
        require_spark()
    assert caught.value.hint == "run pip install '.[spark]' in a checkout of seamark"
    with pytest.raises(ConfigurationError), open_spark(SparkOptions(), WORK):
        pass
