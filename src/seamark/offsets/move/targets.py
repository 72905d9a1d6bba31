"""Compute the target offsets of a move from what the user requested."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.core.offsets import Offset, OffsetMap, spell_identity
from seamark.core.refs import CONNECTOR, parse_owner
from seamark.errors import NotFoundError, SeamarkError, UnsupportedError, UsageError
from seamark.groups.targets import (
    CURRENT,
    OFFSET,
    PARTITION,
    TOPIC,
    Where,
    build_partition,
    parse_before_now,
    parse_length,
    parse_where,
    read_back,
    read_current,
    read_spots,
    read_targets,
    shift,
)
from seamark.kafka.groups import Committed
from seamark.kafka.model import TopicPartition
from seamark.offsets.model import CurrentOffset
from seamark.offsets.read.export import Side, read_saved
from seamark.offsets.read.export_file import parse_bare_export, read_json_file
from seamark.offsets.semantics import OffsetSemantics
from seamark.offsets.semantics.arithmetic import (
    MoveKind,
    Mover,
    find_fallback_partitions,
    find_mover,
    is_named,
    pick_partitions,
)
from seamark.offsets.semantics.fields import parse_map
from seamark.offsets.semantics.sinks import find_spot, is_chosen, parse_spots, read_number
from seamark.offsets.write.plans import clamp_offsets
from seamark.report.words import parse_number

if TYPE_CHECKING:
    from seamark.kafka.api import BrokersPort


_ALWAYS = ("--to JSON", "--to earliest", "--to current", "--from-file FILE")


class NamedOffset(StrEnum):
    """Targets of a source that have a name. `latest` is not one: seamark can't know where a source's data ends."""

    EARLIEST = "earliest"
    CURRENT = "current"


Place = NamedOffset | int | datetime | OffsetMap
"""A value of `--to` for a source."""


@dataclass(frozen=True, slots=True)
class Move:
    """The requested target of an owner: exactly one of these fields is set."""

    to: str | int | datetime | OffsetMap | None = None
    back: float | str | timedelta | None = None
    shift: int | None = None
    source: Path | str | None = None

    def __post_init__(self) -> None:
        if sum(getattr(self, found.name) is not None for found in fields(self)) != 1:
            raise UsageError("pass exactly one of --to, --back, --shift, --from-file, --from-group")

    @property
    def words(self) -> str:
        """Return the move as text for the title of a plan."""
        if self.to is not None:
            return f"to {json.dumps(self.to) if isinstance(self.to, Mapping) else self.to}"
        if self.back is not None:
            return f"back by {self.back}"
        if self.shift is not None:
            return f"by {self.shift:+d}"
        return f"to the offsets of {self.source}"


def parse_place(value: str | int | datetime | OffsetMap, *, now: float) -> Place:
    """Parse `earliest`, `current`, a JSON map, a number, a time in ISO 8601, or `-1h` for one hour before now.

    A time without a zone is UTC. A number may have commas between its digits.
    """
    if isinstance(value, Mapping | int):
        return value
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    text = value.strip()
    if text in (NamedOffset.EARLIEST, NamedOffset.CURRENT):
        return NamedOffset(text)
    if text.startswith("{"):
        return parse_map(text)
    if not text.startswith("+"):
        with suppress(ValueError):
            return parse_number(text)
    return parse_before_now(text, now=now) or parse_time(text)


def parse_time(value: str | datetime) -> datetime:
    """Parse a point in time; without a zone it is UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            expected = 'earliest, current, a number, a time such as 2026-11-14T12:00:00Z, -1h, or {"position": 120}'
            raise UsageError(f"invalid value {value!r}: expected {expected}") from None
    return value if value.tzinfo else value.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class OwnerFile:
    """The offsets of one owner in a file, and the IDs of their topics; None if the file format has no IDs."""

    offsets: tuple[Offset, ...]
    topics: Mapping[str, str] | None = None


