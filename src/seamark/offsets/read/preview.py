"""Count the effect of new offsets: in the log, in the database of a connector, or from the offsets alone."""

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


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of an owner's previews. `certainty` is that of the least certain; `unknown` ones have no figure."""

    unit: Unit
    again: int = 0
    skipped: int = 0
    unknown: int = 0
    certainty: Certainty = Certainty.EXACT


def sum_previews(previews: Iterable[Preview]) -> Total:
    """Sum the previews of all partitions of an owner."""
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


# The limit for all counts of one preview. A user waits for them, and after the stop the connector is down meanwhile.
_BUDGET_SECONDS = 30.0
_RESET = "consumer.override.auto.offset.reset"
_PREFIX = {Certainty.BOUND: "at most ", Certainty.ESTIMATE: "about "}


class PreviewCounter:
    """Counts what is between the stored offsets of one connector and other offsets."""

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
        """Return one preview per partition, in their order. What can't be counted has a reason; it raises nothing."""
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
        why = "" if order is Order.EQUAL else "the order of the two offsets is unknown"
        return order, Distance(unit, None, Certainty.UNKNOWN, reason=why)

    def _place_nothing(self, held: OffsetMap | None, wanted: OffsetMap | None) -> Order:
        """Compare with a missing offset: the consumer starts by `auto.offset.reset`, which is earliest in Connect."""
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
        """Open the database of the connector, or return why there is none."""
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
            return _bound(distance, database) or _unknown(distance, database or "seamark can't count it")
        if time.monotonic() >= deadline:
            return _unknown(distance, f"counting took longer than {self._budget_seconds:g} s in total")
        try:
            return database.count(distance)
        except SeamarkError as error:
            return _unknown(distance, f"{error.message}: {error.cause}" if error.cause else error.message)


def _count_log(
    distance: Distance, span: LogRange, bounds: Mapping[TopicPartition, LogOffsets] | SeamarkError
) -> Counted:
    """Count the records of a range that are still in the log; deleted records can't be reprocessed."""
    if isinstance(bounds, SeamarkError):
        return settle(distance) or _unknown(distance, bounds.message)
    found = bounds.get((span.topic, span.partition))
    if found is None:
        return settle(distance) or _unknown(distance, "the start and end of the log can't be read")
    start = found.earliest if span.start is None else max(span.start, found.earliest)
    end = found.latest if span.end is None else min(span.end, found.latest)
    return settle(replace(distance, count=replace(span, start=start, end=end))) or _unknown(distance, "")


def _bound(distance: Distance, reason: str) -> Counted | None:
    """Return the maximum of rows by their numbers, without the database: each number occurs at most once."""
    rows = distance.count
    if not isinstance(rows, TableRows) or rows.after is None or rows.upto is None:
        return None
    first, last = rows.after.number, rows.upto.number
    # If rows are also ordered by time, a number says nothing about rows of other times.
    if first is None or last is None or rows.after.time_micros is not None or rows.upto.time_micros is not None:
        return None
    return Counted(distance.unit, max(0, last - first), Certainty.BOUND, f"{reason}; each number is one row at most")


def _unknown(distance: Distance, reason: str) -> Counted:
    return Counted(distance.unit, None, Certainty.UNKNOWN, reason)


def say_preview(preview: Preview) -> str:
    """Format the effect on one partition, such as the number of reprocessed records."""
    if preview.order is Order.EQUAL:
        return "nothing reprocessed or skipped"
    if preview.order is Order.UNKNOWN:
        return f"unknown what is reprocessed or skipped: {preview.counted.reason}"
    words = "reprocessed" if preview.order is Order.BEFORE else "skipped"
    counted = preview.counted
    if counted.figure is None:
        return f"unknown number of {counted.unit} {words}: {counted.reason}"
    return f"{_PREFIX.get(counted.certainty, '')}{say_figure(counted.figure, counted.unit)} {words}"


def say_total(total: Total, previews: Sequence[Preview]) -> str:
    """Format all partitions of an owner."""
    prefix = _PREFIX.get(total.certainty, "")
    parts = [
        f"{prefix}{say_figure(figure, total.unit)} {words}"
        for figure, words in ((total.again, "reprocessed"), (total.skipped, "skipped"))
        if figure
    ]
    if total.unknown:
        parts.append(_say_unknown(total, previews))
    return ", ".join(parts) or f"no {total.unit} reprocessed or skipped"


def _say_unknown(total: Total, previews: Sequence[Preview]) -> str:
    if total.unknown < len(previews):
        return f"unknown for {render_count(total.unknown, 'partition')}"
    orders = {found.order for found in previews}
    words = {Order.BEFORE: "reprocessed", Order.AFTER: "skipped"}.get(orders.pop()) if len(orders) == 1 else None
    if words:
        return f"unknown number of {total.unit} {words}"
    return "unknown what is reprocessed or skipped"


_NOUNS = {Unit.ROWS: "row", Unit.RECORDS: "record", Unit.BYTES: "byte"}


def say_figure(figure: int, unit: Unit) -> str:
    """Format a figure with its unit: `1,200 rows`."""
    return render_count(figure, _NOUNS[unit]) if figure != 0 else f"{render_number(0)} {unit}"
