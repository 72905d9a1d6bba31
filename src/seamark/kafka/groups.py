"""A consumer group as its coordinator tells it: its state, its members, what it has committed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from seamark.kafka.model import TopicPartition

_QUIET = frozenset({"EMPTY", "DEAD"})


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


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """One group. A group that never had a member is DEAD, which is normal."""

    name: str
    state: str
    members: int
    operations: frozenset[str] = frozenset()

    @property
    def is_quiet(self) -> bool:
        """Whether it has no members, so that its offsets can be changed."""
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
    assignment: tuple[TopicPartition, ...] = ()
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
        """Whether it has no members, so that its offsets can be changed."""
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
    offsets: Mapping[TopicPartition, Committed] = field(default_factory=dict)


def build_commit_image(commit: Committed) -> dict[str, Any]:
    """A commit as JSON takes it; what is not there is not spelled."""
    image: dict[str, Any] = {"offset": commit.offset}
    if commit.metadata:
        image["metadata"] = commit.metadata
    if commit.leader_epoch is not None:
        image["leader_epoch"] = commit.leader_epoch
    return image


def read_commit_image(image: Mapping[str, Any]) -> Committed:
    """Read what `build_commit_image` gave."""
    return Committed(image["offset"], metadata=image.get("metadata", ""), leader_epoch=image.get("leader_epoch"))


def count_members(number: int) -> str:
    """So many members, in words."""
    return f"{number} member" + ("" if number == 1 else "s")
