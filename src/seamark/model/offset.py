"""What one owner remembers of one partition: two maps, as in Connect, never flattened."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

OffsetValue = str | int | float | bool | None
OffsetMap = Mapping[str, OffsetValue]
# Made once: a hundred thousand keys are spelled with it.
_IDENTITY = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Offset:
    """A partition and the position held for it.

    `offset` is None where nothing is held. A sink's `kafka_offset` is the next record to be read.
    """

    partition: OffsetMap
    offset: OffsetMap | None


def spell_identity(fields: OffsetMap) -> str:
    """A text that two maps share if and only if Connect takes them for the same map.

    The order of the fields does not count. Types do: 1, 1.0, true and "1" are four different values, as they are in
    Java, though Python finds three of them equal.
    """
    return _IDENTITY.encode(fields if isinstance(fields, dict) else dict(fields))


@dataclass(frozen=True, slots=True)
class OffsetKey:
    """Whose position and of which partition, however its bytes are spelled.

    Two keys are equal where Connect's listing takes them for the same one. `partition` keeps the order of its fields.
    """

    connector: str
    partition: OffsetMap = field(compare=False)
    identity: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "identity", spell_identity(self.partition))
