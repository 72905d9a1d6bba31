"""The group of distributed Connect workers: who is in it. Kafka's calls for consumer groups refuse to tell."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from seamark.errors import UnreachableError
from seamark.kafka.failures import build_error
from seamark.kafka.opening import open_client
from seamark.kafka.wait import ConnectionEvents

_QUIET = frozenset({"Empty", "Dead"})
_HEAD = struct.Struct(">hh")


def read_worker_urls(
    config: Mapping[str, str],
    group: str,
    *,
    timeout_seconds: float,
    build_client: Callable[[dict[str, Any]], Any] | None = None,
) -> tuple[str, ...]:
    """The workers in a group, by the URLs that they tell each other; none where all are down.

    Raises:
        SeamarkError: a broker did not tell. Then nobody knows whether a worker is up.
    """
    from confluent_kafka import KafkaException  # noqa: PLC0415
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    events = ConnectionEvents()
    client = open_client(config, {}, build=build_client or AdminClient, on_error=events.record)
    action = f"read the worker group {group}"
    try:
        # The call that took its place knows consumer groups only.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            found = client.list_groups(group, timeout=timeout_seconds)
    except KafkaException as failure:
        client.poll(0)
        raise build_error(
            failure.args[0], action=action, subject=group, operation="DESCRIBE", last_event=events.last
        ) from None
    urls = []
    for one in found:
        if one.error is not None:
            raise build_error(one.error, action=action, subject=group, operation="DESCRIBE", last_event=events.last)
        if not one.members and one.state not in _QUIET:
            raise UnreachableError(
                f"the worker group {group} is {one.state}, and nobody is told to be in it",
                hint="workers are coming or going: try again in a moment",
            )
        urls += [_read_url(member.metadata) or member.client_id or member.id for member in one.members]
    return tuple(sorted(urls))


def _read_url(metadata: bytes) -> str:
    """The URL in what a worker told when it joined: a version, a length, the text; "" where it is something else."""
    if len(metadata) < _HEAD.size:
        return ""
    _, length = _HEAD.unpack_from(metadata)
    text = metadata[_HEAD.size : _HEAD.size + max(length, 0)].decode(errors="replace").rstrip("/")
    return text if text.startswith(("http://", "https://")) else ""
