"""What other offsets come to, counted: in the log, in the database behind a connector, or by the positions alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from seamark.changes.effect import Preview
from seamark.core.offsets import (
    Certainty,
    Counted,
    Distance,
    LogRange,
    Offset,
    OffsetMap,
    Order,
    TableRows,
    Unit,
    WalBytes,
    settle,
)
from seamark.errors import SeamarkError
from seamark.kafka.model import LogOffsets, TopicPartition
from seamark.offsets.model import CurrentOffset
from seamark.offsets.read.lag import open_database
from seamark.offsets.semantics import OffsetSemantics
from seamark.offsets.semantics.mirror import MirrorSourceMeaning
from seamark.offsets.semantics.sinks import SinkMeaning
from seamark.report.words import render_count, render_number

if TYPE_CHECKING:
    from seamark.context import Context
    from seamark.kafka.api import BrokersPort
    from seamark.tables import Database


# Between the plan and the stop a running source reads on. A tenth more than was agreed to is seldom another decision,
# and of a short way a thousand records, or a mebibyte, are no more than some seconds of an ordinary connector.
_SHARE = 0.1
_LEAST: Mapping[Unit, int] = {Unit.ROWS: 1000, Unit.RECORDS: 1000, Unit.BYTES: 1024 * 1024}
_WHOLE = 100.0


@dataclass(frozen=True, slots=True)
class Total:
    """The previews of one owner together. `certainty` is that of the least sure; `unknown` have no figure."""

    unit: Unit
    again: int = 0
    skipped: int = 0
    unknown: int = 0
    certainty: Certainty = Certainty.EXACT


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How much more than the plan says may be read again or skipped: a share of it, and at least so many.

    Without `least` it is a number that suits the unit.
    """

    share: float = _SHARE
    least: int | None = None

    def allow(self, planned: int, unit: Unit) -> int:
        """How many are still within it."""
        least = _LEAST[unit] if self.least is None else self.least
        return planned + max(int(planned * self.share), least)


DEFAULT_TOLERANCE = Tolerance()


@dataclass(frozen=True, slots=True)
class SafetyOptions:
    """How carefully offsets are changed: whether a silent worker is accepted, how much more than planned may be moved.

    `wait_seconds` is how long the first new offset is waited for, by default as long as the workers need to store one.
    """

    accepts_zombies: bool = False
    tolerance: Tolerance = DEFAULT_TOLERANCE
    wait_seconds: float | None = None


DEFAULT_SAFETY = SafetyOptions()


def parse_tolerance(text: str) -> Tolerance:
    """`10%` or `5000`; a ValueError for anything else."""
    words = text.strip()
    if words.endswith("%"):
        share = float(words[:-1]) / _WHOLE
        if not 0 <= share <= _WHOLE:
            raise ValueError(f"{text!r} is no share")
        return Tolerance(share, 0)
    if not (words.isascii() and words.isdecimal()):
        raise ValueError(f"{text!r} is no number")
    return Tolerance(0.0, int(words))


def sum_previews(previews: Iterable[Preview]) -> Total:
    """All partitions of an owner together."""
    found = tuple(previews)
    ranks = list(Certainty)
    known = [one for one in found if one.is_known]
    sure = [one.counted.certainty for one in known if one.order is not Order.EQUAL]
    return Total(
        unit=found[0].counted.unit if found else Unit.RECORDS,
        again=sum(one.counted.figure or 0 for one in known if one.order is Order.BEFORE),
        skipped=sum(one.counted.figure or 0 for one in known if one.order is Order.AFTER),
        unknown=len(found) - len(known),
        certainty=max(sure, key=ranks.index, default=Certainty.EXACT),
    )


# All counts of one preview together. A person waits for them, and after the stop a connector stands still meanwhile.
_BUDGET_SECONDS = 30.0
_RESET = "consumer.override.auto.offset.reset"
_PREFIX = {Certainty.BOUND: "at most ", Certainty.ESTIMATE: "about "}


