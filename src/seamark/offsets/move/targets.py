"""Where an owner shall stand: what somebody said, and the offsets that it comes to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.core.offsets import Offset, OffsetMap, spell_identity
from seamark.core.refs import CONNECTOR, parse_owner
from seamark.core.time import parse_duration
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UnsupportedError, UsageError
from seamark.groups.targets import (
    OFFSET,
    PARTITION,
    TOPIC,
    Chosen,
    Where,
    build_partition,
    parse_topic,
    parse_where,
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
from seamark.offsets.semantics.arithmetic import MoveKind, Mover, find_fallback_partitions, find_mover
from seamark.offsets.semantics.sinks import find_spot, read_number

if TYPE_CHECKING:
    from seamark.kafka.api import BrokerPort, BrokersPort


_ALWAYS = ("--to JSON", "--to beginning", "--as-of TIME", "--from FILE")


class NamedOffset(StrEnum):
    """Places that have a name. The edges of a log are for sinks alone."""

    BEGINNING = "beginning"


Place = NamedOffset | int | datetime | OffsetMap
"""What `--to` says, for a source."""


@dataclass(frozen=True, slots=True)
class Move:
    """Where an owner shall stand, as somebody said it: in exactly one of these ways."""

    to: str | int | datetime | OffsetMap | None = None
    back: float | str | timedelta | None = None
    as_of: str | datetime | None = None
    shift: int | None = None
    source: Path | None = None

    def __post_init__(self) -> None:
        if sum(getattr(self, found.name) is not None for found in fields(self)) != 1:
            raise UsageError(
                "say in one way where it shall stand", hint="one of --to, --back, --as-of, --shift and --from"
            )

    @property
    def words(self) -> str:
        """The move for the title of a plan."""
        if self.to is not None:
            return f"to {json.dumps(self.to) if isinstance(self.to, Mapping) else self.to}"
        if self.back is not None:
            return f"back by {self.back}"
        if self.shift is not None:
            return f"by {self.shift:+d}"
        return f"to where it stood at {self.as_of}" if self.as_of is not None else f"to what {self.source} says"


def parse_place(value: str | int | datetime | OffsetMap) -> Place:
    """`beginning`, a JSON map, a number, or a time in ISO 8601; without a zone it is UTC."""
    if isinstance(value, Mapping | int):
        return value
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    text = value.strip()
    if text == NamedOffset.BEGINNING:
        return NamedOffset.BEGINNING
    if text.startswith("{"):
        return parse_map(text)
    if text.removeprefix("-").isascii() and text.removeprefix("-").isdecimal():
        return int(text)
    return parse_time(text)


def parse_map(text: str) -> OffsetMap:
    """A partition or an offset as JSON."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UsageError(f"{text} is no JSON map", hint='such as {"position": 120}, in single quotes for the shell')
    return found


def parse_time(value: str | datetime) -> datetime:
    """A moment; without a zone it is UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            hint = 'beginning, a number, a time as 2026-11-14T12:00:00Z, or a map as {"position": 120}'
            raise UsageError(f"{value!r} is no place", hint=hint) from None
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def parse_length(back: float | str | timedelta) -> float:
    """Seconds of a length of time."""
    if isinstance(back, timedelta):
        return back.total_seconds()
    try:
        return parse_duration(back) if isinstance(back, str) else float(back)
    except ValueError:
        raise UsageError(f"{back!r} is not a length of time", hint="such as 90s, 1h or 2d") from None


@dataclass(frozen=True, slots=True)
class OwnerFile:
    """What a file says of one owner, and the ids of its topics; None for a file that never has them."""

    offsets: tuple[Offset, ...]
    topics: Mapping[str, str] | None = None


def read_owner_file(path: Path, *, owner: str) -> OwnerFile:
    """What a file says of one connector: an export, the bare JSON of `connect-offsets`, or REST's."""
    body = read_json_file(path)
    if isinstance(body, dict) and set(body) == {"offsets"}:
        return OwnerFile(parse_bare_export({owner: body["offsets"]}, name=str(path))[0].offsets)
    side, topics = read_saved(path)
    bare = parse_owner(owner).name
    for name in (owner, bare, *_find_elsewhere(side, bare)):
        if name in side:
            return OwnerFile(side[name], topics)
    raise NotFoundError(
        f"{path} says nothing of {owner}",
        cause=f"it has {', '.join(sorted(side)[:5]) or 'nobody'}",
        hint="seamark offsets copy gives one owner what another has",
    )