def read_owner_file(path: Path, *, owner: str) -> OwnerFile:
    """Read the offsets of one connector from a file: an export, the bare JSON of `connect-offsets`, or that of REST."""
    body = read_json_file(path)
    if isinstance(body, dict) and set(body) == {"offsets"}:
        return OwnerFile(parse_bare_export({owner: body["offsets"]}, name=str(path))[0].offsets)
    side, topics = read_saved(path)
    bare = parse_owner(owner).name
    for name in (owner, bare, *_find_elsewhere(side, bare)):
        if name in side:
            return OwnerFile(side[name], topics)
    raise NotFoundError(
        f"{path} does not contain {owner}",
        cause=f"it contains {', '.join(sorted(side)[:5]) or 'no owners'}",
        hint="use seamark offsets copy to copy offsets from another owner",
    )


def _find_elsewhere(side: Side, name: str) -> list[str]:
    """Return the owner of that name in another Connect cluster, as for a moved connector; none if there are several."""
    found = [
        owner for owner in side if (ref := parse_owner(owner)).kind == CONNECTOR and ref.cluster and ref.name == name
    ]
    return found if len(found) == 1 else []


def find_named(side: Side, owner: str, *, path: Path) -> str:
    """Return the owner in a file by its full name, or by the bare name of a connector."""
    if owner in side:
        return owner
    found = sorted(
        one for one in side if (ref := parse_owner(one)).kind == CONNECTOR and ref.cluster and ref.name == owner
    )
    if len(found) > 1:
        raise UsageError(f"{path} contains {owner} in several Connect clusters", hint=f"pass one of {', '.join(found)}")
    if not found:
        raise NotFoundError(f"{path} does not contain {owner}", cause=f"it contains {', '.join(sorted(side)[:10])}")
    return found[0]


