"""What a store holds of one partition of an owner, as a change sees it: the position, and the records behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from seamark.core.offset import OffsetMap
from seamark.kafka.records_held import HeldRecord


class WriteRoute(StrEnum):
    """How offsets are written.

    REST reaches the key that Connect spells itself. A key in another spelling is only reached by a record with its very
    bytes, written to the partition of the topic where it lies. Workers before 3.6 take no offsets through REST: those
    of a source go to its topic, those of a sink are committed for its GROUP.
    """

    REST = "rest"
    TOPIC = "topic"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class HeldOffset:
    """What is held for one partition of an owner.

    `records` are all that speak of it, in every topic that Connect would write; a consumer group has none. `doubt` says
    why nobody can tell which of them counts, "" where one can. `is_stray`: one of them lies on a partition of its topic
    where no worker would write it. `is_certain` is false where several of them differ.
    """

    partition: OffsetMap
    offset: OffsetMap | None = None
    records: tuple[HeldRecord, ...] = ()
    doubt: str = ""
    is_stray: bool = False
    is_certain: bool = True


@dataclass(frozen=True, slots=True)
class CompletedOffsets:
    """What is held, with a record where the tasks look for it. `notes` say how new keys are spelled."""

    held: tuple[HeldOffset, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetWrite:
    """One write of a partition's offset, and the time of its record by the clock of whoever wrote it."""

    offset: OffsetMap | None
    at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class TopicHolding:
    """What one offsets topic holds of one connector: the newest record of each key on each partition.

    `find_home` says for a key that is not there yet on which partition a Java producer would put it.
    """

    topic: str
    records: tuple[HeldRecord, ...]
    find_home: Callable[[bytes], int] = field(compare=False)
