"""Classify records that have no equal on the other side, by the parts that they have in common with others.

Records that are equal on both sides were paired before, by hash. Few remain, unless everything is broken: then only as
many are classified as a person would read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from seamark.copies.verify.report import Coordinates, CopyFinding, Kind


@dataclass(frozen=True, slots=True)
class Parts:
    """The hashes of the parts of a record, and its timestamp in microseconds."""

    key: int | None
    value: int | None
    headers: int | None
    timestamp: int | None

    def leave_one_out(self) -> tuple[Parts, ...]:
        """Return everything but the key, everything but the value, and so on."""
        names = ("key", "value", "headers", "timestamp")
        return tuple(replace(self, **{name: None}) for name in names)

    def list_differing(self, other: Parts) -> tuple[str, ...]:
        """Return the names of the parts in which two records differ."""
        names = ("key", "value", "headers", "timestamp")
        return tuple(name for name in names if getattr(self, name) != getattr(other, name))


@dataclass(frozen=True, slots=True)
class UnmatchedRecord:
    """A record of the source without an equal in the target. `at` is its expected offset, None if unknown."""

    source: Coordinates
    target: int
    at: int | None
    hash: int
    parts: Parts


@dataclass(frozen=True, slots=True)
class ExtraRecord:
    """A record of the target without an equal in the source."""

    target: Coordinates
    hash: int
    parts: Parts


@dataclass(frozen=True, slots=True)
class MatchOutcome:
    """The classified records, and the rest of the target's records, which may be duplicates."""

    findings: tuple[CopyFinding, ...]
    left: tuple[ExtraRecord, ...]


def tell_apart(wanted: Sequence[UnmatchedRecord], lying: Sequence[ExtraRecord]) -> MatchOutcome:
    """Classify every record without an equal. `tell_rest` classifies those that are `left`."""
    findings: list[CopyFinding] = []
    free = _Free(lying)
    rest = list(wanted)
    for find in (free.find_elsewhere, free.find_in_place, free.find_alike):
        again: list[UnmatchedRecord] = []
        for one in rest:
            found = find(one)
            if found is None:
                again.append(one)
            else:
                free.take(found)
                findings.append(_build_pair(one, found))
        rest = again
    findings += (_build_lost(one) for one in rest)
    return MatchOutcome(tuple(findings), free.left)


def tell_rest(
    left: Iterable[ExtraRecord], known: Mapping[int, Coordinates], *, covered: Mapping[int, int]
) -> Iterator[CopyFinding]:
    """Classify extra records of the target: duplicates if the source has the same hash, else foreign records.

    If control records don't cover the source to its end, the control record of a task may have been lost.
    """
    for one in left:
        origin = known.get(one.hash)
        if origin is None:
            yield CopyFinding(Kind.FOREIGN, target=one.target, words="it is not in the source")
        elif origin.offset >= covered.get(origin.partition, 0):
            words = "it is in the source, but in no control record"
            yield CopyFinding(Kind.FOREIGN, source=origin, target=one.target, words=words)
        else:
            yield CopyFinding(
                Kind.DUPLICATED, source=origin, target=one.target, words="it is in the target more than once"
            )


class _Free:
    """The unpaired records of the target, indexed for the lookups below."""

    def __init__(self, lying: Sequence[ExtraRecord]) -> None:
        self._by_place = {one.target: one for one in lying}
        self._by_hash: dict[int, list[ExtraRecord]] = defaultdict(list)
        self._alike: dict[tuple[int, Parts], list[ExtraRecord]] = defaultdict(list)
        for one in lying:
            self._by_hash[one.hash].append(one)
            for traits in one.parts.leave_one_out():
                self._alike[one.target.partition, traits].append(one)

    @property
    def left(self) -> tuple[ExtraRecord, ...]:
        return tuple(self._by_place.values())

    def take(self, one: ExtraRecord) -> None:
        del self._by_place[one.target]

    def find_elsewhere(self, one: UnmatchedRecord) -> ExtraRecord | None:
        """Find the same record in another partition."""
        return next((found for found in self._by_hash.get(one.hash, ()) if found.target in self._by_place), None)

    def find_in_place(self, one: UnmatchedRecord) -> ExtraRecord | None:
        """Find the record at the expected offset, if it has the same key or value."""
        found = None if one.at is None else self._by_place.get(Coordinates(one.target, one.at))
        if found is None or {"key", "value"} <= set(one.parts.list_differing(found.parts)):
            return None
        return found

    def find_alike(self, one: UnmatchedRecord) -> ExtraRecord | None:
        """Find the record that differs in one part, nearest to the expected offset, because both may have moved."""
        alike = (
            found
            for traits in one.parts.leave_one_out()
            for found in self._alike.get((one.target, traits), ())
            if found.target in self._by_place
        )
        return min(alike, key=lambda found: abs(found.target.offset - (one.at or 0)), default=None)


def _build_pair(one: UnmatchedRecord, found: ExtraRecord) -> CopyFinding:
    differing = one.parts.list_differing(found.parts)
    if not differing:
        at = f"{one.target}@{one.at}" if one.at is not None else f"partition {one.target}"
        return CopyFinding(Kind.WRONG_PARTITION, one.source, found.target, words=f"it belongs to {at}")
    words = f"differs from the source: {', '.join(differing)}"
    return CopyFinding(_choose_kind(differing), one.source, found.target, words=words)


def _choose_kind(differing: Sequence[str]) -> Kind:
    if {"key", "value"} & set(differing):
        return Kind.CHANGED
    return Kind.CHANGED_HEADER if "headers" in differing else Kind.WRONG_TIMESTAMP


def _build_lost(one: UnmatchedRecord) -> CopyFinding:
    place = Coordinates(one.target, one.at) if one.at is not None else None
    words = "it is not in the target" if place else f"it is not in partition {one.target} of the target"
    return CopyFinding(Kind.LOST, one.source, place, words=words)


def index_hashes(found: Iterable[tuple[int, Coordinates]]) -> dict[int, Coordinates]:
    """Return the first record of the source with each hash."""
    held: dict[int, list[Coordinates]] = defaultdict(list)
    for hashed, where in found:
        held[hashed].append(where)
    return {hashed: min(places, key=lambda one: (one.partition, one.offset)) for hashed, places in held.items()}
