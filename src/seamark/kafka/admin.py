"""Asking the brokers: the cluster, topics, groups, and what we may do to them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from threading import Lock
from types import TracebackType
from typing import Any, Self, TypeVar

from seamark.core.readings import Reading
from seamark.errors import DeadlineError, MissingSettingError, NotFoundError, SeamarkError
from seamark.kafka.clients import ConnectionEvents, wait_for
from seamark.kafka.failures import (
    build_connection_error,
    build_error,
    build_no_answer,
    build_setting_error,
    build_write_failure,
    is_passing,
)
from seamark.kafka.groups import GroupStatus
from seamark.kafka.model import KafkaCluster, TopicStatus
from seamark.kafka.values import build_cluster, build_group, build_topic

# A healthy cluster answers a describe in milliseconds, and a broker's session ends after 9 s by
# default. Whatever has not answered by then will not soon.
DEFAULT_TIMEOUT_SECONDS = 10.0

# A partition or a group that has moved is known at its new place within some heartbeats.
_AGAIN_SECONDS = 0.2

K = TypeVar("K", bound=Hashable)

_LOGGER = logging.getLogger("seamark.kafka")
_LOGGER.addHandler(logging.NullHandler())


class KafkaAdmin:
    """The brokers of one context. One call at a time; every call ends within its deadline."""

    def __init__(
        self,
        config: Mapping[str, str],
        *,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        build_client: Callable[..., Any] | None = None,
    ) -> None:
        if not config.get("bootstrap.servers"):
            raise MissingSettingError(
                "the context has no brokers",
                cause="kafka.bootstrap.servers is not set",
                hint="add kafka: {bootstrap.servers: HOST:PORT} to the context",
            )
        self._address = config["bootstrap.servers"]
        self._timeout_seconds = timeout_seconds
        self._events = ConnectionEvents()
        self._lock = Lock()
        self._client = _open_client(config, on_error=self._events.record, build_client=build_client)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"KafkaAdmin({self._address!r})"

    def close(self) -> None:
        """Release the connections. The C library closes them when nothing refers to the client."""
        self._client = None

    def read_cluster(self) -> KafkaCluster:
        """The cluster, its brokers, and what this principal may do to it."""
        options = {"include_authorized_operations": True, "request_timeout": self._timeout_seconds}
        futures = {self._address: self._client.describe_cluster(**options)}
        results, failures = self._settle(futures, action=f"query the brokers at {self._address}", operation="DESCRIBE")
        for error in failures.values():
            raise error
        return build_cluster(results[self._address])

    def read_topics(self, names: Sequence[str]) -> Reading[TopicStatus]:
        """Topics by name, in the order asked. A failure is kept under the name of its topic."""
        if not names:
            return Reading()
        from confluent_kafka import TopicCollection  # noqa: PLC0415

        wanted = list(dict.fromkeys(names))
        options = {"include_authorized_operations": True, "request_timeout": self._timeout_seconds}
        futures = self._client.describe_topics(TopicCollection(wanted), **options)
        found, failures = self._settle(futures, action="read the topic", operation="DESCRIBE")
        topics, gone = self._add_configs({name: found[name] for name in wanted if name in found})
        return Reading(items=topics, failures=failures | gone)

    def read_groups(self, names: Sequence[str]) -> Reading[GroupStatus]:
        """Read consumer groups by name, in the order asked. A group that never had a member is DEAD."""
        if not names:
            return Reading()
        wanted = list(dict.fromkeys(names))
        options = {"include_authorized_operations": True, "request_timeout": self._timeout_seconds}
        futures = self._client.describe_consumer_groups(wanted, **options)
        found, failures = self._settle(futures, action="read the group", operation="DESCRIBE")
        return Reading(items=tuple(build_group(found[name]) for name in wanted if name in found), failures=failures)

    def read_end_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The offset that the next record of each partition will get."""
        from confluent_kafka import TopicPartition  # noqa: PLC0415
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # noqa: PLC0415

        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        request = {TopicPartition(topic, partition): latest for topic, partition in partitions}
        if not request:
            return {}
        futures = self._client.list_offsets(request, request_timeout=self._timeout_seconds)
        named = {(spot.topic, spot.partition): future for spot, future in futures.items()}
        results, failures = self._settle(named, action="read the end of", operation="DESCRIBE")
        for error in failures.values():
            raise error
        return {spot: found.offset for spot, found in results.items()}

    def _add_configs(
        self, found: Mapping[str, Any], asked: Mapping[str, Future[Any]] | None = None
    ) -> tuple[tuple[TopicStatus, ...], dict[str, SeamarkError]]:
        """The described topics with their configs, which may have been asked for already.

        The two questions may go to two brokers. A topic that only one of them knows is coming or going, and counts as
        not there.
        """
        configs, denied = self._read_configs(list(found)) if asked is None else self._settle_configs(asked)
        gone: dict[str, SeamarkError] = {
            name: error for name, error in denied.items() if isinstance(error, NotFoundError)
        }
        topics = tuple(
            build_topic(
                description,
                configs=configs.get(name, {}),
                configs_error=denied[name].message if name in denied else "",
            )
            for name, description in found.items()
            if name not in gone
        )
        return topics, gone

    def _read_configs(self, names: Sequence[str]) -> tuple[dict[str, Any], dict[str, SeamarkError]]:
        return self._settle_configs(self._ask_configs(names)) if names else ({}, {})

    def _ask_configs(self, names: Sequence[str]) -> dict[str, Future[Any]]:
        from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]  # noqa: PLC0415

        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        futures = self._client.describe_configs(resources, request_timeout=self._timeout_seconds)
        return {resource.name: future for resource, future in futures.items()}

    def _settle_configs(self, asked: Mapping[str, Future[Any]]) -> tuple[dict[str, Any], dict[str, SeamarkError]]:
        return self._settle(asked, action="read the configs of the topic", operation="DESCRIBE_CONFIGS")

    def _ask(
        self,
        keys: Sequence[K],
        ask: Callable[[Sequence[K]], Mapping[K, Future[Any]]],
        *,
        action: str,
        operation: str = "DESCRIBE",
    ) -> tuple[dict[K, Any], dict[K, SeamarkError]]:
        """Read many things, and again those whose leader or coordinator has just moved, until the deadline."""
        deadline = time.monotonic() + self._timeout_seconds
        results, failures = self._settle(ask(keys), action=action, operation=operation)
        while (again := [key for key, error in failures.items() if is_passing(error)]) and time.monotonic() < deadline:
            time.sleep(_AGAIN_SECONDS)
            more, failed = self._settle(ask(again), action=action, operation=operation)
            results |= more
            failures = {key: error for key, error in failures.items() if key not in more} | failed
        return results, failures

    def _settle(
        self, futures: Mapping[K, Future[Any]], *, action: str, operation: str, is_write: bool = False
    ) -> tuple[dict[K, Any], dict[K, SeamarkError]]:
        """Wait for all of them, and tell answers from failures. They are named by a text or by a topic's partition."""
        with self._lock:
            self._events.start_call()
            hopeless = wait_for(
                futures.values(),
                client=self._client,
                events=self._events,
                timeout_seconds=self._timeout_seconds,
                is_patient=is_write,
            )
            results: dict[K, Any] = {}
            failures: dict[K, SeamarkError] = {}
            find = self._find_write_failure if is_write else self._find_failure
            for key, future in futures.items():
                if future.done() and future.exception() is None:
                    results[key] = future.result()
                    continue
                name = key if isinstance(key, str) else _spell(key)
                did = action if name == self._address else f"{action} {name}"
                failures[key] = find(future, hopeless=hopeless, action=did, subject=name, operation=operation)
            self._events.end_call(is_answered=bool(results))
        return results, failures

    def _find_failure(
        self, future: Future[Any], *, hopeless: Any, action: str, subject: str, operation: str
    ) -> SeamarkError:
        if not future.done():
            if hopeless is not None:
                return build_connection_error(hopeless, action=action, subject=subject, was_late=False)
            return DeadlineError(
                f"could not {action}: no answer within {self._timeout_seconds:g} s",
                hint="check that the brokers run and are not overloaded",
                context={"subject": subject},
            )
        error = _find_kafka_error(future)
        return build_error(error, action=action, subject=subject, operation=operation, last_event=self._events.last)

    def _find_write_failure(
        self, future: Future[Any], *, hopeless: Any, action: str, subject: str, operation: str
    ) -> SeamarkError:
        if not future.done():
            return build_no_answer(action=action, subject=subject, seconds=self._timeout_seconds)
        error = _find_kafka_error(future)
        return build_write_failure(
            error, action=action, subject=subject, operation=operation, last_event=self._events.last
        )


def _spell(key: Any) -> str:
    topic, partition = key
    return f"{topic}-{partition}"


def _find_kafka_error(future: Future[Any]) -> Any:
    """The client's error in a failed future. What is not its own is a fault of ours, and raised as it is."""
    failure = future.exception()
    kafka_error = failure.args[0] if failure is not None and failure.args else None
    if failure is not None and not hasattr(kafka_error, "name"):
        raise failure
    return kafka_error


def _open_client(
    config: Mapping[str, str], *, on_error: Callable[[Any], None], build_client: Callable[..., Any] | None
) -> Any:
    # With a logger, librdkafka's own lines go to logging; without one they are printed to stderr.
    settings: dict[str, Any] = {"client.id": "seamark", **config, "error_cb": on_error, "logger": _LOGGER}
    if build_client is not None:
        return build_client(settings)
    from confluent_kafka import KafkaException  # noqa: PLC0415
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    try:
        return AdminClient(settings)
    except KafkaException as failure:
        raise build_setting_error(failure.args[0].str(), config) from None
