"""Names of resources, parsed and spelled in this module only.

A subject names a resource of any kind: `connector/CLUSTER/NAME`, `topic/NAME`, `group/NAME`, `pipeline/NAME`. An owner
names a resource that has offsets: `CLUSTER/NAME` is a connector there, `group/NAME` and `pipeline/NAME` are as in
subjects. Names of connectors may contain slashes, names of Connect clusters don't.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Generic, Protocol, TypeVar

P = TypeVar("P")


class Ports(Protocol):
    """Where capabilities are found by their keys."""

    def use(self, port: Port[P]) -> P:
        """Return the capability that is registered under a key."""
        ...


class Port(Generic[P]):
    """A typed key under which a capability is found: `world.use(CONNECT)`, `reads.use(LOCKS)`.

    `open_snapshot` builds the capability that many steps of one plan read from, with a few requests instead of one for
    each step. Its arguments are the live capabilities and the snapshots of the same plan.
    """

    def __init__(self, name: str, *, open_snapshot: Callable[[Ports, Ports], P] | None = None) -> None:
        self.name = name
        self.open_snapshot = open_snapshot

    def __repr__(self) -> str:
        return f"Port({self.name!r})"


CONNECTOR, TOPIC, GROUP, PIPELINE = "connector", "topic", "group", "pipeline"
# Owners that have an offset for each partition of a topic.
_BY_PARTITION = frozenset({GROUP, PIPELINE})
GLOB = frozenset("*?[")
_MIRROR = "seamark-pipeline-"


@dataclass(frozen=True, slots=True)
class Ref:
    """A resource. `cluster` is the Connect cluster of a connector, and "" for every other kind.

    A connector named without a cluster, as people may, has none either.
    """

    kind: str
    name: str
    cluster: str = ""

    @property
    def owner(self) -> str:
        """The resource as an owner of offsets."""
        if self.kind != CONNECTOR:
            return f"{self.kind}/{self.name}"
        return f"{self.cluster}/{self.name}" if self.cluster else self.name

    def __str__(self) -> str:
        """The resource as a subject."""
        return f"{self.kind}/{self.cluster}/{self.name}" if self.cluster else f"{self.kind}/{self.name}"


def parse_subject(text: str) -> Ref:
    """Parse a subject. A text without a kind is a name of the kind ""."""
    kind, slash, rest = text.partition("/")
    if not slash:
        return Ref("", text)
    if kind != CONNECTOR:
        return Ref(kind, rest)
    cluster, slash, name = rest.partition("/")
    return Ref(kind, name, cluster) if slash else Ref(kind, rest)


def parse_owner(text: str) -> Ref:
    """Parse an owner. A text without a slash is a connector whose cluster isn't named."""
    first, slash, rest = text.partition("/")
    if not slash:
        return Ref(CONNECTOR, text)
    return Ref(first, rest) if first in _BY_PARTITION else Ref(CONNECTOR, rest, first)


@dataclass(frozen=True, slots=True)
class OwnerPatterns:
    """Owners and globs of owners, a connector with or without its Connect cluster. Without any, all owners match."""

    texts: tuple[str, ...] = ()

    def matches(self, owner: str) -> bool:
        """Return whether an owner, with its Connect cluster, is selected."""
        names = (owner,) if is_group_owner(owner) else (owner, parse_owner(owner).name)
        return not self.texts or any(name == text or fnmatchcase(name, text) for name in names for text in self.texts)

    def find_missing(self, owners: Collection[str]) -> tuple[str, ...]:
        """Return what is neither a glob nor one of the owners."""
        known = {*owners, *(parse_owner(owner).name for owner in owners if not is_group_owner(owner))}
        return tuple(text for text in self.texts if text not in known and not GLOB & set(text))


EVERY_OWNER = OwnerPatterns()


def qualify_connector(name: str, cluster: str) -> str:
    """Return a connector with its Connect cluster. A name that begins with it already is returned as it is."""
    return name if name.startswith(f"{cluster}/") else f"{cluster}/{name}"


def spell_aspect(subject: str, aspect: str) -> str:
    """Spell one side of a resource: `connector/game/log-purchase#config`."""
    return f"{subject}#{aspect}"


def parse_aspect(text: str) -> tuple[str, str]:
    """Return the subject and the aspect that `spell_aspect` was given."""
    subject, _, aspect = text.rpartition("#")
    return subject, aspect


def is_group_owner(owner: str) -> bool:
    """Return whether an owner has an offset for each partition of a topic: `group/NAME`, `pipeline/NAME`."""
    return parse_owner(owner).kind in _BY_PARTITION


def read_group_name(owner: str) -> str:
    """Return the group of such an owner. A pipeline is its own: its ledger takes the place of a group."""
    found = parse_owner(owner)
    return found.name if found.kind == GROUP else owner


def build_group_owner(name: str) -> str:
    """Return the owner for a group."""
    return name if is_pipeline(name) else f"{GROUP}/{name}"


def is_pipeline(name: str) -> bool:
    """Return whether an owner or a group is a pipeline, whose ledger takes the place of a consumer group."""
    return parse_owner(name).kind == PIPELINE


def build_pipeline_owner(name: str) -> str:
    """Return the owner for a pipeline."""
    return f"{PIPELINE}/{name}"


def find_mirror(owner: str) -> str:
    """Return the consumer group that shows the lag of a landing. seamark only writes it."""
    return f"{_MIRROR}{parse_owner(owner).name}"


def is_mirror(group: str) -> bool:
    """Return whether a group is named as that of a landing."""
    return group.startswith(_MIRROR)


def render_group(name: str) -> str:
    """Return a group as sentences name it."""
    return name if is_pipeline(name) else f"group {name}"


class ConnectorType(StrEnum):
    """Which way data flows through a connector."""

    SOURCE = "source"
    SINK = "sink"
    UNKNOWN = "unknown"

    @classmethod
    def of(cls, word: str) -> ConnectorType:
        """The type of that name, or UNKNOWN."""
        try:
            return cls(word.lower())
        except ValueError:
            return cls.UNKNOWN
