"""Spark looks for packages of this kind of name, so that `format("seamark.kafka")` works without being registered."""

from seamark.kafka_sink.spark import KafkaSink as DefaultSource

__all__ = ["DefaultSource"]
