"""How old the next record of a reader is, for many readers at once, without reading a record.

The brokers tell the first record of a time or later, of many partitions in one request to each of them (ListOffsets).
They tell no time of an offset. So the time is searched for: the first guess is a straight line from the first record
to now, and each answer narrows it. A log that was written steadily takes three or four rounds, each of them one
request to a broker, however many partitions there are. A record would have to be fetched with its whole batch, from
every partition that somebody is behind on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import sqrt

from seamark.groups.lag_model import Delay
from seamark.kafka.api import BrokersPort
from seamark.kafka.spot import Spot, Stamp

Reader = tuple[Spot, int]
"""A partition and the next offset that somebody reads of it."""

# Rounds in which a steady log is found with some to spare; a partition with many readers has more of them.
_ROUNDS_FOR_ONE = 6
_MOST_ROUNDS = 40
# Near enough: people read "2 h", and a second is as good as no delay.
_NEAR_MS = 1000
_NEAR_SHARE = 0.02
# What is known no better than this is told to nobody.
_ROUGH_SHARE = 0.25
_EARLIEST_MS = 0


@dataclass(slots=True)
class _Search:
    """Between which times the next record of one reader lies, and between which offsets these are.

    `low_ms` is the time of a record at or before it, `high_ms` a time that only later records have.
    """

    offset: int
    low_ms: int
    low_offset: int
    high_ms: int
    high_offset: int
    is_exact: bool = False

    def take(self, at_ms: int, stamp: Stamp | None) -> None:
        """Learn from the first record of a time or later; None where there is no such record."""
        if stamp is None or stamp.timestamp_ms is None or stamp.offset > self.offset:
            if at_ms < self.high_ms:
                self.high_ms = at_ms
                self.high_offset = min(self.high_offset, stamp.offset) if stamp is not None else self.high_offset
        elif stamp.timestamp_ms >= self.low_ms:
            self.low_ms, self.low_offset = stamp.timestamp_ms, stamp.offset
            self.is_exact = self.is_exact or stamp.offset == self.offset

    @property
    def is_found(self) -> bool:
        """Whether the time is known to the ms: several records may have the same one."""
        return self.is_exact or self.high_ms - self.low_ms <= 1

    def is_within(self, share: float, now_ms: int) -> bool:
        """Whether it is known as well as that share of its age."""
        open_ms = self.high_ms - self.low_ms
        return self.is_found or open_ms <= max(_NEAR_MS, share * (now_ms - self.low_ms))

    def guess(self, number: int, now_ms: int) -> int:
        """The time to ask for next."""
        if number % 2:
            # A log that was written in bursts is no line: every second time the age is cut in its geometric middle.
            low, high = max(1.0, now_ms - self.low_ms), max(1.0, now_ms - self.high_ms)
            guess = now_ms - round(sqrt(low * high))
        else:
            # Half a record early: it is the first one of any time after the record before it.
            share = (self.offset - 0.5 - self.low_offset) / max(1, self.high_offset - self.low_offset)
            guess = self.low_ms + round(share * (self.high_ms - self.low_ms))
        return min(max(guess, self.low_ms + 1), self.high_ms - 1)


def read_delays(
    kafka: BrokersPort, readers: Collection[Reader], ends: Mapping[Spot, int], *, now_ms: int
) -> dict[Reader, Delay]:
    """How long the next record of each reader has been there. One that nobody could tell is not in it.

    `readers` are behind: their offsets are before the end of the log. What counts is the latest time of the records
    up to that offset, so times out of order make a delay too short, never too long.
    """
    first = kafka.read_offsets_at(dict.fromkeys((spot for spot, _ in readers), _EARLIEST_MS)).found
    searches: dict[Spot, list[_Search]] = {}
    for spot, offset in dict.fromkeys(readers):
        stamp = first.get(spot)
        if stamp is not None and stamp.timestamp_ms is not None:
            search = _Search(offset, stamp.timestamp_ms, stamp.offset, max(now_ms, stamp.timestamp_ms) + 1, ends[spot])
            # Whoever stands before the first record goes on with it.
            search.is_exact = offset <= stamp.offset
            searches.setdefault(spot, []).append(search)
    _narrow(kafka, searches, now_ms=now_ms)
    return {
        (spot, search.offset): Delay(max(0, now_ms - search.low_ms) / 1000, is_exact=search.is_found)
        for spot, found in searches.items()
        for search in found
        if search.is_within(_ROUGH_SHARE, now_ms)
    }


def _narrow(kafka: BrokersPort, searches: Mapping[Spot, list[_Search]], *, now_ms: int) -> None:
    """Ask in rounds, one time a partition, until all is known well enough. What one reader learns helps the others."""
    most = min(_MOST_ROUNDS, _ROUNDS_FOR_ONE * max(map(len, searches.values()), default=0))
    left = dict(searches)
    for number in range(most):
        left = {spot: waiting for spot, found in left.items() if (waiting := _find_waiting(found, now_ms))}
        if not left:
            return
        times = {spot: waiting[0].guess(number, now_ms) for spot, waiting in left.items()}
        answers = kafka.read_offsets_at(times).found
        for spot, stamp in answers.items():
            for search in left[spot]:
                search.take(times[spot], stamp)
        left = {spot: waiting for spot, waiting in left.items() if spot in answers}


def _find_waiting(found: Collection[_Search], now_ms: int) -> list[_Search]:
    return [search for search in found if not search.is_within(_NEAR_SHARE, now_ms)]
