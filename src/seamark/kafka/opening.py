"""Opening librdkafka's clients: our settings over the context's, its log lines into ours."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from seamark.errors import MissingSettingError
from seamark.kafka.failures import build_setting_error

_LOGGER = logging.getLogger("seamark.kafka")
_LOGGER.addHandler(logging.NullHandler())


_DEFAULTS: Mapping[str, Any] = {
    "client.id": "seamark",
    # The client lets half of this pass (by default it is 100 ms) between two first connections of its own, and so
    # before its first answer: 56 ms were seen, and 16 ms with this. Where a broker is down the time grows by each try.
    "reconnect.backoff.ms": 20,
}


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
    settings = {**_DEFAULTS, **config, **ours, "error_cb": on_error, "logger": _LOGGER}
    try:
        return build(settings)
    except KafkaException as failure:
        raise build_setting_error(failure.args[0].str(), config) from None


@contextmanager
def hear_fatal_errors() -> Iterator[None]:
    """Have a fatal error of the client come as the KafkaException it is.

    The client sets it while it serves its events, and hands on a log line before it returns. The log line's code then
    runs with an error set, and what comes out is a SystemError. (Seen with a fenced producer, once in a long while.)
    """
    from confluent_kafka import KafkaException  # noqa: PLC0415

    try:
        yield
    except SystemError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, KafkaException):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        raise cause from None
