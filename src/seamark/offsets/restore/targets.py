"""Compute the offsets to which one owner is restored: past offsets, checked against its current ones and its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seamark.core.offsets import Offset, OffsetMap, Order, spell_identity
from seamark.errors import NotFoundError, SeamarkError, UnsupportedError
from seamark.groups.targets import OFFSET, build_partition
from seamark.kafka.model import LogOffsets, TopicPartition
from seamark.offsets.exports import PastOffset, Precision, find_first
from seamark.offsets.restore.observations import Observations
from seamark.offsets.semantics.arithmetic import pick_partitions
from seamark.offsets.semantics.sinks import SinkMeaning, find_spot, is_chosen, parse_spots, read_number
from seamark.offsets.write.plans import clamp_offsets
from seamark.report.words import build_time, render_time

if TYPE_CHECKING:
    from seamark.kafka.api import BrokersPort
    from seamark.offsets.semantics import OffsetSemantics


TopicIds = Mapping[str, tuple[str, str]]
"""By topic, its ID, and the export that contains it."""

# Producers, brokers and the machine that wrote the export have different clocks.
_CLOCKS_MS = 10_000


def refuse_other_logs(kafka: BrokersPort, owner: str, past_offsets: Sequence[PastOffset], *, ids: TopicIds) -> None:
    """Raise for offsets of a topic that was recreated since: the same offsets mean other records now."""
    stood = {
        spot: (number, one.seen_ms)
        for one in past_offsets
        if (spot := find_spot(one.partition)) and (number := read_number(one.offset, OFFSET))
    }
    if not stood:
        return
    topics = sorted({topic for topic, _ in stood})
    reading = kafka.read_topics(topics)
    for topic, error in reading.failures.items():
        if isinstance(error, NotFoundError):
            raise _build_refusal(owner, topic, f"topic {topic} does not exist any more")
        raise error
    for found in reading.items:
        old, export = ids.get(found.name, (found.topic_id, ""))
        if old != found.topic_id:
            raise _build_refusal(
                owner, found.name, f"its topic ID was {old} in export {export}, and is {found.topic_id}"
            )
    bounds = kafka.read_bounds(sorted(stood)).require_complete(what="the bounds")
    _refuse_beyond(owner, stood, bounds)
    _refuse_younger(kafka, owner, stood, bounds)


def read_by_record_time(kafka: BrokersPort, partitions: Sequence[OffsetMap], moment_ms: int) -> tuple[PastOffset, ...]:
    """Return each partition's first record of that time or later: neither it nor any after it had been read then."""
    spots = [spot for partition in partitions if (spot := find_spot(partition))]
    bounds = kafka.read_bounds(spots).require_complete(what="the bounds")
    found = kafka.read_log_offsets(spots, at=moment_ms).require_complete(what="the offsets of that time")
    past_offsets = []
    for spot in spots:
        stamp = found[spot]
        number = bounds[spot].latest if stamp is None else stamp.offset
        where = "the first record of that time or later"
        past_offsets.append(PastOffset(build_partition(spot), {OFFSET: number}, Precision.AT_MOST, where, moment_ms))
    return tuple(past_offsets)


def _refuse_beyond(
    owner: str, stood: Mapping[TopicPartition, tuple[int, int]], bounds: Mapping[TopicPartition, LogOffsets]
) -> None:
    for spot, (number, _) in stood.items():
        if number > bounds[spot].latest:
            why = f"its offset was {number} in {spot[0]}-{spot[1]}, but the log ends at {bounds[spot].latest}"
            raise _build_refusal(owner, spot[0], why)


def _refuse_younger(
    kafka: BrokersPort,
    owner: str,
    stood: Mapping[TopicPartition, tuple[int, int]],
    bounds: Mapping[TopicPartition, LogOffsets],
) -> None:
    """Raise if the first record of a log is newer than an offset beyond it: the log was recreated."""
    times = {spot: seen_ms + _CLOCKS_MS for spot, (_, seen_ms) in stood.items() if bounds[spot].earliest == 0}
    if not times:
        return
    for spot, stamp in kafka.read_offsets_at(times).require_complete(what="the offsets of that time").items():
        if stamp is not None and stamp.offset == 0:
            why = f"the first record of {spot[0]}-{spot[1]} was written after its offset was {stood[spot][0]}"
            raise _build_refusal(owner, spot[0], why)


def _build_refusal(owner: str, topic: str, why: str) -> SeamarkError:
    return UnsupportedError(
        f"the past offsets of {owner} belong to another log: topic {topic} was recreated",
        cause=why,
        hint=f"set new offsets: seamark offsets move {owner} --to earliest",
    )


_WORDS = {
    Precision.EXACT: "exact",
    Precision.AT_LEAST: "lower bound",
    Precision.AT_MOST: "upper bound",
}


