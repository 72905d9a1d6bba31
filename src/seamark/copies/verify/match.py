"""What became of records that have no equal on the other side, told from what they still have in common.

Records that are the same on both sides have been paired before, by hash. What is left is little, unless everything is
broken: then it is told of so many that a person would read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from seamark.copies.verify.report import Coordinates, CopyFinding, Kind


@dataclass(frozen=True, slots=True)
class Parts:
    """The hashes of what a record is made of, and its timestamp in microseconds."""

    key: int | None
    value: int | None
    headers: int | None
    timestamp: int | None

    def leave_one_out(self) -> tuple[Parts, ...]:
        """Everything but the key, everything but the value, and so on."""
        names = ("key", "value", "headers", "timestamp")
        return tuple(replace(self, **{name: None}) for name in names)

    def list_differing(self, other: Parts) -> tuple[str, ...]:
        """In what two records differ."""
        names = ("key", "value", "headers", "timestamp")
        return tuple(name for name in names if getattr(self, name) != getattr(other, name))


@dataclass(frozen=True, slots=True)
class UnmatchedRecord:
    """A record of the source without an equal in the target. `at` is where it belongs; None if nobody knows."""

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
    """What was told of both, and what is left: nobody's records, which may be others a second time."""

    findings: tuple[CopyFinding, ...]
    left: tuple[ExtraRecord, ...]


def tell_apart(wanted: Sequence[UnmatchedRecord], lying: Sequence[ExtraRecord]) -> MatchOutcome:
    """Say of every record without an equal what became of it. Those `left` are `tell_rest`'s to say."""
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
    """Of records that nothing in the source is missing for: doubled, if one there has the same hash; else foreign.

    Where the source is not covered by control records to its end, the record of a task may have been lost.
    """
    for one in left:
        origin = known.get(one.hash)
        if origin is None:
            yield CopyFinding(Kind.FOREIGN, target=one.target, words="the source has no such record")
        elif origin.offset >= covered.get(origin.partition, 0):
            words = "it is of the source, and no control record tells of it"
            yield CopyFinding(Kind.FOREIGN, source=origin, target=one.target, words=words)
        else:
            yield CopyFinding(Kind.DOUBLED, source=origin, target=one.target, words="it is in the target once more")


class _Free:
    """The records of the target that are not paired yet, by what they can be found by."""

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
        """The same record in another partition."""
        return next((found for found in self._by_hash.get(one.hash, ()) if found.target in self._by_place), None)

    def find_in_place(self, one: UnmatchedRecord) -> ExtraRecord | None:
        """What lies where it belongs, if it has key or value of it."""
        found = None if one.at is None else self._by_place.get(Coordinates(one.target, one.at))
        if found is None or {"key", "value"} <= set(one.parts.list_differing(found.parts)):
            return None
        return found

    def find_alike(self, one: UnmatchedRecord) -> ExtraRecord | None:
        """What differs in one thing only, nearest to where it belongs: something before it may have moved both."""
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
    words = f"other than in the source: {', '.join(differing)}"
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
    """The first record of the source with each hash."""
    held: dict[int, list[Coordinates]] = defaultdict(list)
    for hashed, where in found:
        held[hashed].append(where)
    return {hashed: min(places, key=lambda one: (one.partition, one.offset)) for hashed, places in held.items()}
