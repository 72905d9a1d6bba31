"""What one owner remembers of one partition: two maps, as in Connect, never flattened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

OffsetValue = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Offset:
    """A partition and the position held for it.

    `offset` is None where nothing is held. A sink's `kafka_offset` is the next record to be read.
    """

    partition: Mapping[str, OffsetValue]
    offset: Mapping[str, OffsetValue] | None
