"""The settings of both ends of a copy as Spark takes them, made from their contexts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.context.java_options import build_java_config, embed_files

if TYPE_CHECKING:
    from seamark.context import Context

_KAFKA = "kafka."
# Of the reader and the admin alone; Java's client and a producer in a task have no use for them.
_OF_THIS_PROCESS = ("debug", "log_level", "statistics.interval.ms")


def build_source(context: Context) -> dict[str, str]:
    """The brokers of a context as Spark's own Kafka source takes them."""
    config = context.kafka.client_config()
    return {f"{_KAFKA}{key}": value for key, value in build_java_config(config).items()}


def build_client(context: Context) -> dict[str, str]:
    """The brokers of a context as librdkafka takes them, also in tasks."""
    found = embed_files(context.kafka.client_config())
    return {key: value for key, value in found.items() if key not in _OF_THIS_PROCESS}
