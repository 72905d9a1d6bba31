"""The client that reads the source topic of a copy."""

from __future__ import annotations

from collections.abc import Mapping

from seamark.context.java_client import build_client_config
from seamark.context.kafka_keys import JAVA_KEYS, LIBRDKAFKA_KEYS
from seamark.errors import ConfigurationError

_KAFKA = "kafka."


def build_source_client(given: Mapping[str, str]) -> dict[str, str]:
    """The settings of librdkafka that reach the source, from those of Spark's Kafka source, which are Java's."""
    named = {key.lower().removeprefix(_KAFKA): value for key, value in given.items() if key.lower().startswith(_KAFKA)}
    chosen = {key: value for key, value in named.items() if key in LIBRDKAFKA_KEYS | JAVA_KEYS}
    try:
        return build_client_config(chosen, origins={key: f"the source option kafka.{key}" for key in chosen})
    except ConfigurationError as error:
        raise ConfigurationError(
            "the source of the copy can't be looked at with the settings of Spark's source",
            cause=error.message,
            hint="give librdkafka's settings for it as source_client",
        ) from None
