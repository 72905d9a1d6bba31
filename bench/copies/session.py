"""One Spark session for all legs, and what is known of its process."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.harness.definition import BenchError
from bench.harness.record import ROOT
from seamark.devstack.downloads import spark_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# As much as the worker has that MirrorMaker runs in.
HEAP = "1g"
# Spark keeps consumers, and what they have fetched, for a while. On a cluster executors do that. Here they are in the
# driver's JVM, and who asks what the driver holds waits until they are gone.
_POOL = "spark.kafka.consumer"
_KEPT_SECONDS, _EVICTED_SECONDS = 4, 1
_POOL_CONFS = {
    f"{_POOL}.{name}": f"{seconds}s"
    for pool in ("cache", "fetchedData.cache")
    for name, seconds in (
        (f"{pool}.timeout", _KEPT_SECONDS),
        (f"{pool}.evictorThreadRunInterval", _EVICTED_SECONDS),
    )
}


@contextmanager
def open_spark(more: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A session with two slots. It tells of warnings only: what Kafka's clients say of each partition takes time."""
    from seamark.spark.sessions import open_session  # noqa: PLC0415 - the list of benches needs no Spark

    os.environ["PYTHONPATH"] = f"{ROOT}{os.pathsep}{ROOT / 'src'}"
    conf = {"spark.ui.enabled": "false", "spark.driver.memory": HEAP, **_POOL_CONFS, **(more or {})}
    session = open_session("local[2]", app="bench", jars=spark_jars(), conf=conf)
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def read_jvm_pid(spark: SparkSession) -> int:
    """The process of driver and executor."""
    return int(_java(spark).lang.ProcessHandle.current().pid())


def reset_peak() -> None:
    """Have the system forget the most memory that this process had so far."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def read_live_heap(spark: SparkSession) -> int:
    """The bytes that the JVM can't let go of, when Spark's pools of consumers are empty."""
    time.sleep(_KEPT_SECONDS + 2 * _EVICTED_SECONDS)
    java = _java(spark)
    java.lang.System.gc()
    runtime = java.lang.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory())


def _java(spark: SparkSession) -> Any:
    jvm = spark.sparkContext._jvm  # noqa: SLF001 - there is no other way to ask the JVM
    if jvm is None:
        raise BenchError("the session has no JVM")
    return jvm.java
