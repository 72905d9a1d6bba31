"""Where one owner goes back to: its standings, held against what it holds and what its log still has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from seamark.core.offset import Offset, OffsetMap, spell_identity
from seamark.core.offsets import Order
from seamark.errors import NotFoundError, SeamarkError, UnsupportedError
from seamark.groups.positions import OFFSET
from seamark.offsets.held_offset import HeldOffset
from seamark.offsets.move.sink_targets import clamp_offsets, is_chosen, parse_spots
from seamark.offsets.move.targets import SourceTargets
from seamark.offsets.past_offsets import Standing, Worth, find_first
from seamark.offsets.restore.logs import TopicIds, read_by_record_time, refuse_other_logs
from seamark.offsets.restore.witnesses import Testimony
from seamark.offsets.semantics.sink import SinkMeaning, find_spot
from seamark.report.words import render_time

if TYPE_CHECKING:
    from seamark.kafka.api import BrokersPort
    from seamark.offsets.semantics import Meaning

_WORDS = {
    Worth.EXACT: "stood there exactly",
    Worth.AT_LEAST: "stood there or further on, a bound",
    Worth.AT_MOST: "stood there or before, a bound",
}


@dataclass(frozen=True, slots=True)
class Way:
    """The offsets of one owner, and for each why: `standings` in the same order. `notes` are for the plan's reader."""

    offsets: tuple[Offset, ...]
    standings: tuple[Standing, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Log:
    """What is asked of the topics that a sink or a group reads."""

    kafka: BrokersPort
    ids: TopicIds
    by_record_time: bool


class MomentTargets:
    """The way back of one owner to one moment. `log` is for those whose positions are in topics."""

    def __init__(self, owner: str, testimony: Testimony, *, meaning: Meaning | None, log: Log | None) -> None:
        self._owner = owner
        self._testimony = testimony
        self._meaning = meaning or SinkMeaning("", {})
        self._log = log

    def find(self, moment_ms: int, names: Sequence[str] = ()) -> Way:
        """The offsets that it goes back to.

        Raises:
            UnsupportedError: nobody can tell where it stood, or its topic is another one by now.
            NotFoundError: it holds nothing, and nothing was ever seen of it.
        """
        standings, unknown = self._testimony.find(moment_ms)
        wanted = self._pick(names)
        if wanted is not None:
            standings = tuple(one for one in standings if spell_identity(one.partition) in wanted)
            unknown = tuple(one for one in unknown if spell_identity(one) in wanted)
        if not standings and not unknown:
            raise NotFoundError(
                f"{self._owner} holds no offsets, and nobody has seen any of it at {_spell(moment_ms)} or before",
                hint=f"seamark offsets move {self._owner} --to … gives it a place",
            )
        if unknown and self._log is not None and self._log.by_record_time:
            standings += read_by_record_time(self._log.kafka, unknown, moment_ms)
        elif unknown:
            raise self._build_unknown(unknown[0], moment_ms)
        if self._log is not None:
            refuse_other_logs(self._log.kafka, self._owner, standings, ids=self._log.ids)
        return self._settle(standings)

    def _settle(self, standings: Sequence[Standing]) -> Way:
        """Leave out what is so already and what a bound would skip; keep the rest within the log."""
        held = {spell_identity(one.partition): one.offset for one in self._testimony.held}
        kept, notes = [], []
        for one in standings:
            now = held.get(spell_identity(one.partition))
            if now is None and one.offset is None:
                continue
            # That it stood further on is no reason to skip what lies between.
            if one.worth is not Worth.EXACT and self._meaning.compare(one.offset, now) is Order.AFTER:
                where = self._meaning.describe(one.partition, None)[0]
                notes.append(f"{self._owner}, {where}: it stands before that already, and stays")
                continue
            kept.append(one)
        offsets = tuple(Offset(one.partition, one.offset) for one in kept)
        if self._log is not None:
            offsets, clamped = self._clamp(self._log.kafka, offsets)
            notes += clamped
        return Way(offsets, tuple(kept), tuple(notes))

    def _clamp(self, kafka: BrokersPort, offsets: Sequence[Offset]) -> tuple[tuple[Offset, ...], list[str]]:
        """Within the log. Where nothing was held it is the first record: `auto.offset.reset` may say the other end."""
        spots = [find_spot(one.partition) for one in offsets]
        empty = sorted({spot for one, spot in zip(offsets, spots, strict=True) if one.offset is None and spot})
        bounds = kafka.read_bounds(empty).require_complete(what="the bounds") if empty else {}
        numbered = [
            Offset(one.partition, {OFFSET: bounds[spot].earliest}) if one.offset is None and spot else one
            for one, spot in zip(offsets, spots, strict=True)
        ]
        return clamp_offsets(kafka, numbered)

    def _pick(self, names: Sequence[str]) -> frozenset[str] | None:
        """The partitions that were named; None for all."""
        if not names:
            return None
        if self._log is None:
            held = [HeldOffset(one.partition, one.offset) for one in self._testimony.held]
            picked = SourceTargets(self._owner, meaning=self._meaning, held=held).pick(names)
            return frozenset(spell_identity(one) for one in picked)
        chosen = [parse_spots(name) for name in names]
        known = {name: seen[0].partition for name, seen in self._testimony.sightings.items()}
        found = frozenset(name for name, partition in known.items() if is_chosen(partition, chosen))
        if not found:
            raise NotFoundError(f"{self._owner} has committed nothing on {', '.join(names)}")
        return found

    def _build_unknown(self, partition: OffsetMap, moment_ms: int) -> SeamarkError:
        where = self._meaning.describe(partition, None)[0]
        first = find_first(self._testimony.sightings.get(spell_identity(partition), ()))
        hint = "--exports FILE gives what exports have seen of it"
        if self._log is not None:
            hint += "; --by-record-time takes the first record of that time or later"
            cause = (
                "a consumer group keeps its newest position alone, and neither the journal nor an export has seen it"
            )
            return UnsupportedError(
                f"there is no history of {self._owner} at {_spell(moment_ms)}", cause=cause, hint=hint
            )
        cause = f"the oldest write that is left is of {_spell(first.at_ms)}" if first else "no write of it is left"
        return UnsupportedError(
            f"the history of {self._owner} does not reach back to {_spell(moment_ms)} for {where}",
            cause=cause,
            hint=f"seamark offsets history {self._owner} shows what is left; {hint}",
        )


def say_standing(one: Standing) -> str:
    """One position in words: what it is worth, and whose word it is."""
    if one.worth is Worth.AT_MOST:
        return f"{_WORDS[one.worth]}: {one.where}"
    return f"{_WORDS[one.worth]}: {one.where}, {_spell(one.seen_ms)}"


def say_worth(standings: Sequence[Standing]) -> str:
    """All partitions of an owner in words: the least that one of them is worth."""
    if len(standings) == 1:
        return say_standing(standings[0])
    worst = max(standings, key=lambda one: list(Worth).index(one.worth))
    same = sum(one.worth is worst.worth for one in standings)
    count = "" if same == len(standings) else f"{same} of {len(standings)} partitions "
    return f"{count}{say_standing(worst)}"


def _spell(moment_ms: int) -> str:
    return render_time(datetime.fromtimestamp(moment_ms / 1000, UTC))