class PreviewCounter:
    """Counts what lies between the held offsets of one connector and others."""

    def __init__(
        self,
        context: Context,
        *,
        meaning: OffsetSemantics,
        config: Mapping[str, str],
        brokers: Callable[[], BrokersPort],
        budget_seconds: float = _BUDGET_SECONDS,
    ) -> None:
        self._context = context
        self._meaning = meaning
        self._config = config
        self._brokers = brokers
        self._budget_seconds = budget_seconds

    def count(self, held: Sequence[CurrentOffset], wanted: Sequence[Offset]) -> tuple[Preview, ...]:
        """One preview for each partition, in their order. What can't be counted says why; nothing is raised for it."""
        built = [
            (found.partition, *self._build_way(found.partition, found.offset, one.offset))
            for found, one in zip(held, wanted, strict=True)
        ]
        bounds = self._read_bounds(distance for _, _, distance in built)
        deadline = time.monotonic() + self._budget_seconds
        with ExitStack() as stack:
            database = self._open_database(stack, [distance for _, _, distance in built])
            return tuple(
                Preview(partition, order, self._count(distance, bounds, database, deadline=deadline))
                for partition, order, distance in built
            )

    def _build_way(
        self, partition: OffsetMap, held: OffsetMap | None, wanted: OffsetMap | None
    ) -> tuple[Order, Distance]:
        order = self._meaning.compare(wanted, held)
        if order is Order.UNKNOWN and isinstance(self._meaning, SinkMeaning | MirrorSourceMeaning):
            order = self._place_nothing(held, wanted)
        if order is Order.BEFORE:
            return order, self._meaning.build_distance(partition, wanted, held)
        if order is Order.AFTER:
            return order, self._meaning.build_distance(partition, held, wanted)
        unit = self._meaning.build_distance(partition, held, wanted).unit
        why = "" if order is Order.EQUAL else "which of the two positions is the earlier one can't be told"
        return order, Distance(unit, None, Certainty.UNKNOWN, reason=why)

    def _place_nothing(self, held: OffsetMap | None, wanted: OffsetMap | None) -> Order:
        """Without a position a consumer begins where `auto.offset.reset` says: Connect's is earliest."""
        if (held is None) == (wanted is None):
            return Order.UNKNOWN
        is_ahead = (self._config.get(_RESET) or "earliest").strip() == "latest"
        return Order.AFTER if (wanted is None) == is_ahead else Order.BEFORE

    def _read_bounds(self, distances: Iterable[Distance]) -> Mapping[TopicPartition, LogOffsets] | SeamarkError:
        spots = [
            (found.count.topic, found.count.partition)
            for found in distances
            if isinstance(found.count, LogRange) and not found.count.cluster
        ]
        if not spots:
            return {}
        try:
            return self._brokers().read_bounds(spots).found
        except SeamarkError as error:
            return error

    def _open_database(self, stack: ExitStack, distances: Sequence[Distance]) -> Database | str:
        """The database behind the connector, or why there is none to ask."""
        if not any(isinstance(found.count, TableRows | WalBytes) for found in distances):
            return ""
        return open_database(self._context, self._config, stack)

    def _count(
        self,
        distance: Distance,
        bounds: Mapping[TopicPartition, LogOffsets] | SeamarkError,
        database: Database | str,
        *,
        deadline: float,
    ) -> Counted:
        if isinstance(distance.count, LogRange) and not distance.count.cluster:
            return _count_log(distance, distance.count, bounds)
        known = settle(distance)
        if known is not None:
            return known
        if isinstance(database, str):
            return _bound(distance, database) or _unknown(distance, database or "nobody here can count it")
        if time.monotonic() >= deadline:
            return _unknown(distance, f"all counts together took longer than {self._budget_seconds:g} s")
        try:
            return database.count(distance)
        except SeamarkError as error:
            return _unknown(distance, f"{error.message}: {error.cause}" if error.cause else error.message)


def _count_log(
    distance: Distance, span: LogRange, bounds: Mapping[TopicPartition, LogOffsets] | SeamarkError
) -> Counted:
    """What is still in the log of a range: what was deleted comes no more."""
    if isinstance(bounds, SeamarkError):
        return settle(distance) or _unknown(distance, bounds.message)
    found = bounds.get((span.topic, span.partition))
    if found is None:
        return settle(distance) or _unknown(distance, "the log's bounds can't be read")
    start = found.earliest if span.start is None else max(span.start, found.earliest)
    end = found.latest if span.end is None else min(span.end, found.latest)
    return settle(replace(distance, count=replace(span, start=start, end=end))) or _unknown(distance, "")


def _bound(distance: Distance, reason: str) -> Counted | None:
    """Without the database, numbers alone say how many rows there are at most: none is there twice."""
    rows = distance.count
    if not isinstance(rows, TableRows) or rows.after is None or rows.upto is None:
        return None
    first, last = rows.after.number, rows.upto.number
    # Where rows are told by a time too, a number says nothing of rows of other moments.
    if first is None or last is None or rows.after.time_micros is not None or rows.upto.time_micros is not None:
        return None
    return Counted(distance.unit, max(0, last - first), Certainty.BOUND, f"{reason}; each number is one row at most")


def _unknown(distance: Distance, reason: str) -> Counted:
    return Counted(distance.unit, None, Certainty.UNKNOWN, reason)


def say_preview(preview: Preview) -> str:
    """One partition in words: `at most 40 records read again`."""
    if preview.order is Order.EQUAL:
        return "nothing is read again or skipped"
    if preview.order is Order.UNKNOWN:
        return f"what is read again or skipped can't be told: {preview.counted.reason}"
    words = "read again" if preview.order is Order.BEFORE else "skipped"
    counted = preview.counted
    if counted.figure is None:
        return f"{counted.unit} {words}, how many can't be told: {counted.reason}"
    return f"{_PREFIX.get(counted.certainty, '')}{say_figure(counted.figure, counted.unit)} {words}"


def say_total(total: Total, previews: Sequence[Preview]) -> str:
    """All partitions of an owner in words."""
    prefix = _PREFIX.get(total.certainty, "")
    parts = [
        f"{prefix}{say_figure(figure, total.unit)} {words}"
        for figure, words in ((total.again, "read again"), (total.skipped, "skipped"))
        if figure
    ]
    if total.unknown:
        parts.append(_say_unknown(total, previews))
    return ", ".join(parts) or f"no {total.unit} read again or skipped"


def _say_unknown(total: Total, previews: Sequence[Preview]) -> str:
    if total.unknown < len(previews):
        return f"of {render_count(total.unknown, 'partition')} it can't be told"
    orders = {found.order for found in previews}
    words = {Order.BEFORE: "read again", Order.AFTER: "skipped"}.get(orders.pop()) if len(orders) == 1 else None
    if words:
        return f"{total.unit} {words}, how many can't be told"
    return "how much is read again or skipped can't be told"


_NOUNS = {Unit.ROWS: "row", Unit.RECORDS: "record", Unit.BYTES: "byte"}


def say_figure(figure: int, unit: Unit) -> str:
    """`1 200 rows`."""
    return render_count(figure, _NOUNS[unit]) if figure != 0 else f"{render_number(0)} {unit}"
