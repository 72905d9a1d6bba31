"""Find the users of a topic: connectors by their configs, and groups by their commits and members."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial

from seamark.connect.clusters import Clusters
from seamark.connect.config import find_group, find_route
from seamark.connect.model import Connector, State
from seamark.core.readings import fan_out
from seamark.core.refs import ConnectorType
from seamark.errors import SeamarkError
from seamark.kafka.api import BrokersPort
from seamark.kafka.groups import GroupListing, GroupType
from seamark.kafka.model import LogOffsets, TopicSize, TopicStatus


class Use(StrEnum):
    """How a connector or group uses a topic. `MAY_WRITE` and `MAY_READ` are guesses from a config."""

    READS = "reads"
    WRITES = "writes"
    MAY_READ = "may read"
    MAY_WRITE = "may write"
    COMMITTED = "has committed offsets"


@dataclass(frozen=True, slots=True)
class TopicUser:
    """A connector or a group that uses a topic: `subject` as in plans, `state` as Connect or Kafka reports it.

    `is_active` is whether it uses the topic now, or would as soon as it is restarted.
    """

    subject: str
    use: Use
    state: str
    is_active: bool

    @property
    def is_certain(self) -> bool:
        """Return whether it is known to use the topic, and not guessed."""
        return self.use not in (Use.MAY_READ, Use.MAY_WRITE)

    @property
    def is_reader(self) -> bool:
        """Return whether it consumes the topic, or did."""
        return self.use in (Use.READS, Use.COMMITTED)


@dataclass(frozen=True, slots=True)
class TopicReport:
    """One topic. `bounds` are by partition; `bounds` and `size` are None if not requested or unknown."""

    status: TopicStatus
    bounds: Mapping[int, LogOffsets] | None = None
    size: TopicSize | None = None
    users: tuple[TopicUser, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def name(self) -> str:
        """Return the topic's name."""
        return self.status.name

    @property
    def records(self) -> int | None:
        """Return the number of offsets in the log, which is the maximum number of records."""
        return None if self.bounds is None else sum(found.records for found in self.bounds.values())

    @property
    def bytes(self) -> int | None:
        """Return the bytes of all replicas."""
        return None if self.size is None else self.size.bytes


_AT_REST = frozenset({State.PAUSED, State.STOPPED})
_QUIET = frozenset({"EMPTY", "DEAD"})
# Configs by which well-known sources name the single topic to which they write.
_WRITES = ("topic", "kafka.topic", "errors.deadletterqueue.topic.name")
# One request per connector: two rounds of them take less than a second.
_MOST_ASKED = 32
_PREFIXES = ("topic.prefix", "database.server.name", "database.history.kafka.topic")


@dataclass(frozen=True, slots=True)
class TopicUsers:
    """The users of a topic, and by name what could not be asked."""

    found: tuple[TopicUser, ...]
    failures: Mapping[str, SeamarkError]
    notes: tuple[str, ...] = ()

    @property
    def active(self) -> tuple[TopicUser, ...]:
        """Return the users that certainly use it now."""
        return tuple(user for user in self.found if user.is_active and user.is_certain)


def read_users(topic: TopicStatus, *, clusters: Clusters, kafka: BrokersPort) -> TopicUsers:
    """Find the users of a topic, everywhere in the context."""
    answers = clusters.ask(lambda client: client.read_connectors())
    connectors = [connector for found in answers.results.values() for connector in found]
    users = [user for connector in connectors for user in find_uses(connector, topic.name)]
    users = _settle_guesses(users, connectors, topic.name, clusters)
    groups, failures, notes = _read_groups(topic, kafka, elsewhere=_find_elsewhere(connectors, topic.name, clusters))
    return TopicUsers((*users, *groups), {**answers.failures, **failures}, notes)


def _settle_guesses(
    users: Sequence[TopicUser], connectors: Sequence[Connector], topic: str, clusters: Clusters
) -> list[TopicUser]:
    """Ask Connect about possible producers of the topic. A guess that it does not confirm stays a guess."""
    guessed = {user.subject for user in users if user.use is Use.MAY_WRITE}
    asked = [found for found in connectors if f"connector/{found.owner}" in guessed]
    if len(asked) > _MOST_ASKED:
        return list(users)
    # Connect may be configured not to track active topics; then nothing more is known.
    answers = fan_out(
        {f"connector/{found.owner}": partial(clusters.client(found.cluster).read_topics, found.name) for found in asked}
    )
    writers = {subject for subject, topics in answers.results.items() if topic in topics}
    return [
        replace(user, use=Use.WRITES) if user.use is Use.MAY_WRITE and user.subject in writers else user
        for user in users
    ]


