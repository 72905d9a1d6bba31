"""Opening librdkafka's clients: our settings over the context's, its log lines into ours."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from seamark.errors import MissingSettingError
from seamark.kafka.failures import build_setting_error

_LOGGER = logging.getLogger("seamark.kafka")
_LOGGER.addHandler(logging.NullHandler())


def open_client(
    config: Mapping[str, str], ours: Mapping[str, Any], *, build: Callable[[dict[str, Any]], Any], on_error: Any
) -> Any:
    """A client of the class `build`. What seamark relies on (`ours`) goes over what the context says."""
    from confluent_kafka import KafkaException  # noqa: PLC0415

    if not config.get("bootstrap.servers"):
        raise MissingSettingError(
            "the context names no brokers",
            cause="kafka.bootstrap.servers is not set",
            hint="add kafka: {bootstrap.servers: HOST:PORT} to the context",
        )
    # With a logger, librdkafka's own lines go to logging; without one they are printed to stderr.
    settings = {"client.id": "seamark", **config, **ours, "error_cb": on_error, "logger": _LOGGER}
    try:
        return build(settings)
    except KafkaException as failure:
        raise build_setting_error(failure.args[0].str(), config) from None
