"""Spark's part of seamark: sessions, and the exact Kafka sink `seamark.kafka`.

    import seamark.spark

    spark = seamark.spark.open_session()
    writer = frame.write.format("seamark.kafka").mode("append")
    writer.option("kafka.bootstrap.servers", "…").option("topic", "orders").save()

pyspark is an extra: run `pip install '.[spark]'` in a checkout.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from seamark.errors import ConfigurationError, format_install_hint

if TYPE_CHECKING:
    from seamark.spark.sessions import open_session, register

__all__ = ["open_session", "register"]

_HOMES = {
    "open_session": "seamark.spark.sessions",
    "register": "seamark.spark.sessions",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    missing = [package for package in ("pyspark", "pyarrow") if find_spec(package) is None]
    if missing:
        raise ConfigurationError(
            f"{' and '.join(missing)} is not installed, which Spark jobs need", hint=format_install_hint("spark")
        )
    return getattr(import_module(_HOMES[name]), name)