def _find_elsewhere(side: Side, name: str) -> list[str]:
    """The owner of that name in another Connect cluster, as a connector that moved has it; of several nobody."""
    found = [
        owner for owner in side if (ref := parse_owner(owner)).kind == CONNECTOR and ref.cluster and ref.name == name
    ]
    return found if len(found) == 1 else []


def find_named(side: Side, owner: str, *, path: Path) -> str:
    """The owner in a file that somebody names: as it stands there, or by the bare name of a connector."""
    if owner in side:
        return owner
    found = sorted(
        one for one in side if (ref := parse_owner(one)).kind == CONNECTOR and ref.cluster and ref.name == owner
    )
    if len(found) > 1:
        raise UsageError(f"{path} has {owner} in several clusters", hint=f"say which: {', '.join(found)}")
    if not found:
        raise NotFoundError(f"{path} says nothing of {owner}", cause=f"it has {', '.join(sorted(side)[:10])}")
    return found[0]


class SourceTargets:
    """The offsets that a move of one source comes to."""

    def __init__(self, owner: str, *, meaning: OffsetSemantics, held: Sequence[CurrentOffset]) -> None:
        self._owner = owner
        self._meaning = meaning
        self._held = tuple(found for found in held if found.offset is not None or found.ambiguity)
        self._mover: Mover = find_mover(meaning)

    def pick(self, names: Sequence[str], *, new: bool = False) -> tuple[OffsetMap, ...]:
        """The partitions that were meant; all of them without names. With `new` a whole map may name one of its own."""
        held = [found.partition for found in self._held]
        if not names:
            if held:
                return tuple(held)
            raise NotFoundError(
                f"{self._owner} holds no offsets",
                hint="""give it one: --partition '{…}' --to '{…}', as its documentation spells them""",
            )
        picked: dict[str, OffsetMap] = {}
        for name in names:
            found = [one for one in held if self._matches(one, name)]
            if not found and new and name.startswith("{"):
                found = [parse_map(name)]
            if not found:
                known = ", ".join(self._meaning.describe(one, None)[0] for one in held[:5])
                raise NotFoundError(f"{self._owner} has no partition {name}", cause=f"it has {known or 'none'}")
            picked |= {spell_identity(one): one for one in found}
        return tuple(picked.values())

    def forget(self, names: Sequence[str]) -> tuple[Offset, ...]:
        """Nothing for these partitions, nor for those that would speak in their place."""
        held = [found.partition for found in self._held]
        if not held and not names:
            # It is so already, which is no error: as Connect sees it too.
            return ()
        gone: dict[str, OffsetMap] = {}
        for one in self.pick(names):
            gone |= {
                spell_identity(other): other for other in (one, *find_fallback_partitions(self._meaning, one, held))
            }
        return tuple(Offset(one, None) for one in gone.values())

    def move(self, move: Move, names: Sequence[str]) -> tuple[Offset, ...]:
        """The offsets of one move. `as_of` is not decided here: see `fleet/moment`."""
        if move.source is not None:
            return self._take(read_owner_file(move.source, owner=self._owner).offsets, names, what=str(move.source))
        place = None if move.to is None else parse_place(move.to)
        if place is NamedOffset.BEGINNING:
            return self.forget(names)
        if isinstance(place, Mapping):
            return (Offset(self._require_one(self.pick(names, new=True)), place),)
        live = self._find_live(names)
        if isinstance(place, int):
            self._require(MoveKind.NUMBER)
            self._require_one([found.partition for found in live])
        return tuple(self._compute(found, move, place) for found in live)

    def _compute(self, held: CurrentOffset, move: Move, place: Place | None) -> Offset:
        """A position by number or time."""
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
            raise UnsupportedError(
                f"{self._owner} can't be moved so: {where}: {error}", hint=self._say_ways()
            ) from None

    def _find_live(self, names: Sequence[str]) -> tuple[CurrentOffset, ...]:
        """The chosen partitions without those that are not read while another speaks for them."""
        picked = {spell_identity(one) for one in self.pick(names)}
        held = [found.partition for found in self._held]
        silent = {spell_identity(other) for one in held for other in find_fallback_partitions(self._meaning, one, held)}
        return tuple(found for found in self._held if spell_identity(found.partition) in picked - silent)

    def _take(self, offsets: Sequence[Offset], names: Sequence[str], *, what: str) -> tuple[Offset, ...]:
        found = tuple(one for one in offsets if not names or any(self._matches(one.partition, name) for name in names))
        if not found:
            raise NotFoundError(f"{what} has no such offsets of {self._owner}")
        return found

    def _require_one(self, found: Sequence[OffsetMap]) -> OffsetMap:
        if len(found) != 1:
            known = ", ".join(self._meaning.describe(one, None)[0] for one in found[:5])
            raise UsageError(
                f"{self._owner} has {len(found)} partitions, and one place can't be that of all of them",
                cause=f"it has {known}",
                hint="say which: --partition",
            )
        return found[0]

    def _matches(self, partition: OffsetMap, name: str) -> bool:
        """Whether a name means a partition: some of its fields as JSON, one of its values, or what people call it."""
        if name.startswith("{"):
            wanted = parse_map(name)
            return all(key in partition and _is_equal(partition[key], value) for key, value in wanted.items())
        return name == self._meaning.describe(partition, None)[0] or name in map(str, partition.values())

    def _require(self, way: MoveKind) -> None:
        if way not in self._mover.ways:
            raise UnsupportedError(
                f"{self._owner} can't be moved by {way}", cause=self._mover.why, hint=self._say_ways()
            )

    def _say_ways(self) -> str:
        ways = [way.value for way in MoveKind if way in self._mover.ways]
        return f"it can be moved by {', '.join((*ways, *_ALWAYS))}"


