"""Positions in topics: whether the log is still the one that was stood on, and where it stood by its records' times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from seamark.core.offset import OffsetMap
from seamark.errors import NotFoundError, SeamarkError, UnsupportedError
from seamark.groups.positions import OFFSET, build_partition
from seamark.kafka.spot import Bounds, Spot
from seamark.offsets.past_offsets import Standing, Worth
from seamark.offsets.semantics.sink import find_spot, read_number

if TYPE_CHECKING:
    from seamark.kafka.api import BrokersPort

TopicIds = Mapping[str, tuple[str, str]]
"""By topic, the id that it had, and which export says so."""

# Producers, brokers and whoever took the export have clocks of their own.
_CLOCKS_MS = 10_000


def refuse_other_logs(kafka: BrokersPort, owner: str, standings: Sequence[Standing], *, ids: TopicIds) -> None:
    """Refuse positions of a topic that was made anew since: the same numbers mean other records now."""
    stood = {
        spot: (number, one.seen_ms)
        for one in standings
        if (spot := find_spot(one.partition)) and (number := read_number(one.offset, OFFSET))
    }
    if not stood:
        return
    topics = sorted({topic for topic, _ in stood})
    reading = kafka.read_topics(topics)
    for topic, error in reading.failures.items():
        if isinstance(error, NotFoundError):
            raise _build_refusal(owner, topic, f"topic {topic} is not there any more")
        raise error
    for found in reading.items:
        old, export = ids.get(found.name, (found.topic_id, ""))
        if old != found.topic_id:
            raise _build_refusal(owner, found.name, f"its id was {old} in export {export}, and is {found.topic_id}")
    bounds = kafka.read_bounds(sorted(stood)).require_complete(what="the bounds")
    _refuse_beyond(owner, stood, bounds)
    _refuse_younger(kafka, owner, stood, bounds)


def read_by_record_time(kafka: BrokersPort, partitions: Sequence[OffsetMap], moment_ms: int) -> tuple[Standing, ...]:
    """The first record of that time or later of each partition: nobody had read that one then, nor any behind it."""
    spots = [spot for partition in partitions if (spot := find_spot(partition))]
    bounds = kafka.read_bounds(spots).require_complete(what="the bounds")
    found = kafka.read_log_offsets(spots, at=moment_ms).require_complete(what="the offsets of that time")
    standings = []
    for spot in spots:
        stamp = found[spot]
        number = bounds[spot].latest if stamp is None else stamp.offset
        where = "the first record of that time or later"
        standings.append(Standing(build_partition(spot), {OFFSET: number}, Worth.AT_MOST, where, moment_ms))
    return tuple(standings)


def _refuse_beyond(owner: str, stood: Mapping[Spot, tuple[int, int]], bounds: Mapping[Spot, Bounds]) -> None:
    for spot, (number, _) in stood.items():
        if number > bounds[spot].latest:
            why = f"it stood at {number} of {spot[0]}-{spot[1]}, and the log ends at {bounds[spot].latest}"
            raise _build_refusal(owner, spot[0], why)


def _refuse_younger(
    kafka: BrokersPort, owner: str, stood: Mapping[Spot, tuple[int, int]], bounds: Mapping[Spot, Bounds]
) -> None:
    """A log whose very first record is younger than a position behind it is another log."""
    times = {spot: seen_ms + _CLOCKS_MS for spot, (_, seen_ms) in stood.items() if bounds[spot].earliest == 0}
    if not times:
        return
    for spot, stamp in kafka.read_offsets_at(times).require_complete(what="the offsets of that time").items():
        if stamp is not None and stamp.offset == 0:
            why = f"the first record of {spot[0]}-{spot[1]} was written after it stood at {stood[spot][0]}"
            raise _build_refusal(owner, spot[0], why)


def _build_refusal(owner: str, topic: str, why: str) -> SeamarkError:
    return UnsupportedError(
        f"{owner} stood on another log: topic {topic} was made anew since",
        cause=why,
        hint=f"say where it shall begin: seamark offsets move {owner} --to earliest",
    )
