"""What one owner remembers of one partition: two maps, as in Connect, never flattened."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

OffsetValue = str | int | float | bool | None
OffsetMap = Mapping[str, OffsetValue]
_IDENTITY = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_spell_text = json.encoder.encode_basestring_ascii


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
    # Texts and whole numbers are most of what there is, and a hundred thousand keys are spelled at once: the encoder
    # takes three times as long for the same text.
    pieces = []
    for name in sorted(fields) if len(fields) > 1 else fields:
        value = fields[name]
        if isinstance(value, str):
            pieces.append(f"{_spell_text(name)}:{_spell_text(value)}")
        elif isinstance(value, int) and not isinstance(value, bool):
            pieces.append(f"{_spell_text(name)}:{value}")
        else:
            return _IDENTITY.encode(dict(fields))
    return f"{{{','.join(pieces)}}}"


def spell_offset(offset: OffsetMap | None) -> str | None:
    """The same of an offset: equal texts are equal positions. None where nothing is held."""
    return None if offset is None else spell_identity(offset)


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
