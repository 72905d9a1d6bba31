"""The brokers: what seamark asks them, as our own values and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seamark.kafka.admin import KafkaAdmin

__all__ = ["KafkaAdmin"]


def __getattr__(name: str) -> Any:
    # confluent_kafka loads a C library; a program that never asks a broker does not pay for it.
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from seamark.kafka.admin import KafkaAdmin  # noqa: PLC0415

    return KafkaAdmin