def _is_equal(one: Any, other: Any) -> bool:
    return spell_identity({"": one}) == spell_identity({"": other})


_BLIND = "nobody tells whether this lies within the log: beyond it auto.offset.reset decides"


class SinkTargets:
    """The offsets that a move of one sink comes to. `notes` are what the reader of the plan must know of them."""

    def __init__(self, owner: str, *, held: Sequence[CurrentOffset], kafka: BrokersPort | None, now: float) -> None:
        """Without `kafka` nobody tells where the log begins and ends: then numbers are taken as they are."""
        self._owner = owner
        self._brokers = kafka
        self._now = now
        self._committed = {
            spot: Committed(number)
            for found in held
            if (spot := find_spot(found.partition)) and (number := read_number(found.offset, OFFSET)) is not None
        }
        self.notes: list[str] = []
        # By the file that a move came out of: the ids of its topics.
        self.topics: Mapping[str, str] | None = None

    def forget(self, names: Sequence[str]) -> tuple[Offset, ...]:
        """Nothing for these partitions; all that are committed without names. What is so already is no error."""
        if not self._committed and not names:
            return ()
        spots = [spot for spot in self._pick(names) if spot in self._committed]
        return tuple(Offset(build_partition(spot), None) for spot in spots)

    def move(self, move: Move, names: Sequence[str]) -> tuple[Offset, ...]:
        """The offsets of one move, within the log."""
        if move.to == NamedOffset.BEGINNING:
            return self.forget(names)
        if move.source is not None:
            saved = read_owner_file(move.source, owner=self._owner)
            self.topics = saved.topics
            return self.clamp(self._take(saved.offsets, names))
        if self._brokers is None:
            return self._move_blindly(move, names)
        spots = self._pick(names)
        if move.shift is not None:
            targets = shift(self._kafka, spots, self._committed, move.shift)
        else:
            targets = read_targets(self._kafka, spots, self._find_where(move))
        return tuple(Offset(build_partition(spot), {OFFSET: targets[spot]}) for spot in sorted(targets))

    def clamp(self, offsets: Sequence[Offset]) -> tuple[Offset, ...]:
        """The offsets within the log. Refused where one is of no partition that a sink could read."""
        if odd := [dict(found.partition) for found in offsets if find_spot(found.partition) is None]:
            raise UsageError(
                f"{odd[0]} is no partition of a sink; nothing was changed",
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
            f"{self._owner} can't be moved so: the context does not tell where the brokers are",
            cause="where the log begins and ends, and the times of its records, are known to the brokers alone",
            hint="without them it is moved by --to OFFSET, --to beginning, --shift N and --from FILE",
        )

    def _move_blindly(self, move: Move, names: Sequence[str]) -> tuple[Offset, ...]:
        """By numbers alone, on partitions that are committed: all that needs no broker."""
        where = 0 if move.shift is not None else self._find_where(move)
        if not isinstance(where, int):
            raise self._build_brokerless()
        spots = self._pick(names)
        self.notes.append(_BLIND)
        moved = {
            spot: where if move.shift is None else max(0, self._committed[spot].offset + move.shift) for spot in spots
        }
        return tuple(Offset(build_partition(spot), {OFFSET: at}) for spot, at in moved.items())

    def _find_where(self, move: Move) -> Where:
        if move.back is not None:
            return datetime.fromtimestamp(self._now, tz=UTC) - timedelta(seconds=parse_length(move.back))
        place = parse_map(move.to) if isinstance(move.to, str) and move.to.startswith("{") else move.to
        if isinstance(place, Mapping):
            number = read_number(place, OFFSET)
            if number is None:
                raise UsageError(f"{dict(place)} is no offset of a sink", hint=f'write {{"{OFFSET}": N}}')
            return number
        return parse_where(place if place is not None else "")

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
                f"{self._owner} has committed nothing", hint="say where: --partition TOPIC or TOPIC:0,1"
            )
        return spots

    def _take(self, offsets: Sequence[Offset], names: Sequence[str]) -> tuple[Offset, ...]:
        chosen = [parse_spots(name) for name in names]
        found = tuple(one for one in offsets if not chosen or is_chosen(one.partition, chosen))
        if not found:
            raise NotFoundError(f"the file has no such offsets of {self._owner}")
        return found


