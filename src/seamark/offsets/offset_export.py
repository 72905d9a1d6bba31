"""Offsets of many owners at one time: what an export holds, and how two of them differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from seamark.core.offset import Offset, OffsetMap
from seamark.errors import SeamarkError
from seamark.offsets.offset_finding import OffsetFinding
from seamark.offsets.stored_offset import Evidence


@dataclass(frozen=True, slots=True)
class OwnerExport:
    """The offsets of one owner, and every record that speaks of them, in bytes."""

    owner: str
    offsets: tuple[Offset, ...] = ()
    records: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetExport:
    """The offsets of several owners. `failures` are the places that did not answer: an export with holes says so.

    `topics` are the ids of the topics that sinks and groups stand on: one made anew under the same name has another.
    """

    time: str
    source: Mapping[str, str]
    owners: tuple[OwnerExport, ...] = ()
    findings: tuple[OffsetFinding, ...] = ()
    failures: Mapping[str, SeamarkError] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many offsets there are."""
        return sum(len(found.offsets) for found in self.owners)


@dataclass(frozen=True, slots=True)
class ExportCheck:
    """What was found in the file of an export. `problems` are what is not as it was written."""

    file: str
    time: str
    source: Mapping[str, str]
    owners: int
    offsets: int
    records: int
    findings: int = 0
    failures: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


class Difference(StrEnum):
    """How an offset differs between two readings."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class OffsetDifference:
    """One partition that is not the same in two readings."""

    owner: str
    partition: OffsetMap
    difference: Difference
    before: OffsetMap | None
    after: OffsetMap | None


@dataclass(frozen=True, slots=True)
class OffsetComparison:
    """Two readings side by side."""

    before: str
    after: str
    differences: tuple[OffsetDifference, ...] = ()
    equal: int = 0
    failures: Mapping[str, SeamarkError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One write of an offset, as it still lies in the topic. `offset` is None where it was taken away."""

    connector: str
    partition: OffsetMap | None
    offset: OffsetMap | None
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Orphan:
    """Offsets whose connector is gone. `written_ms` is the time of the newest; None where the store keeps no times."""

    owner: str
    store: str
    offsets: tuple[Offset, ...]
    written_ms: int | None = None
