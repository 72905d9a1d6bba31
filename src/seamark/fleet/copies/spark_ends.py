"""The settings of both ends of a copy as Spark takes them, made from the context."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.context.java_options import build_java_config, embed_files

if TYPE_CHECKING:
    from seamark.context import Context
    from seamark.spark.copy_job import CopyEnds

_KAFKA = "kafka."
# Of the reader and the admin alone; Java's client and a producer in a task have no use for them.
_OF_THIS_PROCESS = ("debug", "log_level", "statistics.interval.ms")


def build_ends(context: Context, *, control_topic: str) -> CopyEnds:
    """Both ends in the cluster of a context. It holds secrets: Spark masks options of these names, see `session`."""
    from seamark.spark.copy_job import CopyEnds  # noqa: PLC0415

    config = context.kafka.client_config()
    client = {key: value for key, value in embed_files(config).items() if key not in _OF_THIS_PROCESS}
    return CopyEnds(
        source={f"{_KAFKA}{key}": value for key, value in build_java_config(config).items()},
        target={f"{_KAFKA}{key}": value for key, value in client.items()},
        control_topic=control_topic,
        source_client=client,
    )