def clamp_offsets(kafka: BrokerPort, offsets: Sequence[Offset]) -> tuple[tuple[Offset, ...], list[str]]:
    """The offsets within the log, and what was changed about them.

    What lies outside would be where auto.offset.reset says: perhaps at the other end.
    """
    spots = {spot for found in offsets if (spot := find_spot(found.partition)) and found.offset is not None}
    bounds = kafka.read_bounds(sorted(spots)).require_complete(what="the bounds") if spots else {}
    clamped, notes = [], []
    for found in offsets:
        spot, number = find_spot(found.partition), read_number(found.offset, OFFSET)
        if spot is None or number is None or spot not in bounds:
            clamped.append(found)
            continue
        inside = min(max(number, bounds[spot].earliest), bounds[spot].latest)
        if inside != number:
            log = f"{bounds[spot].earliest} to {bounds[spot].latest}"
            notes.append(f"{spot[0]}-{spot[1]}: {number} is outside of the log ({log}): {inside} is taken")
        clamped.append(Offset(found.partition, {OFFSET: inside}))
    return tuple(clamped), notes


def parse_spots(name: str) -> Chosen:
    """`TOPIC`, `TOPIC:0,1`, or a partition as Connect spells it in JSON."""
    if not name.startswith("{"):
        return parse_topic(name)
    spot = find_spot(parse_map(name))
    if spot is None:
        raise UsageError(f"{name} names no partition", hint=f'{{"{TOPIC}": "t", "{PARTITION}": 0}}')
    return Chosen(spot[0], (spot[1],))


def find_commits(owner: str, offsets: Sequence[Offset]) -> dict[TopicPartition, int | None]:
    """What a group would commit for these offsets; refused where they are those of a source."""
    found: dict[TopicPartition, int | None] = {}
    for one in offsets:
        spot = find_spot(one.partition)
        number = None if one.offset is None else read_number(one.offset, OFFSET)
        if spot is None or (one.offset is not None and number is None):
            raise RefusedError(f"the offsets of {owner} are no positions in topics; nothing was changed")
        found[spot] = number
    return found


def is_chosen(partition: OffsetMap, chosen: Sequence[Chosen]) -> bool:
    """Whether a sink's partition is one of those that were named."""
    spot = find_spot(partition)
    return spot is not None and any(
        spot[0] == one.topic and (not one.partitions or spot[1] in one.partitions) for one in chosen
    )