def find_uses(connector: Connector, topic: str) -> Iterator[TopicUser]:
    """Return how a connector uses a topic, as far as its config shows; nothing if it does not use it."""
    for use in _find_kinds(connector, topic):
        status = connector.status
        yield TopicUser(
            f"connector/{connector.owner}",
            use,
            state="no status" if status is None else status.state.value,
            # A failed connector would use it again after a restart.
            is_active=status is None or status.state not in _AT_REST,
        )


def _find_kinds(connector: Connector, topic: str) -> Iterator[Use]:
    config = connector.config
    if connector.type is not ConnectorType.SOURCE:
        if topic in [name.strip() for name in config.get("topics", "").split(",")]:
            yield Use.READS
        elif pattern := config.get("topics.regex", ""):
            fits = _fits(pattern, topic)
            if fits is not False:
                yield Use.READS if fits else Use.MAY_READ
    if connector.type is ConnectorType.SOURCE and find_route(config, topic) not in (None, topic):
        # Records are routed to other topics, whatever active topics Connect has recorded before.
        return
    keys = _WRITES if connector.type is not ConnectorType.SINK else _WRITES[-1:]
    if topic in [config.get(key, "").strip() for key in keys]:
        yield Use.WRITES
    elif connector.type is not ConnectorType.SINK and any(
        topic.startswith(config[key]) for key in _PREFIXES if config.get(key)
    ):
        yield Use.MAY_WRITE


def _fits(pattern: str, topic: str) -> bool | None:
    """Return whether Java's pattern matches the whole name; None if Python can't compile it."""
    try:
        return re.fullmatch(pattern, topic) is not None
    except re.error:
        return None


def _find_elsewhere(connectors: Sequence[Connector], topic: str, clusters: Clusters) -> set[str]:
    """Return the groups of sinks none of which consumes the topic: their commits for it are from before."""
    by_group: dict[str, list[Connector]] = {}
    for one in connectors:
        if one.type is ConnectorType.SINK:
            by_group.setdefault(find_group(one.name, one.config, clusters.settings(one.cluster)), []).append(one)
    reading = (Use.READS, Use.MAY_READ)
    return {
        group
        for group, sinks in by_group.items()
        if not any(use in reading for sink in sinks for use in _find_kinds(sink, topic))
    }


def _read_groups(
    topic: TopicStatus, kafka: BrokersPort, *, elsewhere: Collection[str]
) -> tuple[list[TopicUser], dict[str, SeamarkError], tuple[str, ...]]:
    listings = kafka.read_all_groups()
    named = {found.name: found for found in listings.items}
    readable = [found.name for found in listings.items if found.has_offsets]
    committed = kafka.read_committed(dict.fromkeys(readable, topic.spots), with_metadata=False)
    busy = [name for name in readable if named[name].state not in _QUIET]
    members = kafka.read_members(busy)
    reading = {
        found.name
        for found in members.items
        if any(spot[0] == topic.name for member in found.members for spot in member.assignment)
    }
    holding = {found.group for found in committed.items if found.offsets}
    users = [
        _build_user(named[name], reads=name in reading, is_elsewhere=name in elsewhere)
        for name in sorted(reading | holding)
    ]
    share = [found.name for found in listings.items if found.type is GroupType.SHARE]
    notes = (f"the topics that share groups read are unknown: {', '.join(share)}",) if share else ()
    return users, {**listings.failures, **committed.failures, **members.failures}, notes


def _build_user(listing: GroupListing, *, reads: bool, is_elsewhere: bool) -> TopicUser:
    return TopicUser(
        f"group/{listing.name}",
        Use.READS if reads else Use.COMMITTED,
        state=listing.state,
        # A group with commits for the topic and with members may be assigned its partitions again at any time.
        is_active=reads or (listing.state not in _QUIET and not is_elsewhere),
    )
