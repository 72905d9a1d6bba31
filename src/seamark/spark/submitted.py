"""A driver that spark-submit has started: what was given to it there."""

from __future__ import annotations

import os
from collections.abc import Mapping

from seamark.spark.pack_model import ENVIRONMENT_VARIABLE, GATEWAY_VARIABLE

_PATH = "spark.executorEnv.PYTHONPATH"


def read_submitted() -> dict[str, str] | None:
    """The settings that spark-submit gave to this process; None where it did not start it."""
    if GATEWAY_VARIABLE not in os.environ:
        return None
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415

    # They are in the JVM. Whoever makes a session does this next.
    SparkContext._ensure_initialized()  # noqa: SLF001
    return dict(SparkConf().getAll())


def build_paths(given: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Where Python's processes on the driver's machine find the archive, behind where those of executors do."""
    here = environ.get(ENVIRONMENT_VARIABLE)
    if not here:
        return {}
    return {_PATH: os.pathsep.join(path for path in (given.get(_PATH), here) if path)}
