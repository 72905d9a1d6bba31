"""How long the brokers keep records and offsets, and from when on that is a worry."""

from __future__ import annotations

from seamark.kafka.topic import TopicStatus

# The rest of a lifetime in which people are warned: of the usual seven days the last 34 hours, a night and a day.
WARN_AT = 0.8


def find_retention_ms(topic: TopicStatus) -> int | None:
    """How long records are kept; None where they are kept for good, or nobody tells."""
    told = topic.config("retention.ms")
    if "delete" not in topic.config("cleanup.policy") or not told.isdecimal():
        return None
    return int(told)


def find_retention_bytes(topic: TopicStatus) -> int | None:
    """How many bytes of a partition are kept; None where there is no limit, or nobody tells."""
    told = topic.config("retention.bytes")
    return int(told) if "delete" in topic.config("cleanup.policy") and told.isdecimal() else None


def find_safe_ms(length_ms: int) -> int:
    """The age below which nothing has to be feared yet."""
    return int(length_ms * WARN_AT)
