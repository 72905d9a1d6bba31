"""The group of distributed Connect workers: who is in it. Kafka's calls for consumer groups refuse to tell."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any

from seamark.context.urls import build_worker_id
from seamark.errors import UnreachableError
from seamark.kafka.failures import build_error
from seamark.kafka.opening import open_client
from seamark.kafka.second import SecondClient
from seamark.kafka.wait import ConnectionEvents
from seamark.kafka.worker_load import read_load

_QUIET = frozenset({"Empty", "Dead"})
_SETTLED = _QUIET | {"Stable"}
_HEAD = struct.Struct(">hh")
_FIND_SECONDS = 10.0


BuildClient = Callable[[dict[str, Any]], Any]


def read_worker_urls(
    config: Mapping[str, str], group: str, *, timeout_seconds: float, build_client: BuildClient | None = None
) -> tuple[str, ...]:
    """The workers in a group, by the URLs that they tell each other; none where all are down.

    Raises:
        SeamarkError: a broker did not tell. Then nobody knows whether a worker is up.
    """
    _, members = _read_group(config, group, timeout_seconds=timeout_seconds, build_client=build_client)
    return tuple(sorted(map(_name, members)))


def find_worker_groups(
    config: Mapping[str, str], urls: Collection[str], *, timeout_seconds: float = _FIND_SECONDS
) -> tuple[str, ...]:
    """Return the worker groups that have a member at one of these URLs.

    Raises:
        SeamarkError: the brokers didn't report the groups or their members.
    """
    client = SecondClient(config, timeout_seconds=timeout_seconds)
    try:
        groups = client.read_connect_groups()
    finally:
        client.close()
    wanted = {url.rstrip("/") for url in urls}
    return tuple(
        group
        for group in groups
        if not wanted.isdisjoint(read_worker_urls(config, group, timeout_seconds=timeout_seconds))
    )


def read_worker_ids(
    config: Mapping[str, str], group: str, *, timeout_seconds: float, build_client: BuildClient | None = None
) -> frozenset[str]:
    """Return the worker IDs (host:port, as in a status) of the members of a worker group.

    Raises:
        SeamarkError: the group is rebalancing, so that a member may be gone already, or no broker answers.
    """
    found = read_worker_loads(config, group, timeout_seconds=timeout_seconds, build_client=build_client)
    return frozenset(build_worker_id(url) for url in found)


def read_worker_loads(
    config: Mapping[str, str], group: str, *, timeout_seconds: float, build_client: BuildClient | None = None
) -> dict[str, frozenset[str]]:
    """By worker the connectors that it runs, itself or in tasks: what it had when it joined, and what it was given.

    A worker gives up what is taken from it before it joins again: who is named nowhere in a stable group runs nowhere.

    Raises:
        SeamarkError: the workers are about to share the work anew, or a broker did not tell.
    """
    state, members = _read_group(config, group, timeout_seconds=timeout_seconds, build_client=build_client)
    if state not in _SETTLED:
        raise UnreachableError(
            f"the worker group {group} is {state}: the workers share their work anew",
            hint="try again in a moment",
        )
    return {_name(member): read_load(member.metadata, member.assignment) for member in members}


def _read_group(
    config: Mapping[str, str], group: str, *, timeout_seconds: float, build_client: BuildClient | None
) -> tuple[str, list[Any]]:
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
    state, members = "Dead", []
    for one in found:
        if one.error is not None:
            raise build_error(one.error, action=action, subject=group, operation="DESCRIBE", last_event=events.last)
        if not one.members and one.state not in _QUIET:
            raise UnreachableError(
                f"the worker group {group} is {one.state}, and nobody is told to be in it",
                hint="workers are coming or going: try again in a moment",
            )
        state = one.state
        members += one.members
    return state, members


def _name(member: Any) -> str:
    return str(_read_url(member.metadata) or member.client_id or member.id)


def _read_url(metadata: bytes) -> str:
    """The URL in what a worker told when it joined: a version, a length, the text; "" where it is something else."""
    if len(metadata) < _HEAD.size:
        return ""
    _, length = _HEAD.unpack_from(metadata)
    text = metadata[_HEAD.size : _HEAD.size + max(length, 0)].decode(errors="replace").rstrip("/")
    return text if text.startswith(("http://", "https://")) else ""
