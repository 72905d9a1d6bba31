"""The group of distributed Connect workers: who is in it. Kafka's calls for consumer groups refuse to tell."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from seamark.context.urls import build_worker_id
from seamark.errors import UnreachableError
from seamark.kafka.clients import ConnectionEvents, open_client
from seamark.kafka.failures import build_error
from seamark.kafka.kafka_python import KafkaPythonClient

# From protocol 1 on (2.3) a worker reports its assignment when it joins, and gets what is added and what is revoked.
# With protocol 0 it gives up everything before it joins, and gets its complete assignment.

_SHORT, _INT, _LONG = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
_COOPERATIVE = 1


class _Bytes:
    """Bytes read from the front, as Kafka's own protocol spells them."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0

    @property
    def is_over(self) -> bool:
        return self._at >= len(self._raw)

    def number(self, kind: struct.Struct) -> int:
        (found,) = kind.unpack_from(self._raw, self._at)
        self._at += kind.size
        return int(found)

    def take(self, length: int) -> bytes:
        if length < 0 or self._at + length > len(self._raw):
            raise struct.error(f"{length} bytes are missing")
        self._at += length
        return self._raw[self._at - length : self._at]

    def text(self) -> str:
        return self.take(self.number(_SHORT)).decode()


def read_load(metadata: bytes, assignment: bytes) -> frozenset[str]:
    """The connectors that a worker runs, as a whole or some task of them.

    Raises:
        SeamarkError: the bytes are those of a protocol that is not known here.
    """
    try:
        return _read_had(metadata) | _read_assigned(assignment)
    except (struct.error, UnicodeDecodeError) as error:
        raise UnreachableError(
            "can't read the assignments of the worker group, so it is unknown which worker runs which tasks",
            cause=str(error),
            hint="upgrade seamark: this version of Connect may be newer",
        ) from None


def _read_had(metadata: bytes) -> frozenset[str]:
    found = _Bytes(metadata)
    version = found.number(_SHORT)
    found.text()
    found.number(_LONG)
    if version < _COOPERATIVE or found.is_over:
        return frozenset()
    length = found.number(_INT)
    return frozenset() if length < 0 else _read_assigned(found.take(length))


def _read_assigned(assignment: bytes) -> frozenset[str]:
    """Of what is taken away in the same breath nothing is left out: it is given up only after that."""
    if not assignment:
        return frozenset()
    found = _Bytes(assignment)
    version = found.number(_SHORT)
    found.number(_SHORT)
    found.text()
    found.text()
    found.number(_LONG)
    names = _read_names(found)
    return names | _read_names(found) if version >= _COOPERATIVE else names


def _read_leader(assignment: bytes) -> str:
    """The URL of the leader, which is part of each assignment; "" while a rebalance is in progress."""
    found = _Bytes(assignment)
    try:
        found.number(_SHORT)
        found.number(_SHORT)
        found.text()
        return found.text().rstrip("/")
    except (struct.error, UnicodeDecodeError):
        return ""


def _read_names(found: _Bytes) -> frozenset[str]:
    if found.is_over:
        return frozenset()
    names = set()
    for _ in range(max(0, found.number(_INT))):
        name = found.text()
        for _ in range(max(0, found.number(_INT))):
            found.number(_INT)
        names.add(name)
    return frozenset(names)


_QUIET = frozenset({"Empty", "Dead"})
_SETTLED = _QUIET | {"Stable"}
_HEAD = struct.Struct(">hh")
_FIND_SECONDS = 10.0


BuildClient = Callable[[dict[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class WorkerGroup:
    """A worker group as the brokers describe it.

    Attributes:
        name: The workers' `group.id`.
        state: Kafka's term, such as Stable or PreparingRebalance.
        urls: The members, by the URLs that they tell each other.
        leader: The URL of the member that assigns connectors and tasks; "" while that is unknown.
        is_complete: Whether the URL of each member is known. Unless the group is Stable, brokers describe members
            without their metadata.
    """

    name: str
    state: str
    urls: tuple[str, ...] = ()
    leader: str = ""
    is_complete: bool = True

    @property
    def members(self) -> frozenset[str]:
        """The members by their worker IDs (host:port, as in a status)."""
        return frozenset(map(build_worker_id, self.urls))

    def has(self, worker_id: str) -> bool | None:
        """Return whether a worker is a member; None if that is unknown."""
        if worker_id in self.members:
            return True
        return False if self.is_complete else None


def read_members(
    config: Mapping[str, str], group: str, *, timeout_seconds: float, build_client: BuildClient | None = None
) -> WorkerGroup:
    """Read who is in a worker group and who leads it. While a rebalance is in progress, that can be unknown.

    Raises:
        SeamarkError: a broker did not answer, or refused.
    """
    state, members = _read_group(config, group, timeout_seconds=timeout_seconds, build_client=build_client)
    leaders = {leader for member in members if (leader := _read_leader(member.assignment))}
    # Members that joined at different times can have been told of different leaders; then none is certain.
    leader = leaders.pop() if len(leaders) == 1 else ""
    urls = sorted(url for member in members if (url := _read_url(member.metadata)))
    return WorkerGroup(group, state, tuple(urls), leader, is_complete=len(urls) == len(members))


def read_worker_urls(
    config: Mapping[str, str], group: str, *, timeout_seconds: float, build_client: BuildClient | None = None
) -> tuple[str, ...]:
    """The workers in a group, by the URLs that they tell each other; none where all are down.

    Raises:
        SeamarkError: a broker did not answer, so that it is unknown whether a worker is up.
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
    client = KafkaPythonClient(config, timeout_seconds=timeout_seconds)
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
        SeamarkError: a rebalance of the workers is in progress, or a broker did not answer.
    """
    state, members = _read_group(config, group, timeout_seconds=timeout_seconds, build_client=build_client)
    if state not in _SETTLED:
        raise UnreachableError(
            f"the worker group {group} is {state}: a rebalance is in progress",
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
                f"the worker group {group} is {one.state} and reports no members",
                hint="try again in a moment: workers are joining or leaving",
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
