"""Where an owner stood at a moment, told by what was seen of it before and after."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from seamark.core.offset import OffsetMap, spell_offset


class Worth(StrEnum):
    """What a position found for a moment is worth.

    `AT_LEAST`: it stood there or further on, so that what it read between is read again. `AT_MOST`: it stood there or
    before, so that what it had not read yet of older records is not read again.
    """

    EXACT = "exact"
    AT_LEAST = "at least"
    AT_MOST = "at most"


@dataclass(frozen=True, slots=True)
class Sighting:
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
class Standing:
    """Where a partition stood at a moment, as far as anybody can tell: the position, its worth, and whose word it is.

    `seen_ms` is the time of the sighting that the position comes from.
    """

    partition: OffsetMap
    offset: OffsetMap | None
    worth: Worth
    where: str
    seen_ms: int


def find_standing(sightings: Iterable[Sighting], moment_ms: int) -> Standing | None:
    """Where one partition stood. None where nobody has seen it at that moment or before.

    What was seen only later is no answer: it may have read on since, and going on from there would skip that.
    """
    # Of one time the one that was told last counts: it is what became of the other.
    known = sorted(sightings, key=lambda one: one.until_ms)
    covering = [one for one in known if one.at_ms <= moment_ms <= one.until_ms and not one.may_be_older]
    if covering:
        return _build(covering[-1], Worth.EXACT)
    before = [one for one in known if one.until_ms <= moment_ms]
    if not before:
        return None
    last = before[-1]
    after = [one for one in known if one.at_ms >= moment_ms and not one.may_be_older]
    following = min(after, key=lambda one: one.at_ms, default=None)
    # An owner goes ahead, or is moved: where it stands before and after, it stood in between.
    stood_still = following is not None and spell_offset(following.offset) == spell_offset(last.offset)
    return _build(last, Worth.EXACT if stood_still else Worth.AT_LEAST)


def find_first(sightings: Sequence[Sighting]) -> Sighting | None:
    """The oldest sighting: what to tell where none is old enough."""
    return min(sightings, key=lambda one: one.at_ms, default=None)


def _build(found: Sighting, worth: Worth) -> Standing:
    return Standing(found.partition, found.offset, worth, found.where, found.at_ms)
