"""Offsets of many owners at one time: what an export holds, and how two of them differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from seamark.core.offsets import Certainty, Counted, Offset, OffsetMap, spell_offset
from seamark.errors import SeamarkError
from seamark.offsets.model import OffsetFinding, StoredRecord


@dataclass(frozen=True, slots=True)
class OwnerExport:
    """The offsets of one owner, and every record that speaks of them, in bytes."""

    owner: str
    offsets: tuple[Offset, ...] = ()
    records: tuple[StoredRecord, ...] = ()


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


class DifferenceKind(StrEnum):
    """How an offset differs between two readings."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class OffsetDifference:
    """One partition that is not the same in two readings."""

    owner: str
    partition: OffsetMap
    difference: DifferenceKind
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
    evidence: StoredRecord


@dataclass(frozen=True, slots=True)
class Orphan:
    """Offsets whose connector is gone. `written_ms` is the time of the newest; None where the store keeps no times."""

    owner: str
    store: str
    offsets: tuple[Offset, ...]
    written_ms: int | None = None


class Precision(StrEnum):
    """How precise an offset found for a point in time is.

    `AT_LEAST`: it stood there or further on, so that what it read between is read again. `AT_MOST`: it stood there or
    before, so that what it had not read yet of older records is not read again.
    """

    EXACT = "exact"
    AT_LEAST = "at least"
    AT_MOST = "at most"


@dataclass(frozen=True, slots=True)
class Observation:
    """One partition of an owner, seen at a position: held from `at_ms` to `until_ms` without a break.

    `where` says who saw it, for people. One that `may_be_older` was read at some time before `at_ms`: it tells nothing
    of what came after a moment.
    """

    partition: OffsetMap
    offset: OffsetMap | None
    at_ms: int
    until_ms: int
    where: str
    may_be_older: bool = False


@dataclass(frozen=True, slots=True)
class PastOffset:
    """The offset of a partition at a point in time, with its precision and its source.

    `seen_ms` is the time of the observation that the offset comes from.
    """

    partition: OffsetMap
    offset: OffsetMap | None
    precision: Precision
    where: str
    seen_ms: int


def find_past_offset(observations: Iterable[Observation], moment_ms: int) -> PastOffset | None:
    """Where one partition stood. None where nobody has seen it at that moment or before.

    What was seen only later is no answer: it may have read on since, and going on from there would skip that.
    """
    # Of one time the one that was told last counts: it is what became of the other.
    known = sorted(observations, key=lambda one: one.until_ms)
    covering = [one for one in known if one.at_ms <= moment_ms <= one.until_ms and not one.may_be_older]
    if covering:
        return _build(covering[-1], Precision.EXACT)
    before = [one for one in known if one.until_ms <= moment_ms]
    if not before:
        return None
    last = before[-1]
    after = [one for one in known if one.at_ms >= moment_ms and not one.may_be_older]
    following = min(after, key=lambda one: one.at_ms, default=None)
    # An owner goes ahead, or is moved: where it stands before and after, it stood in between.
    stood_still = following is not None and spell_offset(following.offset) == spell_offset(last.offset)
    return _build(last, Precision.EXACT if stood_still else Precision.AT_LEAST)


def find_first(observations: Sequence[Observation]) -> Observation | None:
    """Return the oldest observation, which an error reports where none is old enough."""
    return min(observations, key=lambda one: one.at_ms, default=None)


def _build(found: Observation, precision: Precision) -> PastOffset:
    return PastOffset(found.partition, found.offset, precision, found.where, found.at_ms)


# From the surest to the least sure: a sum is worth as much as the worst of its parts.
_WORTH = (Certainty.EXACT, Certainty.BOUND, Certainty.ESTIMATE, Certainty.UNKNOWN)


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """What a source has not read yet of one partition, which is told in the words of its family."""

    partition: str
    counted: Counted


@dataclass(frozen=True, slots=True)
class SourceLag:
    """How far one source is behind, by partition. `state` is Connect's word, "" where it has none."""

    owner: str
    state: str = ""
    partitions: tuple[PartitionLag, ...] = ()

    @property
    def known(self) -> tuple[PartitionLag, ...]:
        """The partitions that could be counted."""
        return tuple(found for found in self.partitions if found.counted.figure is not None)

    @property
    def total(self) -> int | None:
        """All that could be counted; None where nothing could."""
        known = [found.counted.figure for found in self.known if found.counted.figure is not None]
        return sum(known) if known else None

    @property
    def unit(self) -> str:
        """What was counted: a source reads of one kind of thing."""
        return next((found.counted.unit.value for found in (*self.known, *self.partitions)), "")

    @property
    def certainty(self) -> Certainty:
        """What the total is worth; a part that could not be counted makes it a lower bound, which nobody may trust."""
        if not self.known:
            return Certainty.UNKNOWN
        return max((found.counted.certainty for found in self.known), key=_WORTH.index)

    @property
    def worst(self) -> PartitionLag | None:
        """The partition that is behind most."""
        return max(self.known, key=lambda found: found.counted.figure or 0, default=None)

    @property
    def reason(self) -> str:
        """Why some of it could not be counted, or not exactly; "" where all was."""
        reasons = dict.fromkeys(found.counted.reason for found in self.partitions if found.counted.reason)
        return "; ".join(reasons)
