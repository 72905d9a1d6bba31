"""Spark for a copy or a landing: a session of ours or the caller's, and its errors in our words."""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from seamark import errors
from seamark.context.java_client import build_client_config, build_java_config, embed_files
from seamark.context.kafka_keys import JAVA_KEYS, LIBRDKAFKA_KEYS
from seamark.core.secrets import mask_text
from seamark.errors import ConfigurationError, SeamarkError, UsageError, format_install_hint
from seamark.spark.packing import GATEWAY_VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from seamark.context import Context


KAFKA_PREFIX = "kafka."


def build_source_client(given: Mapping[str, str]) -> dict[str, str]:
    """The settings of librdkafka that reach the source, from those of Spark's Kafka source, which are Java's."""
    named = {
        key.lower().removeprefix(KAFKA_PREFIX): value
        for key, value in given.items()
        if key.lower().startswith(KAFKA_PREFIX)
    }
    chosen = {key: value for key, value in named.items() if key in LIBRDKAFKA_KEYS | JAVA_KEYS}
    try:
        return build_client_config(chosen, origins={key: f"the source option kafka.{key}" for key in chosen})
    except ConfigurationError as error:
        raise ConfigurationError(
            "the options of Spark's Kafka source can't be used for seamark's own client of the source topic",
            cause=error.message,
            hint="pass librdkafka's settings for it as source_client",
        ) from None


# Of the reader and the admin alone; Java's client and a producer in a task have no use for them.
_OF_THIS_PROCESS = ("debug", "log_level", "statistics.interval.ms")


def build_source(context: Context) -> dict[str, str]:
    """The brokers of a context as Spark's own Kafka source takes them."""
    config = context.kafka.client_config()
    return {f"{KAFKA_PREFIX}{key}": value for key, value in build_java_config(config).items()}


def build_client(context: Context) -> dict[str, str]:
    """The brokers of a context as librdkafka takes them, also in tasks."""
    found = embed_files(context.kafka.client_config())
    return {key: value for key, value in found.items() if key not in _OF_THIS_PROCESS}


# The library between Python and Spark's Java logs every call that was interrupted, by the root logger.
_TALKING = frozenset({"java_gateway", "clientserver"})


@contextmanager
def taking_interrupts() -> Iterator[None]:
    """Let Ctrl-C raise at once. Spark's own handler calls Java in the midst of a call to Java, which fails loudly."""
    root = logging.getLogger()
    root.addFilter(_is_of_others)
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.default_int_handler) if is_main else None
    try:
        yield
    finally:
        if is_main:
            signal.signal(signal.SIGINT, before)
        root.removeFilter(_is_of_others)


def _is_of_others(record: logging.LogRecord) -> bool:
    return record.module not in _TALKING


