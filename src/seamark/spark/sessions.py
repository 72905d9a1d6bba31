"""Spark sessions: one of ours, or the user's own."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from html import escape
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.datasource import DataSource

from seamark.core.secrets import mask_value
from seamark.errors import ConfigurationError
from seamark.spark.packing import build_paths, read_submitted
from seamark.spark.settings import build_auth_conf, build_source_options, find_open_connections, start_java
from seamark.spark.slices import OffsetRange

MASTER_VARIABLE = "SEAMARK_SPARK_MASTER"
JARS_VARIABLE = "SEAMARK_SPARK_JARS"
_HADOOP = "spark.hadoop."
_DESCRIPTION = "spark.job.description"
_POOL = "spark.scheduler.pool"
_LOGGER = logging.getLogger("seamark.spark")

CONFS: Mapping[str, str] = {
    # Without kafka in it: the older path converts every record twice and reads columns that the query doesn't use.
    "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
    # A task that runs again must get the rows it had. Adaptive execution cuts partitions by what it measures.
    "spark.sql.adaptive.enabled": "false",
    # Spark caches each Kafka consumer for the next query of its group, with the records that it has fetched: tens of
    # megabytes each, for five minutes. Every batch query has its own group, so that no query reuses them.
    "spark.kafka.consumer.cache.timeout": "20s",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "5s",
    "spark.kafka.consumer.fetchedData.cache.timeout": "20s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "5s",
    # Spark's own word list, and the keys of Kafka clients that it does not know: options with these are not shown.
    "spark.sql.redaction.options.regex": (
        "(?i)url|secret|password|passphrase|token|credential|jaas|oauthbearer|[.]pem|access[.]?key|keystore[.]key"
    ),
    "spark.ui.showConsoleProgress": "false",
    # The UI listens on all addresses, shows queries and has links that kill jobs, all without a login.
    "spark.ui.enabled": "false",
}
"""What our sessions are set to, under what the caller sets."""


def open_session(
    master: str | None = None,
    *,
    app: str = "seamark",
    jars: str | Path | Iterable[str | Path] | None = None,
    conf: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
    is_quiet: bool = False,
) -> SparkSession:
    """A session that knows the sink `seamark.kafka`.

    Args:
        master: A master's URL, or `local[*]`; by default that of `SEAMARK_SPARK_MASTER`, else `local[*]`. In a driver
            that spark-submit has started it is by default what was given there, as are all settings.
        app: The name that Spark's pages show.
        jars: A folder of jars, or jars one by one, for Spark's own Kafka source and others; by default the folder that
            `SEAMARK_SPARK_JARS` names. The sink needs none.
        conf: Spark's own settings; they override ours. Secrets are accepted only for `spark.hadoop.` keys: every other
            setting is on the command line of the JVM, which all users of the machine can read.
        spark: A session of yours. It is used as it is, and only told of the sink.
        is_quiet: Whether the standard error of the JVM is logged (`seamark.spark`, INFO) and not shown. Only for the
            first session of a process, because later ones use the same JVM.
    """
    if spark is not None:
        return register(spark)
    if (given := read_submitted()) is not None:
        jars_of_ours = {} if "spark.jars" in given else _jars(jars)
        settings = {**CONFS, **_near(given["spark.master"]), **jars_of_ours}
        own = {key: value for key, value in settings.items() if key not in given}
        # Spark looks up the sink with a Python that may not have the archive on its path: set the path.
        chosen = {"spark.master": master} if master else {}
        return register(_open(app, {**own, **build_paths(given, os.environ), **chosen, **(conf or {})}))
    # Executors take the Python that the driver names; without it they take whatever python3 is on their PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    where = master or os.environ.get(MASTER_VARIABLE) or "local[*]"
    settings = {**CONFS, **_near(where), **build_auth_conf(where), **_jars(jars), **(conf or {})}
    if warning := find_open_connections(where, settings):
        _LOGGER.warning(warning)
    # Spark discovers the sink in the package pyspark_seamark.
    return _open(app, {"spark.master": where, **settings}, is_quiet=is_quiet)


def _open(app: str, settings: Mapping[str, str], *, is_quiet: bool = False) -> SparkSession:
    secrets = {key: value for key, value in settings.items() if mask_value(key, value) != value}
    _check_secrets(secrets)
    shown = {key: value for key, value in settings.items() if key not in secrets}
    if is_quiet and SparkContext._gateway is None:  # noqa: SLF001 - PySpark has no other access to it
        start_java(lambda stderr: _launch({"spark.app.name": app, **shown}, stderr))
    builder = SparkSession.builder.appName(app)
    for key, value in shown.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    # `launch_gateway` passes every setting of the builder to the JVM as `--conf` on its command line. What is set in
    # the running JVM isn't there, and executors get the Hadoop configuration with each job.
    for key, value in secrets.items():
        hadoop = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 - PySpark has no other access to it
        hadoop.set(key.removeprefix(_HADOOP), value)
    return spark


def _launch(settings: Mapping[str, str], stderr: int) -> None:
    """Start the JVM as the first session of a process does (`SparkContext._ensure_initialized`, PySpark 4.2)."""
    conf = SparkConf()
    for key, value in settings.items():
        conf.set(key, value)
    SparkContext._ensure_initialized(gateway=launch_gateway(conf, {"stderr": stderr}))  # noqa: SLF001


def _check_secrets(keys: Iterable[str]) -> None:
    if wrong := sorted(key for key in keys if not key.startswith(_HADOOP)):
        raise ConfigurationError(
            f"refusing to pass {', '.join(wrong)} to Spark as an option; Spark was not started",
            cause="it is a secret, and all users of the machine can see the command line of Spark's JVM",
            hint="set it in spark-defaults.conf, in the folder of SPARK_CONF_DIR",
        )


def register(spark: SparkSession) -> SparkSession:
    """Tell a session of the sink `seamark.kafka`; gives the session back."""
    # As Spark itself finds it: sessions are below the sink, which is built on them.
    from pyspark_seamark import DefaultSource  # noqa: PLC0415

    register_sink(spark, DefaultSource)
    return spark


def register_sink(spark: SparkSession, sink: type[DataSource]) -> None:
    """Register a sink in a session, whichever session is active in this thread."""
    with active_session(spark):
        spark.dataSource.register(sink)


@contextmanager
def active_session(spark: SparkSession) -> Iterator[None]:
    """Make a session the active one of this thread, and restore the previous one afterwards.

    Spark registers a Python data source in the session it is given, but looks its name up in the active session of
    the thread, even for a frame of another session (`DataSource.lookupDataSource`, Spark 4.2).
    """
    sessions = SparkSession._get_j_spark_session_class(spark.sparkContext._jvm)  # noqa: SLF001 - as PySpark does it
    previous = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)  # noqa: SLF001
    try:
        yield
    finally:
        if previous.isDefined():
            sessions.setActiveSession(previous.get())
        else:
            sessions.clearActiveSession()


@contextmanager
def describe_jobs(spark: SparkSession, text: str, *, tag: str = "", pool: str = "") -> Iterator[None]:
    """Describe the Spark jobs that this thread starts, in Spark's UI and its event log.

    With a `tag`, another thread can cancel them: `cancelJobsWithTag`. Pools share the cores evenly if Spark's scheduler
    is FAIR.
    """
    context = spark.sparkContext
    previous = {key: context.getLocalProperty(key) for key in (_DESCRIPTION, _POOL)}
    # Spark's UI takes a description that is XML for markup.
    context.setJobDescription(escape(text))
    if pool:
        context.setLocalProperty(_POOL, pool)
    if tag:
        context.addJobTag(tag)
    try:
        yield
    finally:
        if tag:
            context.removeJobTag(tag)
        for key, value in previous.items():
            # None removes it; PySpark's annotation doesn't know that.
            context.setLocalProperty(key, value)  # type: ignore[arg-type]


def branch(spark: SparkSession, conf: Mapping[str, str]) -> SparkSession:
    """A session beside a user's: what that one knows and is set to, with these over it. The user's is left as it is."""
    # As Spark does it for each query that streams. A new session would know neither settings nor sinks.
    own = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())  # noqa: SLF001 - Python can't do it
    for key, value in conf.items():
        own.conf.set(key, value)
    return own


def _near(master: str) -> dict[str, str]:
    # A driver on this machine must not be addressed by a host name that can't be resolved.
    if master.startswith("local") or "//127.0.0.1:" in master:
        return {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return {}


def _jars(given: str | Path | Iterable[str | Path] | None) -> dict[str, str]:
    found = given if given is not None else os.environ.get(JARS_VARIABLE)
    if not found:
        return {}
    files = sorted(Path(found).glob("*.jar")) if isinstance(found, str | Path) else [Path(jar) for jar in found]
    missing = [str(file) for file in files if not file.exists()]
    if missing or not files:
        raise ConfigurationError(
            f"no jars found at {', '.join(missing) or found}",
            hint=f"set jars= or {JARS_VARIABLE} to a folder of jars",
        )
    return {"spark.jars": ",".join(str(file) for file in files)}


def read_ranges(
    spark: SparkSession,
    topic: str,
    ranges: Sequence[OffsetRange],
    *,
    options: Mapping[str, str],
    may_be_gone: bool = False,
) -> DataFrame:
    """The committed records of these offsets, with headers. A partition may have several ranges.

    Each range is read by one task, in order. Offsets that the topic no longer has are an error, unless `may_be_gone`.
    """
    rounds = _deal(ranges)
    frames = [_read(spark, topic, part, options=options, may_be_gone=may_be_gone) for part in rounds]
    return reduce(DataFrame.unionAll, frames)


def build_hash() -> Column:
    """The hash of a record, `xxhash64` in control records. Spark skips nulls, so that isNull of each is hashed too."""
    return sf.xxhash64(
        sf.col("key").isNull(),
        "key",
        sf.col("value").isNull(),
        "value",
        build_plain_headers(),
        sf.unix_micros("timestamp"),
    )


def build_plain_headers() -> Column:
    """The headers of a record, so that a hash tells a null from nothing."""
    return sf.transform("headers", lambda one: sf.struct(one["key"], one["value"].isNull(), one["value"]))


def _deal(ranges: Sequence[OffsetRange]) -> list[list[OffsetRange]]:
    """One range of each partition a round: that is as much as one frame of the source takes."""
    rounds: list[list[OffsetRange]] = [[]]
    dealt: dict[int, int] = {}
    for one in ranges:
        place = dealt.get(one.partition, 0)
        dealt[one.partition] = place + 1
        if place == len(rounds):
            rounds.append([])
        rounds[place].append(one)
    return rounds


def _read(
    spark: SparkSession,
    topic: str,
    ranges: Sequence[OffsetRange],
    *,
    options: Mapping[str, str],
    may_be_gone: bool,
) -> DataFrame:
    begins = {str(one.partition): one.begin for one in ranges}
    limits = {str(one.partition): one.end for one in ranges}
    reader = spark.read.format("kafka").options(**build_source_options(options))
    if may_be_gone:
        reader = reader.option("failOnDataLoss", "false")
    reader = reader.option("assign", json.dumps({topic: [one.partition for one in ranges]}))
    reader = reader.option("startingOffsets", json.dumps({topic: begins}))
    return reader.option("endingOffsets", json.dumps({topic: limits})).load()
