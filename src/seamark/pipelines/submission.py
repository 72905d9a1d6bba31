"""A run of a landing that is given away: to spark-submit, to Airflow, or to the operator of Spark on Kubernetes.

It holds no secret, only the names of what holds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from seamark.spark.pack_model import FOLDER

SPARK_VERSION = "4.2.0"
KAFKA_PACKAGE = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_VERSION}"
"""Spark's own Kafka source, for where no folder of jars is named."""
DEFAULT_IMAGE = f"apache/spark:{SPARK_VERSION}-python3"


class SubmitForm(StrEnum):
    """What is printed."""

    SPARK_SUBMIT = "spark-submit"
    AIRFLOW = "airflow"
    SPARK_APPLICATION = "spark-application"


@dataclass(frozen=True, slots=True)
class Submission:
    """A run of the landing `name`.

    `archive` and `program` are what `seamark spark pack` wrote, by path or URL. `variables` are the names of the
    environment variables that the context needs, and `contexts` is the file it stands in, where that is one file.
    Without `is_once` it does as the spec says, which may be to go on for ever: `is_endless`.
    """

    name: str
    context: str
    files: tuple[str, ...]
    archive: str
    program: str
    master: str | None = None
    jars: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    variables: tuple[str, ...] = ()
    contexts: str | None = None
    image: str = ""
    is_once: bool = False
    is_endless: bool = False
    allow_python: bool = False

    @property
    def archives(self) -> str:
        """The archive, and the folder that executors unpack it to."""
        return f"{self.archive}#{FOLDER}"

    @property
    def settings(self) -> dict[str, str]:
        """The settings of Spark, with that by which executors find the archive."""
        return {"spark.executorEnv.PYTHONPATH": FOLDER, **self.conf}

    def build_arguments(self, files: tuple[str, ...], *, is_once: bool) -> tuple[str, ...]:
        """The command line of seamark. Nobody is there to be asked."""
        named = [word for file in files for word in ("-f", file)]
        python = ["--allow-python"] if self.allow_python else []
        once = ["--once"] if is_once else []
        return ("land", "run", self.name, *named, *python, "--context", self.context, *once, "--yes", "--no-input")
