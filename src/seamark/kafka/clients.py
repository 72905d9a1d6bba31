"""Waiting for the admin client, never longer than a deadline."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from threading import Lock
from typing import Any

from seamark.errors import MissingSettingError, SeamarkError
from seamark.kafka.failures import IMMEDIATE, build_connection_error, build_error, build_setting_error

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
            "the context has no brokers",
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
def hear_fatal_errors(producer: Any = None) -> Iterator[None]:
    """Raise a fatal error of the client as the KafkaException it is.

    The client sets it while it serves its events, and forwards a log line before it returns. The code of the log line
    then runs with an error set. The result is a SystemError that has the fatal error as its cause, or has none if that
    code has cleared it: "returned NULL without setting an exception". Both were seen with a fenced producer.

    Args:
        producer: A transactional producer. Without a cause, it is asked for its fatal error.
    """
    from confluent_kafka import KafkaException  # noqa: PLC0415

    try:
        yield
    except SystemError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, KafkaException):
            cause = cause.__cause__ or cause.__context__
        if cause is None and producer is not None:
            cause = _ask_fatal_error(producer)
        if cause is None:
            raise
        raise cause from None


def _ask_fatal_error(producer: Any) -> BaseException | None:
    """Return the fatal error of a transactional producer, or None.

    librdkafka checks for a fatal error before the state of the transaction, which refuses a second begin.
    """
    from confluent_kafka import KafkaException  # noqa: PLC0415

    try:
        producer.begin_transaction()
    except KafkaException as failure:
        return failure if failure.args[0].fatal() else None
    return None


# Log lines and connection errors are delivered only by a poll. Ten times a second is soon enough
# for a person and costs nothing.
_POLL_SECONDS = 0.1
# librdkafka says "all brokers are down" at the first refused connection and tries again at once. A
# cluster that is only restarting one broker answers well within this time.
_GRACE_SECONDS = 2.0
# The client's own timeout comes first, so that its message, which names the stage, is the one seen.
_MARGIN_SECONDS = 1.0


class ConnectionEvents:
    """What librdkafka reported of its connections."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: Any = None
        self._fatal: Any = None
        self._down_since: float | None = None

    def record(self, error: Any) -> None:
        """Take one error. This is the client's `error_cb`."""
        with self._lock:
            if error.name() in IMMEDIATE:
                self._fatal = self._last = error
            elif error.name() == "_ALL_BROKERS_DOWN":
                # The count of brokers says less than the refusal that came before it.
                self._down_since = self._down_since or time.monotonic()
                self._last = self._last or error
            else:
                self._last = error

    def start_call(self) -> None:
        """A new call gets its own grace. "All brokers are down" is said once and stays true until one answers."""
        with self._lock:
            self._fatal = None
            self._down_since = time.monotonic() if self._down_since is not None else None

    def end_call(self, *, is_answered: bool) -> None:
        """A call is over. Where the brokers answered, older trouble means nothing any more."""
        if is_answered:
            with self._lock:
                self._last = self._fatal = self._down_since = None

    @property
    def last(self) -> Any:
        """The latest error, or None."""
        return self._last

    def find_hopeless(self) -> Any:
        """The error that makes more waiting useless, or None."""
        with self._lock:
            if self._fatal is not None:
                return self._fatal
            is_down = self._down_since is not None and time.monotonic() - self._down_since > _GRACE_SECONDS
            return self._last if is_down else None

    def check_readable(self, topic: str) -> None:
        """Check that waiting for records of a topic can succeed.

        Raises:
            SeamarkError: the brokers are down, or refuse the connection.
        """
        hopeless = self.find_hopeless()
        if hopeless is not None:
            raise build_connection_error(hopeless, action=f"read the topic {topic}", subject=topic, was_late=False)

    def build_read_error(self, error: Any, topic: str) -> SeamarkError:
        """Return our error for one of the client's that came while a topic was read."""
        return build_error(
            error,
            action=f"read the topic {topic}",
            subject=topic,
            operation="READ and DESCRIBE",
            last_event=self.last,
        )


def wait_for(
    futures: Iterable[Future[Any]],
    *,
    client: Any,
    events: ConnectionEvents,
    timeout_seconds: float,
    is_patient: bool = False,
) -> Any:
    """Wait until all are done or late. Returns the error that made waiting hopeless, or None.

    With `is_patient` the client's own result is awaited even then: what it has not sent yet, it may still send.
    """
    # One after the other: all of them are waited for anyway, and watching ten thousand at once costs more than that.
    pending = list(futures)
    deadline = time.monotonic() + timeout_seconds + _MARGIN_SECONDS
    while pending and time.monotonic() < deadline:
        wait(pending[-1:], timeout=_POLL_SECONDS)
        while pending and pending[-1].done():
            pending.pop()
        client.poll(0)
        if pending and not is_patient and (hopeless := events.find_hopeless()) is not None:
            return hopeless
    return None
