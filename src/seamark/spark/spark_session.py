"""Spark for a copy or a landing: a session of ours or the caller's, and its errors in our words."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark import errors
from seamark.core.sensitive import mask_text
from seamark.errors import ConfigurationError, SeamarkError
from seamark.spark.interrupts import taking_interrupts
from seamark.spark.pack_model import GATEWAY_VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGES = ("pyspark", "pyarrow")
_OURS = re.compile(
    r"seamark\.errors\.(?P<kind>\w+): (?P<message>[^\n]*)"
    r"(?:\n\s+cause: (?P<cause>[^\n]*))?(?:\n\s+hint: (?P<hint>[^\n]*))?"
)
_NO_SOURCE = re.compile(r"find (?:the )?data source: (?P<name>\S+?)\.?(?:\s|$)", re.IGNORECASE)
_OUR_SOURCES = "seamark."
_NO_JAVA = "JAVA_GATEWAY_EXITED"
_LONGEST = 500
# A plan whose offsets are gone: retention has passed them, or somebody deleted records.
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
            f"this is run by Spark, and {' and '.join(missing)} is not installed",
            hint="pip install 'seamark[spark]'",
        )


@dataclass(frozen=True, slots=True)
class Work:
    """What is run: its kind, its name, and the command that goes on with it."""

    kind: str
    name: str
    again: str


def build_copy_work(plan: str) -> Work:
    """A copy."""
    return Work("copy", plan, f"seamark copy run {plan}")


@contextmanager
def open_spark(options: SparkOptions, work: Work) -> Iterator[SparkSession]:
    """The session, for the time of a run; what Spark raises comes as an error of ours."""
    require_spark()
    from seamark.spark.session import open_session  # noqa: PLC0415

    with _translating(work):
        conf = {**_build_quiet(os.environ), **options.conf}
        spark = open_session(
            options.master, app=f"seamark {work.kind} {work.name}", jars=options.jars, conf=conf, spark=options.session
        )
        if options.session is not None:
            yield spark
            return
        with taking_interrupts():
            try:
                yield spark
            finally:
                spark.stop()


def _build_quiet(environ: Mapping[str, str]) -> dict[str, str]:
    """Have Spark tell errors alone: what matters is told by us. Who has set up its log gets what they set up."""
    from importlib.resources import files  # noqa: PLC0415

    place = str(files("seamark.spark") / "quiet.properties")
    # The JVM of a driver under spark-submit runs already, and its log is set up by whoever submits.
    if environ.get("SPARK_CONF_DIR") or " " in place or GATEWAY_VARIABLE in environ:
        return {}
    return {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={place}", "spark.log.level": "ERROR"}


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
    again = f"nothing is lost: {work.again} goes on where it stopped"
    if missing := _NO_SOURCE.search(text):
        return _explain_missing_source(missing["name"])
    if _NO_JAVA in text:
        return ConfigurationError(
            "Spark could not be started",
            cause="its Java process ended at once; what it said stands above",
            hint="check --master, --conf and that java is of version 17 or 21",
        )
    if said := list(_OURS.finditer(text)):
        found = said[-1]
        kind = getattr(errors, found["kind"], SeamarkError)
        kind = kind if isinstance(kind, type) and issubclass(kind, SeamarkError) else SeamarkError
        kind = SeamarkError if kind is errors.PartialError else kind
        return kind(mask_text(found["message"]), cause=mask_text(found["cause"] or ""), hint=found["hint"] or again)
    hint = again
    if _LOST.search(text):
        hint = "records that were not read yet are gone from the topic"
        if work.kind == "copy":
            hint = "records of the plan are gone from the source: make a new plan"
    first = next((part for part in text.splitlines() if part.strip()), type(failure).__name__)
    return SeamarkError(
        f"Spark could not go on with the {work.kind} {work.name}",
        cause=mask_text(first[:_LONGEST]),
        hint=f"{hint}; -v shows more",
    )


def _explain_missing_source(name: str) -> SeamarkError:
    """Build the error for a data source that Spark did not find."""
    if name.lower() == "kafka":
        return ConfigurationError(
            "Spark has no Kafka source",
            cause="the jars of spark-sql-kafka-0-10 are not on its path",
            hint="name their folder with --jars or SEAMARK_SPARK_JARS, or have Spark download them: "
            "--conf spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        )
    if name.startswith(_OUR_SOURCES):
        return SeamarkError(
            f"Spark did not find seamark's data source {name}",
            cause="it is not registered in the Spark session that is active in this thread",
            hint="report this as a bug in seamark, with the output of -v",
        )
    return ConfigurationError(
        f"Spark has no data source {mask_text(name[:_LONGEST])}",
        cause="the jars that contain it are not on Spark's path",
        hint="name their folder with --jars or SEAMARK_SPARK_JARS, or have Spark download them: "
        "--conf spark.jars.packages=GROUP:ARTIFACT:VERSION",
    )


def _is_of_spark(failure: Exception) -> bool:
    return type(failure).__module__.partition(".")[0] in {"pyspark", "py4j"}
