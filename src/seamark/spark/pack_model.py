"""What is given to spark-submit, so that a cluster's executors find seamark."""

from __future__ import annotations

from dataclasses import dataclass

FOLDER = "seamark-env"
"""The folder that an executor unpacks the archive to."""
ARCHIVE = f"{FOLDER}.tar.gz"
PROGRAM = "seamark-main.py"
"""The program for spark-submit that is seamark's command line in a driver."""

GATEWAY_VARIABLE = "PYSPARK_GATEWAY_PORT"
"""Spark sets it for a driver that spark-submit has started."""
ENVIRONMENT_VARIABLE = "SEAMARK_SPARK_ENVIRONMENT"
"""The program above sets it: where the archive is unpacked on the driver's machine."""


@dataclass(frozen=True, slots=True)
class SubmitOption:
    """One option of spark-submit and its value."""

    option: str
    value: str

    def __str__(self) -> str:
        """As it stands on a command line."""
        return f"{self.option} {self.value}"


@dataclass(frozen=True, slots=True)
class SparkPack:
    """The archive, what is in it, the Python it is for, the jars of Spark's own sources, and the driver's program."""

    archive: str
    packages: tuple[str, ...]
    python: str
    jars: tuple[str, ...] = ()
    program: str = ""

    @property
    def submit_options(self) -> tuple[SubmitOption, ...]:
        """What to give to spark-submit. On YARN in cluster mode, the driver gets the archive too."""
        options = [
            SubmitOption("--archives", f"{self.archive}#{FOLDER}"),
            SubmitOption("--conf", f"spark.executorEnv.PYTHONPATH={FOLDER}"),
            SubmitOption("--conf", f"spark.yarn.appMasterEnv.PYTHONPATH={FOLDER}"),
        ]
        if self.jars:
            options.append(SubmitOption("--jars", ",".join(self.jars)))
        return tuple(options)
