"""A record of a topic as it lies there: bytes, and where they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class RawRecord(NamedTuple):
    """One record. A tuple, because a hundred thousand of them are held at once."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What a scan of a whole topic found: of each key and partition the newest record.

    `partitions` is how many the topic has, `scanned` how many records were read. `held_back` has the partitions in
    which an open transaction hides what follows: where reading ended, and where the log does.
    """

    topic: str
    partitions: int
    scanned: int
    records: tuple[RawRecord, ...]
    held_back: Mapping[int, tuple[int, int]] = field(default_factory=dict)