class SourceTargets:
    """Computes the target offsets of one source."""

    def __init__(self, owner: str, *, meaning: OffsetSemantics, held: Sequence[CurrentOffset], now: float) -> None:
        self._owner = owner
        self._now = now
        self._meaning = meaning
        self._held = tuple(found for found in held if found.offset is not None or found.ambiguity)
        self._mover: Mover = find_mover(meaning)

    def forget(self, names: Sequence[str]) -> tuple[Offset, ...]:
        """Return the partitions, and those the task would use in their place, each without an offset."""
        held = [found.partition for found in self._held]
        if not held and not names:
            # Without a stored offset there is nothing to delete. That is not an error, as in Connect.
            return ()
        gone: dict[str, OffsetMap] = {}
        for one in self._pick(names):
            gone |= {
                spell_identity(other): other for other in (one, *find_fallback_partitions(self._meaning, one, held))
            }
        return tuple(Offset(one, None) for one in gone.values())

    def move(self, move: Move, names: Sequence[str]) -> tuple[Offset, ...]:
        """Return the offsets of one move."""
        if isinstance(move.source, Path):
            return self._take(read_owner_file(move.source, owner=self._owner).offsets, names, what=str(move.source))
        place = None if move.to is None else parse_place(move.to, now=self._now)
        if place is NamedOffset.EARLIEST:
            return self.forget(names)
        if place is NamedOffset.CURRENT:
            return tuple(Offset(found.partition, found.offset) for found in self._find_live(names))
        if isinstance(place, Mapping):
            return (Offset(self._require_one(self._pick(names, new=True)), place),)
        live = self._find_live(names)
        if isinstance(place, int):
            self._require(MoveKind.NUMBER)
            self._require_one([found.partition for found in live])
        return tuple(self._compute(found, move, place) for found in live)

    def _compute(self, held: CurrentOffset, move: Move, place: Place | None) -> Offset:
        """Compute an offset from a number or a time."""
        try:
            if isinstance(place, int):
                return Offset(held.partition, self._mover.to_number(place))
            if isinstance(place, datetime):
                self._require(MoveKind.TIME)
                nanos = round(place.timestamp() * 1_000_000) * 1000
                return Offset(held.partition, self._mover.to_time(nanos, held.offset))
            if move.shift is not None:
                self._require(MoveKind.SHIFT)
                return Offset(held.partition, self._mover.shift(held.offset or {}, move.shift))
            self._require(MoveKind.BACK)
            seconds = parse_length(move.back if move.back is not None else "")
            return Offset(held.partition, self._mover.back(held.offset or {}, seconds))
        except ValueError as error:
            where = self._meaning.describe(held.partition, None)[0]
            raise UnsupportedError(f"can't move {self._owner}: {where}: {error}", hint=self._say_ways()) from None

    def _pick(self, names: Sequence[str], *, new: bool = False) -> tuple[OffsetMap, ...]:
        held = [found.partition for found in self._held]
        return pick_partitions(self._owner, names, meaning=self._meaning, held=held, new=new)

    def _find_live(self, names: Sequence[str]) -> tuple[CurrentOffset, ...]:
        """Return the chosen partitions except those that the task ignores because another takes precedence."""
        picked = {spell_identity(one) for one in self._pick(names)}
        held = [found.partition for found in self._held]
        silent = {spell_identity(other) for one in held for other in find_fallback_partitions(self._meaning, one, held)}
        return tuple(found for found in self._held if spell_identity(found.partition) in picked - silent)

    def _take(self, offsets: Sequence[Offset], names: Sequence[str], *, what: str) -> tuple[Offset, ...]:
        found = tuple(
            one for one in offsets if not names or any(is_named(self._meaning, one.partition, name) for name in names)
        )
        if not found:
            raise NotFoundError(f"{what} has no offsets for the chosen partitions of {self._owner}")
        return found

    def _require_one(self, found: Sequence[OffsetMap]) -> OffsetMap:
        if len(found) != 1:
            known = ", ".join(self._meaning.describe(one, None)[0] for one in found[:5])
            raise UsageError(
                f"{self._owner} has {len(found)} partitions, and one offset can't apply to all of them",
                cause=f"it has {known}",
                hint="pass one with --partition",
            )
        return found[0]

    def _require(self, way: MoveKind) -> None:
        if way not in self._mover.ways:
            raise UnsupportedError(
                f"{self._owner} can't be moved with {way}", cause=self._mover.why, hint=self._say_ways()
            )

    def _say_ways(self) -> str:
        ways = [way.value for way in MoveKind if way in self._mover.ways]
        return f"use {', '.join((*ways, *_ALWAYS))}"


_BLIND = "can't check whether the offset is within the log; outside of it, auto.offset.reset applies"


