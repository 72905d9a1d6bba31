"""The form of a consumer group's offsets in seamark's offset model."""

from __future__ import annotations

from seamark.core.offset import OffsetMap
from seamark.kafka.spot import Spot

TOPIC, PARTITION, OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"


def build_partition(spot: Spot) -> OffsetMap:
    """A partition of a log, as Connect names it."""
    return {TOPIC: spot[0], PARTITION: spot[1]}
