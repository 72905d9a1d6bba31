"""Find the consumers of a copy's source with their offsets, and its producers: the cutover switches all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from seamark.connect.clusters import Clusters
from seamark.connect.config import is_read_by_pattern
from seamark.core.readings import Reading
from seamark.core.refs import CONNECTOR, GROUP, ConnectorType, find_mirror, is_mirror, parse_owner, parse_subject
from seamark.errors import SeamarkError
from seamark.groups.lag import GroupOwners, read_delays, read_owners
from seamark.kafka.api import BrokersPort
from seamark.kafka.groups import GroupOffsets
from seamark.kafka.model import LogOffsets, TopicPartition, TopicStatus
from seamark.offsets.stores.ledger import list_ledgers
from seamark.topics.users import TopicUser, TopicUsers, Use, read_users


def read_landings(kafka: BrokersPort, spots: Sequence[TopicPartition]) -> Reading[GroupOffsets]:
    """Return the pipelines that have an offset in one of these partitions, and the databases that didn't answer."""
    known = list_ledgers(kafka)
    if not known.items:
        return Reading(failures=known.failures)
    held = kafka.read_committed(dict.fromkeys(known.items, spots), with_metadata=False)
    return Reading(tuple(found for found in held.items if found.offsets), failures={**known.failures, **held.failures})


def leave_mirrors_out(groups: Iterable[str], landings: Reading[GroupOffsets]) -> list[str]:
    """Return groups without those that mirror the lag of pipelines: the ledgers contain the same offsets."""
    mirrors = {find_mirror(found.group) for found in landings.items}
    return [group for group in groups if group not in mirrors]


def say_lone_mirrors(groups: Iterable[str]) -> tuple[str, ...]:
    """Describe groups that mirror the lag of pipelines whose ledgers are not in a database of the context."""
    return tuple(
        f"group {group} shows the lag of a pipeline whose ledger was not found in the databases of the context: the "
        "pipeline itself is not switched"
        for group in groups
        if is_mirror(group)
    )


def say_file(owner: str, source: str, *, target: str) -> str:
    """Describe the change that the file of a pipeline needs."""
    return (
        f"pipeline {parse_owner(owner).name} reads {source}: set from.topic to {target} in its file before you start "
        "it again"
    )


# A pipeline run with no rows to write holds nothing that seamark can observe.
_UNKNOWN = "UNKNOWN"


class ReaderKind(StrEnum):
    """The kind of a consumer: a sink connector, a pipeline, or any other consumer group."""

    SINK = "sink"
    PIPELINE = "pipeline"
    GROUP = "group"


_ORDER = tuple(ReaderKind)


