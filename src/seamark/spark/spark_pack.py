"""What a cluster's executors need of seamark, as an archive."""

from __future__ import annotations

from pathlib import Path

from seamark.spark.pack_model import SparkPack


def pack_for_spark(folder: Path, *, jars: Path | None = None) -> SparkPack:
    """Write the archive into a folder. `jars` is a folder of jars for Spark's own sources, to be named with it."""
    from seamark.spark.pack import pack_environment  # noqa: PLC0415

    return pack_environment(folder, jars=jars)
