"""What a store holds of one partition of an owner, as a change sees it: the position, and the records behind it."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from seamark.model.offset import OffsetMap


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
class HeldRecord:
    """One record of an offsets topic, to the byte. No value is a tombstone, or no record at all."""

    topic: str
    partition: int
    key: bytes
    value: bytes | None = None

    @property
    def place(self) -> str:
        """The topic, its partition and the key: what a later record of the same place replaces."""
        return f"{self.topic}-{self.partition} {b64encode(self.key).decode()}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON, the bytes in base64."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "key": b64encode(self.key).decode(),
            "value": None if self.value is None else b64encode(self.value).decode(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> HeldRecord:
        """Read what `to_dict` gave."""
        value = data["value"]
        return cls(
            str(data["topic"]),
            int(data["partition"]),
            b64decode(data["key"], validate=True),
            None if value is None else b64decode(value, validate=True),
        )


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
