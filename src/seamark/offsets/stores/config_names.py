"""The names of connectors as their offsets topic has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seamark.context import ConnectSettings, Context
    from seamark.offsets.stores.stores import OpenScan


def find_config_reader(
    context: Context, settings: ConnectSettings, open_scan: OpenScan | None = None
) -> Callable[[], frozenset[str]] | None:
    """Return what reads the connectors' names from the config topic; None where the context doesn't name it."""
    topic = settings.config_topic
    if topic is None or "bootstrap.servers" not in context.kafka.values:
        return None

    def read_names() -> frozenset[str]:
        from seamark.kafka.config_topic import read_connector_names  # noqa: PLC0415

        config = context.kafka.client_config()
        scan = None if open_scan is None else open_scan(config, topic, True)
        return read_connector_names(config, topic, scan=scan)

    return read_names
