"""A consumer group as its coordinator tells it: its state, its members, what it has committed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from seamark.model.spot import Spot

_QUIET = frozenset({"EMPTY", "DEAD"})
_GROUP, PIPELINE = "group/", "pipeline/"
_MIRROR = "seamark-land-"


class GroupType(StrEnum):
    """The protocol that a group's members speak. `CONSUMER` is that of KIP-848; share groups commit no offsets."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
    UNKNOWN = "unknown"

    @classmethod
    def of(cls, word: str) -> GroupType:
        """The type of that name, whatever its case; UNKNOWN for a word that is new to us."""
        return cls.__members__.get(word.upper(), cls.UNKNOWN)


def is_group_owner(owner: str) -> bool:
    """Whether an owner holds its offsets by topic and partition, as a group does: `group/NAME`, `pipeline/NAME`."""
    return owner.startswith((_GROUP, PIPELINE))


def read_group_name(owner: str) -> str:
    """The group of such an owner. A pipeline's is named as the pipeline is: its ledger stands in for a group."""
    return owner.removeprefix(_GROUP)


def build_group_owner(name: str) -> str:
    """The owner that a group is."""
    return name if name.startswith(PIPELINE) else f"{_GROUP}{name}"


def is_pipeline(name: str) -> bool:
    """Whether it is no group of Kafka's, but a landing whose ledger stands in for one."""
    return name.startswith(PIPELINE)


def find_mirror(owner: str) -> str:
    """The group of Kafka that shows the lag of a landing. Nobody reads it back."""
    return f"{_MIRROR}{owner.removeprefix(PIPELINE)}"


def is_mirror(group: str) -> bool:
    """Whether a group is named as that of a landing."""
    return group.startswith(_MIRROR)


def render_group(name: str) -> str:
    """A group as sentences name it."""
    return name if name.startswith(PIPELINE) else f"group {name}"


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """One group. A group that nobody ever joined is DEAD, which is no fault."""

    name: str
    state: str
    members: int
    operations: frozenset[str] = frozenset()

    @property
    def is_quiet(self) -> bool:
        """Whether nobody is in it, so that its offsets can be changed."""
        return self.state in _QUIET and not self.members


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in the list of all. `protocol` is Kafka's word: `consumer`, `share`, or "" where only offsets are kept.

    `state` is Kafka's word in capitals, `UNKNOWN` where the brokers do not tell it.
    """

    name: str
    state: str
    type: GroupType = GroupType.UNKNOWN
    protocol: str = ""

    @property
    def has_offsets(self) -> bool:
        """Whether it is of a kind that commits offsets, which can be read and moved."""
        return self.type is not GroupType.SHARE


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One member of a group and the partitions that it reads."""

    id: str
    client_id: str
    host: str
    assignment: tuple[Spot, ...] = ()
    instance_id: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """A group with its members. `coordinator` is the broker that keeps it."""

    name: str
    state: str
    type: GroupType
    protocol: str
    assignor: str
    coordinator: int | None
    members: tuple[GroupMember, ...] = ()
    operations: frozenset[str] = frozenset()

    @property
    def is_quiet(self) -> bool:
        """Whether nobody is in it, so that its offsets can be changed."""
        return self.state in _QUIET and not self.members


@dataclass(frozen=True, slots=True)
class Committed:
    """What a group has committed for one partition: the next offset to read, and what the committer added to it."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """Everything that one group has committed, or what was asked of it. A partition without a commit is not in it."""

    group: str
    offsets: Mapping[Spot, Committed] = field(default_factory=dict)
