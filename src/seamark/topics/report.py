"""A topic with what was asked beside its status: its bounds, its bytes, and who uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from seamark.kafka.spot import Bounds
from seamark.kafka.topic import TopicSize, TopicStatus


class Use(StrEnum):
    """How somebody uses a topic. `MAY_WRITE` and `MAY_READ` are guesses from a config."""

    READS = "reads"
    WRITES = "writes"
    MAY_READ = "may read"
    MAY_WRITE = "may write"
    COMMITTED = "has committed offsets"


@dataclass(frozen=True, slots=True)
class TopicUser:
    """A connector or a group that uses a topic: `subject` as plans name it, `state` in its own words.

    `is_active` says whether it is at it right now, or would be as soon as something restarts it.
    """

    subject: str
    use: Use
    state: str
    is_active: bool

    @property
    def is_certain(self) -> bool:
        """Whether it is known to use the topic, and not guessed."""
        return self.use not in (Use.MAY_READ, Use.MAY_WRITE)

    @property
    def is_reader(self) -> bool:
        """Whether it reads the topic, or did."""
        return self.use in (Use.READS, Use.COMMITTED)


@dataclass(frozen=True, slots=True)
class TopicReport:
    """One topic. `bounds` are by partition; they and `size` are None where nobody asked, or nobody could tell."""

    status: TopicStatus
    bounds: Mapping[int, Bounds] | None = None
    size: TopicSize | None = None
    users: tuple[TopicUser, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def name(self) -> str:
        """The topic's name."""
        return self.status.name

    @property
    def records(self) -> int | None:
        """How many offsets lie between the bounds: as many records at most."""
        return None if self.bounds is None else sum(found.records for found in self.bounds.values())

    @property
    def bytes(self) -> int | None:
        """The bytes of all copies."""
        return None if self.size is None else self.size.bytes
