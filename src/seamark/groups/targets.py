"""Target offsets of a group: the same arithmetic as kafka-consumer-groups, for many partitions at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from seamark.core.offsets import OffsetMap
from seamark.core.time import parse_duration
from seamark.errors import NotFoundError, RefusedError, UsageError
from seamark.groups.lag import read_record_times
from seamark.kafka.api import BrokersPort
from seamark.kafka.groups import Committed
from seamark.kafka.model import OffsetSpec, TopicPartition
from seamark.report.words import parse_number

TOPIC, PARTITION, OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"


def build_partition(spot: TopicPartition) -> OffsetMap:
    """Return a topic partition in Connect's format."""
    return {TOPIC: spot[0], PARTITION: spot[1]}


Where = OffsetSpec | int | datetime
# The committed offset stays, within the log.
CURRENT = "current"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A topic to move, and some of its partitions; all of them if none is named."""

    topic: str
    partitions: tuple[int, ...] = ()


def parse_where(text: str | int | datetime, *, now: float | None = None, option: str = "--to") -> Where:
    """Parse `earliest`, `latest`, an offset, a time in ISO 8601, or with `now` also `-1h` for one hour before now.

    A time without a zone is UTC, as in Kafka's own tool. An offset may have commas between its digits.
    """
    if isinstance(text, datetime):
        return text if text.tzinfo else text.replace(tzinfo=UTC)
    if isinstance(text, int):
        return text
    if text in (OffsetSpec.EARLIEST, OffsetSpec.LATEST):
        return OffsetSpec(text)
    if not text.startswith(("-", "+")):
        with suppress(ValueError):
            return parse_number(text)
    if now is not None and (before := parse_before_now(text, now=now)) is not None:
        return before
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        expected = "earliest, latest, current, an offset, -1h" if now is not None else "earliest, latest, an offset"
        raise UsageError(
            f"invalid value {text!r} for {option}: expected {expected} or a time such as 2026-11-14T12:00:00Z"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def parse_before_now(text: str, *, now: float) -> datetime | None:
    """Parse `-1h` as the time one hour before now; None for any other text."""
    if not text.startswith("-") or text[1:].isdecimal():
        return None
    try:
        seconds = parse_duration(text[1:])
    except ValueError:
        return None
    return datetime.fromtimestamp(now, tz=UTC) - timedelta(seconds=seconds)


def parse_length(back: float | str | timedelta) -> float:
    """Return the seconds of a duration."""
    if isinstance(back, timedelta):
        return back.total_seconds()
    try:
        return parse_duration(back) if isinstance(back, str) else float(back)
    except ValueError:
        raise UsageError(f"invalid duration {back!r}: expected 90s, 1h, 2d or P7D") from None


def parse_topic(text: str) -> Chosen:
    """Parse `TOPIC` or `TOPIC:0,1,2`."""
    name, colon, numbers = text.partition(":")
    parts = [part.strip() for part in numbers.split(",")] if colon else []
    if not name or not all(part.isascii() and part.isdecimal() for part in parts):
        raise UsageError(f"invalid value {text!r} for --topic: expected TOPIC or TOPIC:0,1,2")
    return Chosen(name, tuple(int(part) for part in parts))


def is_pattern(name: str) -> bool:
    """Return whether a name is a glob, which may match any number of groups."""
    return any(sign in name for sign in "*?[")


def read_spots(
    kafka: BrokersPort, chosen: Sequence[Chosen], committed: Mapping[TopicPartition, Committed]
) -> tuple[TopicPartition, ...]:
    """Return the partitions to move: those of the named topics, or all with a committed offset."""
    if not chosen:
        return tuple(sorted(committed))
    reading = kafka.read_topics(list(dict.fromkeys(found.topic for found in chosen)))
    for error in reading.failures.values():
        raise error
    known = {topic.name: topic.spots for topic in reading.items}
    spots: dict[TopicPartition, None] = {}
    for found in chosen:
        wanted = tuple((found.topic, number) for number in found.partitions) or known[found.topic]
        if missing := [number for topic, number in wanted if (topic, number) not in known[found.topic]]:
            raise NotFoundError(f"topic {found.topic} has no partition {', '.join(map(str, missing))}")
        spots |= dict.fromkeys(wanted)
    return tuple(sorted(spots))


def read_targets(kafka: BrokersPort, spots: Sequence[TopicPartition], where: Where) -> dict[TopicPartition, int]:
    """Return the offsets of a target, within the log. A time after the last record means the end of the log."""
    if isinstance(where, int):
        return clamp(kafka, dict.fromkeys(spots, where))
    bounds = kafka.read_bounds(spots).require_complete(what="the bounds")
    if isinstance(where, OffsetSpec):
        return {spot: bounds[spot].earliest if where is OffsetSpec.EARLIEST else bounds[spot].latest for spot in spots}
    moment_ms = round(where.timestamp() * 1000)
    found = kafka.read_log_offsets(spots, at=moment_ms).require_complete(what="the offsets of that time")
    return {spot: bounds[spot].latest if (stamp := found[spot]) is None else stamp.offset for spot in spots}


def read_current(
    kafka: BrokersPort, spots: Sequence[TopicPartition], committed: Mapping[TopicPartition, Committed]
) -> dict[TopicPartition, int]:
    """Return the committed offsets, within the log. Refused where nothing is committed."""
    return shift(kafka, spots, committed, 0)


def read_back(
    kafka: BrokersPort,
    spots: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, Committed],
    *,
    seconds: float,
    now: float,
) -> dict[TopicPartition, int]:
    """Return the offsets that are a duration of record time before the committed ones.

    The time of a committed offset is never taken later than it is, so that the result is too early rather than too
    late. At the end of the log it is the time of the newest record. A partition without records keeps its offset.

    Raises:
        RefusedError: nothing is committed on a partition, or the time of its records can't be determined.
    """
    current = read_current(kafka, spots, committed)
    bounds = kafka.read_bounds(spots).require_complete(what="the bounds")
    full = {spot: at for spot, at in current.items() if bounds[spot].latest > bounds[spot].earliest}
    times = read_record_times(kafka, full, {spot: bounds[spot].latest for spot in full}, now_ms=round(now * 1000))
    if unknown := [f"{topic}-{number}" for topic, number in full if (topic, number) not in times]:
        raise RefusedError(
            f"the record time at the offsets of {', '.join(unknown)} can't be determined",
            hint="use --to TIME or --shift N",
        )
    wanted = {spot: round(at - seconds * 1000) for spot, at in times.items()}
    found = kafka.read_offsets_at(wanted).require_complete(what="the offsets of that time")
    back = {spot: current[spot] if (stamp := found[spot]) is None else stamp.offset for spot in wanted}
    return {spot: min(at, back.get(spot, at)) for spot, at in current.items()}


def shift(
    kafka: BrokersPort, spots: Sequence[TopicPartition], committed: Mapping[TopicPartition, Committed], by: int
) -> dict[TopicPartition, int]:
    """Return the committed offsets shifted by a number of records.

    Raises:
        RefusedError: a partition has no committed offset.
    """
    if missing := [f"{topic}-{number}" for topic, number in spots if (topic, number) not in committed]:
        raise RefusedError(
            f"no offset is committed on {', '.join(missing)}, so there is no offset to start from",
            hint="set their offsets first: --to earliest|latest|OFFSET",
        )
    return clamp(kafka, {spot: committed[spot].offset + by for spot in spots})


def clamp(kafka: BrokersPort, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the offsets clamped to the log: none before its start or after its end."""
    bounds = kafka.read_bounds(offsets).require_complete(what="the bounds")
    return {spot: min(max(at, bounds[spot].earliest), bounds[spot].latest) for spot, at in offsets.items()}