_ISOLATION = "kafka.isolation.level"
_COMMITTED = "read_committed"
_DEFAULTS = {
    # Two polls of 500 records each cost four more requests than one of a thousand: Spark asks for both ends every time.
    "kafka.max.poll.records": "20000",
    # At the end of a log the consumer asks for more right away, and a broker answers one request of a connection after
    # the other: Spark's next question, for the ends, would wait for half a second in every task.
    "kafka.fetch.max.wait.ms": "20",
}
_REQUIRED = {_ISOLATION: _COMMITTED, "includeHeaders": "true", "failOnDataLoss": "true"}
_FREE = ("groupIdPrefix", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs")
_SPLITTING = ("minpartitions", "maxrecordsperpartition")


def build_source_options(given: Mapping[str, str]) -> dict[str, str]:
    """The options of the source, but for topic and offsets.

    Spark takes names in any case, gives timestamps precedence over offsets, and passes over what it does not know: so
    only what is known to be harmless may be given.

    Raises:
        UsageError: an option would change which records are copied, or is not known.
    """
    free = {name.lower(): name for name in _FREE}
    chosen = dict(_DEFAULTS)
    for name, value in given.items():
        low = name.lower()
        if low.startswith("kafka."):
            # Every setting of Kafka is in small letters.
            chosen[low] = value
        elif low in free:
            chosen[free[low]] = value
        else:
            raise _refuse(name)
    if chosen.get(_ISOLATION, _COMMITTED) != _COMMITTED:
        raise UsageError(
            f"invalid value {chosen[_ISOLATION]!r} for source option {_ISOLATION}",
            cause="it would copy aborted records, which nothing distinguishes from committed ones",
            hint="remove the option",
        )
    return {**chosen, **_REQUIRED}


def _refuse(name: str) -> UsageError:
    cause = "the plan determines which records are read, and Spark ignores options that it does not know"
    if name.lower() in _SPLITTING:
        cause = "it splits a source partition, but one task must read each partition to keep the order of its records"
    return UsageError(
        f"unsupported source option {name} for a topic copy", cause=cause, hint=f"use kafka.*, {', '.join(_FREE)}"
    )


# For these masters Spark generates a secret for each application and gives it to the executors itself
# (`SecurityManager.initializeAuth`, Spark 4.2). A standalone master has one secret, which its owner configures.
_GENERATED = re.compile(r"local|local\[(?:\d+|\*)(?:\s*,\s*(?:\d+|\*))?\]|yarn|k8s:.*")

AUTHENTICATE = "spark.authenticate"


def build_auth_conf(master: str) -> dict[str, str]:
    """Return the settings with which the processes of an application authenticate each other; none if it can't be."""
    return {AUTHENTICATE: "true"} if _GENERATED.fullmatch(master) else {}


def find_open_connections(master: str, conf: Mapping[str, str]) -> str:
    """Return a warning if any process that reaches the driver can take part in the application; "" if none can."""
    if conf.get(AUTHENTICATE, "false").strip().lower() == "true":
        return ""
    return (
        f"the Spark application on {master} doesn't authenticate its connections: set spark.authenticate and "
        "spark.authenticate.secret in spark-defaults.conf of the driver and of the master"
    )


_PACKAGES = ("pyspark", "pyarrow")
_OURS = re.compile(
    r"seamark\.errors\.(?P<kind>\w+): (?P<message>[^\n]*)"
    r"(?:\n\s+cause: (?P<cause>[^\n]*))?(?:\n\s+hint: (?P<hint>[^\n]*))?"
)
_NO_SOURCE = re.compile(r"find (?:the )?data source: (?P<name>\S+?)\.?(?:\s|$)", re.IGNORECASE)
_OUR_SOURCES = "seamark."
_NO_JAVA = "JAVA_GATEWAY_EXITED"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# The JVM has ended by then, and its last lines are in the pipe.
_READ_SECONDS = 5.0
_LOGGER = logging.getLogger("seamark.spark")
_LONGEST = 500
# A plan whose offsets are gone: retention has passed them, or records were deleted.
_LOST = re.compile(r"OffsetOutOfRange|Some data may have been lost|KAFKA_DATA_LOSS", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Where Spark runs. `session` is the caller's own, which is left open; else one is made and closed."""

    master: str | None = None
    jars: str | Path | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    session: Any = None


def require_spark() -> None:
    """Refuse early where Spark is not installed."""
    missing = [package for package in _PACKAGES if find_spec(package) is None]
    if missing:
        raise ConfigurationError(
            f"{' and '.join(missing)} is not installed, which Spark jobs need",
            hint=format_install_hint("spark"),
        )


@dataclass(frozen=True, slots=True)
class Work:
    """What is run: its kind, its name, and the command that resumes it."""

    kind: str
    name: str
    again: str


def build_copy_work(plan: str) -> Work:
    """A copy."""
    return Work("copy", plan, f"seamark copies run {plan}")


@contextmanager
def open_spark(options: SparkOptions, work: Work) -> Iterator[SparkSession]:
    """The session, for the time of a run; what Spark raises comes as an error of ours."""
    require_spark()
    from seamark.spark.sessions import open_session  # noqa: PLC0415

    with _translating(work):
        spark = open_session(
            options.master,
            app=f"seamark {work.kind} {work.name}",
            jars=options.jars,
            conf=_build_quiet(os.environ, options.conf),
            spark=options.session,
            is_quiet=True,
        )
        if options.session is not None:
            yield spark
            return
        with taking_interrupts():
            try:
                yield spark
            finally:
                spark.stop()


def _build_quiet(environ: Mapping[str, str], conf: Mapping[str, str]) -> dict[str, str]:
    """Return `conf` with Spark's log reduced to errors, because seamark reports progress. A user's log config is kept.

    Other options that the user passes to Java don't change the log.
    """
    from importlib.resources import files  # noqa: PLC0415

    place = str(files("seamark.spark") / "quiet.properties")
    # The JVM of a driver under spark-submit is already running, and the user who submits configures its log.
    if environ.get("SPARK_CONF_DIR") or " " in place or GATEWAY_VARIABLE in environ:
        return dict(conf)
    own = conf.get(_JAVA_OPTIONS, "")
    if "log4j" in own:
        return dict(conf)
    options = f"-Dlog4j2.configurationFile={place} {own}".strip()
    return {"spark.log.level": "ERROR", **conf, _JAVA_OPTIONS: options}


_Started = TypeVar("_Started")


def start_java(launch: Callable[[int], _Started]) -> _Started:
    """Start Spark's JVM, and log its standard error instead of showing it; `-v` shows seamark's log.

    No setting turns these lines off: `WARNING: Using incubator modules: jdk.incubator.vector` (Java 17 for a module
    that Spark 4.2 adds), `Picked up JAVA_TOOL_OPTIONS`, and the trace of each failed attempt of a task, which Spark
    repeats. An error that ends the run is reported by seamark.

    Args:
        launch: Starts the JVM with this file descriptor as its standard error.

    Returns:
        What `launch` returns.

    Raises:
        ConfigurationError: the JVM ended immediately. The cause is the last line that it wrote.
    """
    reading, writing = os.pipe()
    last: deque[str] = deque(maxlen=1)
    # A daemon: the JVM has the other end of the pipe until this process ends.
    reader = threading.Thread(target=_log_lines, args=(reading, last), name="seamark-spark-output", daemon=True)
    reader.start()
    try:
        return launch(writing)
    except Exception as failure:
        if _NO_JAVA not in str(failure):
            raise
        ended = failure
    finally:
        os.close(writing)
    reader.join(_READ_SECONDS)
    raise _build_no_java(last[0] if last else "its Java process ended immediately") from ended


def _log_lines(reading: int, last: deque[str]) -> None:
    with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if text := line.strip():
                last.append(text)
                _LOGGER.info("%s", text)


def _build_no_java(cause: str) -> ConfigurationError:
    return ConfigurationError(
        "can't start Spark",
        cause=mask_text(cause[:_LONGEST]),
        hint="check --master and --conf, and that java is version 17 or 21",
    )


@contextmanager
def _translating(work: Work) -> Iterator[None]:
    try:
        yield
    except (SeamarkError, KeyboardInterrupt, OSError):
        raise
    except Exception as failure:
        if not _is_of_spark(failure):
            raise
        raise explain_failure(failure, work) from failure


def explain_failure(failure: Exception, work: Work) -> SeamarkError:
    """What Spark says, as an error of ours: that of the task which failed, where it was one of ours."""
    text = str(failure)
    again = f"resume it: {work.again}"
    if missing := _NO_SOURCE.search(text):
        return _explain_missing_source(missing["name"])
    if _NO_JAVA in text:
        return _build_no_java("its Java process ended immediately")
    if said := list(_OURS.finditer(text)):
        found = said[-1]
        kind = getattr(errors, found["kind"], SeamarkError)
        kind = kind if isinstance(kind, type) and issubclass(kind, SeamarkError) else SeamarkError
        kind = SeamarkError if kind is errors.PartialError else kind
        return kind(mask_text(found["message"]), cause=mask_text(found["cause"] or ""), hint=found["hint"] or again)
    hint = again
    if _LOST.search(text):
        hint = "check the retention of the topic: records were deleted before they were read"
        if work.kind == "copy":
            hint = "create a new plan: records of this plan were deleted from the source topic"
    first = next((part for part in text.splitlines() if part.strip()), type(failure).__name__)
    return SeamarkError(
        f"Spark failed while running {work.kind} {work.name}",
        cause=mask_text(first[:_LONGEST]),
        hint=f"{hint}; add -v for details",
    )


def _explain_missing_source(name: str) -> SeamarkError:
    """Build the error for a data source that Spark did not find."""
    if name.lower() == "kafka":
        return ConfigurationError(
            "Spark's Kafka source is not installed",
            cause="the jars of spark-sql-kafka-0-10 are not on Spark's class path",
            hint="set --jars or SEAMARK_SPARK_JARS to their folder, or have Spark download them: "
            "--conf spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        )
    if name.startswith(_OUR_SOURCES):
        return SeamarkError(
            f"Spark did not find seamark's data source {name}",
            cause="it is not registered in the Spark session that is active in this thread",
            hint="report this as a bug in seamark, with the output of -v",
        )
    return ConfigurationError(
        f"Spark did not find data source {mask_text(name[:_LONGEST])}",
        cause="the jars that contain it are not on Spark's class path",
        hint="set --jars or SEAMARK_SPARK_JARS to their folder, or have Spark download them: "
        "--conf spark.jars.packages=GROUP:ARTIFACT:VERSION",
    )


def _is_of_spark(failure: Exception) -> bool:
    return type(failure).__module__.partition(".")[0] in {"pyspark", "py4j"}
