"""Where a sink shall stand: the arithmetic of groups, in the words of Connect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from seamark.core.offset import Offset, OffsetMap
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UnsupportedError, UsageError
from seamark.groups.positions import OFFSET, PARTITION, TOPIC, build_partition
from seamark.groups.targets import Chosen, Where, parse_topic, parse_where, read_spots, read_targets, shift
from seamark.kafka.groups import Committed
from seamark.kafka.spot import Spot
from seamark.offsets.held_offset import HeldOffset
from seamark.offsets.move.targets import Move, Word, parse_length, parse_map, read_owner_file
from seamark.offsets.semantics.sink import find_spot, read_number

if TYPE_CHECKING:
    from seamark.kafka.api import BrokerPort, BrokersPort

_BLIND = "nobody tells whether this lies within the log: beyond it auto.offset.reset decides"


class SinkTargets:
    """The offsets that a move of one sink comes to. `notes` are what the reader of the plan must know of them."""

    def __init__(self, owner: str, *, held: Sequence[HeldOffset], kafka: BrokersPort | None, now: float) -> None:
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
        if move.to == Word.BEGINNING:
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

    def _pick(self, names: Sequence[str]) -> tuple[Spot, ...]:
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


def find_commits(owner: str, offsets: Sequence[Offset]) -> dict[Spot, int | None]:
    """What a group would commit for these offsets; refused where they are those of a source."""
    found: dict[Spot, int | None] = {}
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
