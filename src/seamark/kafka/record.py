"""One record of a topic as a sink meets it: where it lies, its bytes, its headers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from seamark.errors import UsageError
from seamark.kafka.spot import Spot

Headers = tuple[tuple[str, bytes | None], ...]
"""Headers in their order. A name may stand twice, and a value may be missing."""

_PLACE = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<partition>\d{1,9})@(?P<offset>\d{1,18})")


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a record lies. It is written `topic-3@123`."""

    topic: str
    partition: int
    offset: int

    @property
    def spot(self) -> Spot:
        """Its partition."""
        return self.topic, self.partition

    def __str__(self) -> str:
        """`topic-3@123`."""
        return f"{self.topic}-{self.partition}@{self.offset}"


@dataclass(frozen=True, slots=True)
class WholeRecord:
    """A record with all that is in it."""

    place: Place
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class RecordSize:
    """What may be said of a record without saying what is in it. None where there is no key or no value."""

    timestamp_ms: int
    key: int | None
    value: int | None
    headers: int


def measure(record: WholeRecord) -> RecordSize:
    """The sizes of a record."""
    return RecordSize(
        record.timestamp_ms,
        None if record.key is None else len(record.key),
        None if record.value is None else len(record.value),
        len(record.headers),
    )


def parse_place(text: str) -> Place:
    """Read `topic-3@123`."""
    found = _PLACE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is no place of a record", hint="write TOPIC-PARTITION@OFFSET, as in orders-3@123")
    return Place(found["topic"], int(found["partition"]), int(found["offset"]))