class SinkTargets:
    """Computes the target offsets of one sink. `notes` are shown with the plan."""

    def __init__(self, owner: str, *, held: Sequence[CurrentOffset], kafka: BrokersPort | None, now: float) -> None:
        """Create the targets. Without `kafka` the ends of the log are unknown, so numbers are used as they are."""
        self._owner = owner
        self._brokers = kafka
        self._now = now
        self._committed = {
            spot: Committed(number)
            for found in held
            if (spot := find_spot(found.partition)) and (number := read_number(found.offset, OFFSET)) is not None
        }
        self.notes: list[str] = []
        # The topic IDs in the file that a move comes from.
        self.topics: Mapping[str, str] | None = None

    def forget(self, names: Sequence[str]) -> tuple[Offset, ...]:
        """Return these partitions (by default all committed ones) without offsets. None committed is valid."""
        if not self._committed and not names:
            return ()
        spots = [spot for spot in self._pick(names) if spot in self._committed]
        return tuple(Offset(build_partition(spot), None) for spot in spots)

    def move(self, move: Move, names: Sequence[str]) -> tuple[Offset, ...]:
        """Return the offsets of one move, limited to the range of the log."""
        if isinstance(move.source, Path):
            saved = read_owner_file(move.source, owner=self._owner)
            self.topics = saved.topics
            return self.clamp(self._take(saved.offsets, names))
        if self._brokers is None:
            return self._move_blindly(move, names)
        spots = self._pick(names)
        if move.shift is not None:
            targets = shift(self._kafka, spots, self._committed, move.shift)
        elif move.to == CURRENT:
            targets = read_current(self._kafka, spots, self._committed)
        elif move.back is not None:
            seconds = parse_length(move.back)
            targets = read_back(self._kafka, spots, self._committed, seconds=seconds, now=self._now)
        else:
            targets = read_targets(self._kafka, spots, self._find_where(move))
        return tuple(Offset(build_partition(spot), {OFFSET: targets[spot]}) for spot in sorted(targets))

    def clamp(self, offsets: Sequence[Offset]) -> tuple[Offset, ...]:
        """Limit offsets to the range of the log. Raises for a partition that no sink could consume."""
        if odd := [dict(found.partition) for found in offsets if find_spot(found.partition) is None]:
            raise UsageError(
                f"invalid partition of a sink: {odd[0]}; no changes were made",
                hint=f'write {{"{TOPIC}": "orders", "{PARTITION}": 0}}',
            )
        if self._brokers is None:
            self.notes.append(_BLIND)
            return tuple(offsets)
        clamped, notes = clamp_offsets(self._kafka, offsets)
        self.notes += notes
        return clamped

    @property
    def _kafka(self) -> BrokersPort:
        if self._brokers is None:
            raise self._build_brokerless()
        return self._brokers

    def _build_brokerless(self) -> SeamarkError:
        return UnsupportedError(
            f"can't move {self._owner}: the context has no kafka.bootstrap.servers",
            cause="the log's offsets and the times of its records are read from the brokers",
            hint="use --to OFFSET, --shift N or --from-file FILE, or add the brokers to the context",
        )

    def _move_blindly(self, move: Move, names: Sequence[str]) -> tuple[Offset, ...]:
        """Move by numbers only, on committed partitions: everything that needs no broker."""
        where = 0 if move.to is None or move.to == CURRENT else self._find_where(move)
        if not isinstance(where, int) or move.back is not None:
            raise self._build_brokerless()
        spots = self._pick(names)
        self.notes.append(_BLIND)
        moved = {
            spot: max(0, self._committed[spot].offset + (move.shift or 0))
            if move.shift is not None or move.to == CURRENT
            else where
            for spot in spots
        }
        return tuple(Offset(build_partition(spot), {OFFSET: at}) for spot, at in moved.items())

    def _find_where(self, move: Move) -> Where:
        place = parse_map(move.to) if isinstance(move.to, str) and move.to.startswith("{") else move.to
        if isinstance(place, Mapping):
            number = read_number(place, OFFSET)
            if number is None:
                raise UsageError(f"invalid offset of a sink: {dict(place)}", hint=f'write {{"{OFFSET}": N}}')
            return number
        return parse_where(place if place is not None else "", now=self._now)

    def _pick(self, names: Sequence[str]) -> tuple[TopicPartition, ...]:
        chosen = [parse_spots(name) for name in names]
        if self._brokers is None:
            spots = tuple(
                spot for spot in sorted(self._committed) if not chosen or is_chosen(build_partition(spot), chosen)
            )
        else:
            spots = read_spots(self._brokers, chosen, self._committed)
        if not spots:
            raise NotFoundError(
                f"{self._owner} has no committed offsets", hint="pass --topic TOPIC or --topic TOPIC:0,1"
            )
        return spots

    def _take(self, offsets: Sequence[Offset], names: Sequence[str]) -> tuple[Offset, ...]:
        chosen = [parse_spots(name) for name in names]
        found = tuple(one for one in offsets if not chosen or is_chosen(one.partition, chosen))
        if not found:
            raise NotFoundError(f"the file has no offsets for the chosen topics of {self._owner}")
        return found
