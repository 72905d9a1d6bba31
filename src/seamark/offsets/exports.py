"""Exports of the offsets of many owners, comparisons of two readings, observations of past offsets, and source lag."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from seamark.core.offsets import Certainty, Counted, Offset, OffsetMap, spell_offset
from seamark.errors import SeamarkError
from seamark.offsets.model import OffsetFinding, StoredRecord


@dataclass(frozen=True, slots=True)
class OwnerExport:
    """The offsets of one owner, and the raw bytes of every record for them."""

    owner: str
    offsets: tuple[Offset, ...] = ()
    records: tuple[StoredRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetExport:
    """The offsets of several owners. `failures` lists the stores that could not be read, so a partial export is marked.

    `topics` are the IDs of the topics that sinks and groups consume: a recreated topic has another ID.
    """

    time: str
    source: Mapping[str, str]
    owners: tuple[OwnerExport, ...] = ()
    findings: tuple[OffsetFinding, ...] = ()
    failures: Mapping[str, SeamarkError] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Return the number of offsets."""
        return sum(len(found.offsets) for found in self.owners)


@dataclass(frozen=True, slots=True)
class ExportCheck:
    """The result of checking an export file. `problems` lists what differs from how the file was written."""

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
    """One partition whose offset differs between two readings."""

    owner: str
    partition: OffsetMap
    difference: DifferenceKind
    before: OffsetMap | None
    after: OffsetMap | None


@dataclass(frozen=True, slots=True)
class OffsetComparison:
    """The differences between two readings."""

    before: str
    after: str
    differences: tuple[OffsetDifference, ...] = ()
    equal: int = 0
    failures: Mapping[str, SeamarkError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One write of an offset that is still in the topic. `offset` is None if the write deleted the offset."""

    connector: str
    partition: OffsetMap | None
    offset: OffsetMap | None
    evidence: StoredRecord


@dataclass(frozen=True, slots=True)
class Orphan:
    """Offsets whose connector no longer exists. `written_ms` is the newest time; None if the store has no times."""

    owner: str
    store: str
    offsets: tuple[Offset, ...]
    written_ms: int | None = None


class Precision(StrEnum):
    """How precise an offset found for a point in time is.

    `AT_LEAST`: the owner was at this offset or beyond it, so the records in between are reprocessed. `AT_MOST`: the
    owner was at this offset or before it, so older records that it had not yet read are skipped.
    """

    EXACT = "exact"
    AT_LEAST = "at least"
    AT_MOST = "at most"


@dataclass(frozen=True, slots=True)
class Observation:
    """The offset of one partition of an owner, observed without a change from `at_ms` to `until_ms`.

    `where` describes the source of the observation for display. If `may_be_older` is set, the offset was read at some
    time before `at_ms`, so it says nothing about the time after that.
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
    """Return the offset of one partition at a point in time; None without an observation at that time or before.

    Later observations alone are not used: the owner may have progressed since, and resuming there would skip records.
    """
    # Among observations of the same time the last one reported wins, because it is the result of the earlier ones.
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
    # Offsets only advance or are moved explicitly: equal offsets before and after mean the same offset in between.
    stood_still = following is not None and spell_offset(following.offset) == spell_offset(last.offset)
    return _build(last, Precision.EXACT if stood_still else Precision.AT_LEAST)


def find_first(observations: Sequence[Observation]) -> Observation | None:
    """Return the oldest observation, which an error reports where none is old enough."""
    return min(observations, key=lambda one: one.at_ms, default=None)


def _build(found: Observation, precision: Precision) -> PastOffset:
    return PastOffset(found.partition, found.offset, precision, found.where, found.at_ms)


# From the most to the least certain: a sum is only as certain as its least certain part.
_WORTH = (Certainty.EXACT, Certainty.BOUND, Certainty.ESTIMATE, Certainty.UNKNOWN)


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """What a source has not yet read of one partition, in the unit of its connector family."""

    partition: str
    counted: Counted


@dataclass(frozen=True, slots=True)
class SourceLag:
    """The lag of one source connector, by partition. `state` is Connect's state, "" if it has none."""

    owner: str
    state: str = ""
    partitions: tuple[PartitionLag, ...] = ()

    @property
    def known(self) -> tuple[PartitionLag, ...]:
        """Return the partitions whose lag could be counted."""
        return tuple(found for found in self.partitions if found.counted.figure is not None)

    @property
    def total(self) -> int | None:
        """Return the sum of all counted lags; None if none could be counted."""
        known = [found.counted.figure for found in self.known if found.counted.figure is not None]
        return sum(known) if known else None

    @property
    def unit(self) -> str:
        """Return the unit of the lag: one source reads one kind of item."""
        return next((found.counted.unit.value for found in (*self.known, *self.partitions)), "")

    @property
    def certainty(self) -> Certainty:
        """Return how certain the total is; a part that could not be counted makes it a lower bound."""
        if not self.known:
            return Certainty.UNKNOWN
        return max((found.counted.certainty for found in self.known), key=_WORTH.index)

    @property
    def worst(self) -> PartitionLag | None:
        """Return the partition with the largest lag."""
        return max(self.known, key=lambda found: found.counted.figure or 0, default=None)

    @property
    def reason(self) -> str:
        """Return why part of the lag could not be counted, or not exactly; "" if all of it was."""
        reasons = dict.fromkeys(found.counted.reason for found in self.partitions if found.counted.reason)
        return "; ".join(reasons)
