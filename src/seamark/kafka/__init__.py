"""The brokers: what seamark asks them and does to them, as our own values and errors."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seamark.kafka.admin import KafkaAdmin
    from seamark.kafka.brokers import Brokers

__all__ = ["Brokers", "KafkaAdmin"]

_HOMES = {"Brokers": "seamark.kafka.brokers", "KafkaAdmin": "seamark.kafka.admin"}


def __getattr__(name: str) -> Any:
    # confluent_kafka loads a C library; a program that never asks a broker does not pay for it.
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(_HOMES[name]), name)
