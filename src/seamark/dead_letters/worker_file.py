"""What a worker's file says of converters and consumers, where the context names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seamark.context import ConnectSettings

_WANTED = ("key.converter", "value.converter", "header.converter", "consumer.")
_CONSUMER, _OVERRIDE = "consumer.", "consumer.override."


def read_worker_config(settings: ConnectSettings) -> Mapping[str, str]:
    """The converters and the consumer's settings of the workers; nothing where their file is not here."""
    if settings.worker_config is None or not settings.worker_config.is_file():
        return {}
    from seamark.context.origin import Origin, OriginKind  # noqa: PLC0415
    from seamark.context.properties import read_properties  # noqa: PLC0415

    place = Origin(OriginKind.WORKER, str(settings.worker_config), path=settings.worker_config)
    found = read_properties(settings.worker_config, origin=place)
    return {key: one.value for key, one in found.items() if key.startswith(_WANTED)}


def find_consumer_setting(key: str, config: Mapping[str, str], worker: Mapping[str, str], default: str) -> str:
    """A setting of a sink's consumer: the connector's own, else the workers', else the default."""
    return (config.get(f"{_OVERRIDE}{key}") or worker.get(f"{_CONSUMER}{key}") or default).strip()