@dataclass(frozen=True, slots=True)
class CopyReader:
    """One consumer of the source. `name` is the sink CLUSTER/NAME, the pipeline pipeline/NAME, or the group.

    `offsets` are its offsets by partition; it has none for `missing` partitions. `lag` is in records, and
    `delay_seconds` is the age of the oldest unread record; None if unknown.
    """

    name: str
    kind: ReaderKind
    group: str
    state: str
    is_active: bool
    offsets: Mapping[int, int] = field(default_factory=dict)
    missing: tuple[int, ...] = ()
    lag: int | None = None
    delay_seconds: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the consumer as JSON has it."""
        return {
            "name": self.name,
            "kind": self.kind.value,
            "group": self.group,
            "state": self.state,
            "active": self.is_active,
            "offsets": {str(partition): offset for partition, offset in sorted(self.offsets.items())},
            "without_offset": list(self.missing),
            "lag": self.lag,
            "delay_seconds": self.delay_seconds,
        }


@dataclass(frozen=True, slots=True)
class CopyUsers:
    """The consumers and producers of the source. `notes` describe what could not be determined."""

    readers: tuple[CopyReader, ...] = ()
    writers: tuple[TopicUser, ...] = ()
    notes: tuple[str, ...] = ()


def read_copy_users(
    topic: TopicStatus, bounds: Mapping[int, LogOffsets], *, clusters: Clusters, kafka: BrokersPort, now: float
) -> CopyUsers:
    """Find consumers and producers, everywhere in the context."""
    users = read_users(topic, clusters=clusters, kafka=kafka)
    owners = read_owners(clusters)
    landings = read_landings(kafka, topic.spots)
    groups = {ref.name: user for user in users.found if (ref := parse_subject(user.subject)).kind == GROUP}
    names = leave_mirrors_out(groups, landings)
    committed = kafka.read_committed(dict.fromkeys(names, topic.spots), with_metadata=False)
    held = {found.group: found for found in (*committed.items, *landings.items)}
    delays = _read_delays(kafka, topic, held, bounds, now=now)
    readers = [
        _build_reader(groups[name], topic, held.get(name), owners=owners, bounds=bounds, delays=delays)
        for name in names
    ]
    readers += [_build_landing(found, topic, bounds=bounds, delays=delays) for found in landings.items]
    readers += _build_idle_sinks(users, owners, seen={reader.name for reader in readers}, topic=topic, bounds=bounds)
    failures: dict[str, SeamarkError] = {
        **users.failures,
        **owners.failures,
        **committed.failures,
        **landings.failures,
    }
    notes = [
        f"consumers and producers may be missing here: {where}: {error.message}" for where, error in failures.items()
    ]
    return CopyUsers(
        tuple(sorted(readers, key=lambda reader: (_ORDER.index(reader.kind), reader.name))),
        writers=tuple(user for user in users.found if user.use in (Use.WRITES, Use.MAY_WRITE)),
        notes=(*notes, *users.notes, *say_lone_mirrors(names)),
    )


def _build_reader(
    user: TopicUser,
    topic: TopicStatus,
    held: GroupOffsets | None,
    *,
    owners: GroupOwners,
    bounds: Mapping[int, LogOffsets],
    delays: Mapping[str, float],
) -> CopyReader:
    group = parse_subject(user.subject).name
    sink = owners.find(group)
    offsets = {spot[1]: commit.offset for spot, commit in held.offsets.items()} if held else {}
    return CopyReader(
        sink or group,
        ReaderKind.SINK if sink else ReaderKind.GROUP,
        group=group,
        state=user.state,
        is_active=user.is_active,
        offsets=offsets,
        missing=tuple(one.id for one in topic.partitions if one.id not in offsets),
        lag=_count_lag(offsets, bounds) if held else None,
        delay_seconds=delays.get(group),
    )


def _build_landing(
    held: GroupOffsets, topic: TopicStatus, *, bounds: Mapping[int, LogOffsets], delays: Mapping[str, float]
) -> CopyReader:
    offsets = {spot[1]: commit.offset for spot, commit in held.offsets.items()}
    return CopyReader(
        held.group,
        ReaderKind.PIPELINE,
        group=held.group,
        state=_UNKNOWN,
        is_active=False,
        offsets=offsets,
        missing=tuple(one.id for one in topic.partitions if one.id not in offsets),
        lag=_count_lag(offsets, bounds),
        delay_seconds=delays.get(held.group),
    )


def _build_idle_sinks(
    users: TopicUsers, owners: GroupOwners, *, seen: set[str], topic: TopicStatus, bounds: Mapping[int, LogOffsets]
) -> list[CopyReader]:
    """Return sinks that subscribe to the topic and have committed nothing yet."""
    groups = {sink: group for group, sinks in owners.sinks.items() for sink in sinks}
    sinks = [
        (user, ref.owner)
        for user in users.found
        if (ref := parse_subject(user.subject)).kind == CONNECTOR and user.use in (Use.READS, Use.MAY_READ)
    ]
    return [
        CopyReader(
            name,
            ReaderKind.SINK,
            group=groups.get(name, ""),
            state=user.state,
            is_active=user.is_active,
            missing=tuple(one.id for one in topic.partitions),
            lag=sum(found.records for found in bounds.values()),
        )
        for user, name in sinks
        # Sinks may share a group, and are then listed together.
        if not any(name in known.split(", ") for known in seen)
    ]


def _count_lag(offsets: Mapping[int, int], bounds: Mapping[int, LogOffsets]) -> int:
    return sum(
        max(0, bounds[one].latest - max(at, bounds[one].earliest)) for one, at in offsets.items() if one in bounds
    )


def _read_delays(
    kafka: BrokersPort,
    topic: TopicStatus,
    held: Mapping[str, GroupOffsets],
    bounds: Mapping[int, LogOffsets],
    *,
    now: float,
) -> dict[str, float]:
    """Return the age in seconds of the oldest unread record of each group."""
    ends: dict[TopicPartition, int] = {spot: bounds[spot[1]].latest for spot in topic.spots}
    behind: Sequence[tuple[TopicPartition, int]] = [
        (spot, commit.offset)
        for found in held.values()
        for spot, commit in found.offsets.items()
        if commit.offset < ends.get(spot, 0)
    ]
    delays = read_delays(kafka, dict.fromkeys(behind), ends, now_ms=round(now * 1000)) if behind else {}
    oldest: dict[str, float] = {}
    for group, found in held.items():
        known = [
            delay.seconds
            for spot, commit in found.offsets.items()
            if (delay := delays.get((spot, commit.offset))) is not None
        ]
        if known:
            oldest[group] = max(known)
    return oldest


def refuse_strangers(clusters: Clusters, target: str) -> tuple[str, ...]:
    """Return the reasons against a target name: one per sink that would read the whole topic at once."""
    answers = clusters.ask(lambda client: client.read_connectors())
    return tuple(
        f"connector/{connector.owner} has topics.regex {connector.config['topics.regex']!r} and would read {target} "
        "during the copy: choose another name with --target"
        for connectors in answers.results.values()
        for connector in connectors
        if connector.type is not ConnectorType.SOURCE and is_read_by_pattern(connector.config, target)
    )