@dataclass(frozen=True, slots=True)
class RestoreTargets:
    """The offsets of one owner and, in the same order, their `past_offsets`. `notes` are shown in the plan."""

    offsets: tuple[Offset, ...]
    past_offsets: tuple[PastOffset, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Log:
    """What is read about the topics of a sink or a group."""

    kafka: BrokersPort
    ids: TopicIds
    by_record_time: bool


class RestoreTargetFinder:
    """Finds the offsets of one owner at a point in time. `log` is for owners whose offsets are of topics."""

    def __init__(
        self, owner: str, observations: Observations, *, meaning: OffsetSemantics | None, log: Log | None
    ) -> None:
        self._owner = owner
        self._observations = observations
        self._meaning = meaning or SinkMeaning("", {})
        self._log = log

    def find(self, moment_ms: int, names: Sequence[str] = ()) -> RestoreTargets:
        """Return the offsets to which the owner is restored.

        Raises:
            UnsupportedError: There is no evidence for the owner, or its topic was recreated.
            NotFoundError: It has no offsets, and none was ever observed.
        """
        past_offsets, unknown = self._observations.find(moment_ms)
        wanted = self._pick(names)
        if wanted is not None:
            past_offsets = tuple(one for one in past_offsets if spell_identity(one.partition) in wanted)
            unknown = tuple(one for one in unknown if spell_identity(one) in wanted)
        if not past_offsets and not unknown:
            raise NotFoundError(
                f"{self._owner} has no offsets, and none were observed at {_spell(moment_ms)} or before",
                hint=f"set offsets with seamark offsets move {self._owner} --to …",
            )
        if unknown and self._log is not None and self._log.by_record_time:
            past_offsets += read_by_record_time(self._log.kafka, unknown, moment_ms)
        elif unknown:
            raise self._build_unknown(unknown[0], moment_ms)
        if self._log is not None:
            refuse_other_logs(self._log.kafka, self._owner, past_offsets, ids=self._log.ids)
        return self._settle(past_offsets)

    def _settle(self, past_offsets: Sequence[PastOffset]) -> RestoreTargets:
        """Omit offsets that are already current and bounds that would skip records; limit the rest to the log."""
        held = {spell_identity(one.partition): one.offset for one in self._observations.held}
        kept, notes = [], []
        for one in past_offsets:
            now = held.get(spell_identity(one.partition))
            if now is None and one.offset is None:
                continue
            # A bound does not justify skipping the records between the current offset and it.
            if one.precision is not Precision.EXACT and self._meaning.compare(one.offset, now) is Order.AFTER:
                where = self._meaning.describe(one.partition, None)[0]
                notes.append(f"{self._owner}, {where}: the current offset is lower, and is not changed")
                continue
            kept.append(one)
        offsets = tuple(Offset(one.partition, one.offset) for one in kept)
        if self._log is not None:
            offsets, clamped = self._clamp(self._log.kafka, offsets)
            notes += clamped
        return RestoreTargets(offsets, tuple(kept), tuple(notes))

    def _clamp(self, kafka: BrokersPort, offsets: Sequence[Offset]) -> tuple[tuple[Offset, ...], list[str]]:
        """Limit offsets to the log. None becomes the first record: `auto.offset.reset` may be the other end."""
        spots = [find_spot(one.partition) for one in offsets]
        empty = sorted({spot for one, spot in zip(offsets, spots, strict=True) if one.offset is None and spot})
        bounds = kafka.read_bounds(empty).require_complete(what="the bounds") if empty else {}
        numbered = [
            Offset(one.partition, {OFFSET: bounds[spot].earliest}) if one.offset is None and spot else one
            for one, spot in zip(offsets, spots, strict=True)
        ]
        return clamp_offsets(kafka, numbered)

    def _pick(self, names: Sequence[str]) -> frozenset[str] | None:
        """Return the named partitions; None for all."""
        if not names:
            return None
        if self._log is None:
            held = [one.partition for one in self._observations.held if one.offset is not None]
            picked = pick_partitions(self._owner, names, meaning=self._meaning, held=held)
            return frozenset(spell_identity(one) for one in picked)
        chosen = [parse_spots(name) for name in names]
        known = {name: seen[0].partition for name, seen in self._observations.observations.items()}
        found = frozenset(name for name, partition in known.items() if is_chosen(partition, chosen))
        if not found:
            raise NotFoundError(f"{self._owner} has no committed offsets on {', '.join(names)}")
        return found

    def _build_unknown(self, partition: OffsetMap, moment_ms: int) -> SeamarkError:
        where = self._meaning.describe(partition, None)[0]
        first = find_first(self._observations.observations.get(spell_identity(partition), ()))
        hint = "pass exports with --exports FILE"
        if self._log is not None:
            hint += ", or use --by-record-time for the first record of that time or later"
            cause = (
                "a consumer group keeps only its newest offset, and neither the journal nor an export contains an "
                "older one"
            )
            return UnsupportedError(f"no history of {self._owner} at {_spell(moment_ms)}", cause=cause, hint=hint)
        cause = f"the oldest stored write is of {_spell(first.at_ms)}" if first else "no write of it is stored"
        return UnsupportedError(
            f"the history of {self._owner} does not reach back to {_spell(moment_ms)} for {where}",
            cause=cause,
            hint=f"{hint}; seamark offsets history {self._owner} lists the stored writes",
        )


def format_past_offset(one: PastOffset) -> str:
    """Format the precision and the source of an offset."""
    if one.precision is Precision.AT_MOST:
        return f"{_WORDS[one.precision]}: {one.where}"
    return f"{_WORDS[one.precision]}: {one.where}, {_spell(one.seen_ms)}"


def format_precision(past_offsets: Sequence[PastOffset]) -> str:
    """Format the lowest precision among the partitions of an owner."""
    if len(past_offsets) == 1:
        return format_past_offset(past_offsets[0])
    worst = max(past_offsets, key=lambda one: list(Precision).index(one.precision))
    same = sum(one.precision is worst.precision for one in past_offsets)
    count = "" if same == len(past_offsets) else f"{same} of {len(past_offsets)} partitions "
    return f"{count}{format_past_offset(worst)}"


def _spell(moment_ms: int) -> str:
    return render_time(build_time(moment_ms))
