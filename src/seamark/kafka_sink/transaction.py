"""Where the records of a task came to lie: from delivery reports to the runs of its control record.

Records of one partition are stored in the order in which they were produced. So the reports of the first and the last
record show the offsets of all, if there are as many offsets as records. If another record is in between, they don't:
then everything is written once more, with a report for each record.
"""

from __future__ import annotations

import time
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from seamark.errors import RefusedError
from seamark.kafka_sink.control import Amount, Checksum, Claim, ControlRecord, Copied, Run, encode_control
from seamark.kafka_sink.producer import ProducerFailure, RowPiece, TaskProducer, TaskSettings


class DeliveredRange(NamedTuple):
    """Records of one source for one target, as they are written: the offset of each in the source, and its hash.

    Numbers side by side, not objects: a task may hold millions. `rows` are the first and the last in their piece.
    """

    target: int
    source: int
    rows: tuple[int, int]
    offsets: array[int]
    hashes: array[int]


class DeliveryTrace:
    """What one transaction writes, and what the brokers answered.

    `is_thorough` asks for a report of each record.
    """

    def __init__(self, tasks: int, *, is_thorough: bool = False) -> None:
        self.is_thorough = is_thorough
        self._tasks = tasks
        self.begin()

    def begin(self) -> None:
        """A new transaction: whatever was written before is not in it."""
        self._stretches: dict[int, list[DeliveredRange]] = defaultdict(list)
        self._written: dict[int, array[int]] = defaultdict(_build_longs)

    def add(self, piece: Any) -> Sequence[int]:
        """Rows that are about to be produced, in this order. Gives those whose reports are needed."""
        stretches: Iterable[DeliveredRange] = piece.stretches()
        edges: set[int] = set()
        for stretch in stretches:
            self._stretches[stretch.target].append(stretch)
            edges.update(stretch.rows)
        records: int = piece.amount.records
        return range(records) if self.is_thorough else sorted(edges)

    def note(self, partition: int, offset: int) -> None:
        """The brokers have a record whose report was asked for."""
        self._written[partition].append(offset)

    def find_unclear(self) -> str | None:
        """Describe a partition whose offsets the reports don't determine, or None; when all reports are in."""
        self._expect_reports()
        for target, stretches in self._stretches.items():
            for stretch, places in self._pair(target, stretches):
                if not self.is_thorough and places[-1] - places[0] + 1 != len(stretch.offsets):
                    return f"partition {target}"
        return None

    def build(self) -> Copied:
        """What goes into the control record, when all is clear."""
        runs = (run for target in self._stretches for run in _join(self._build_runs(target)))
        return Copied(self._tasks, runs=tuple(sorted(runs, key=lambda run: (run.source, run.target, run.first_source))))

    def _expect_reports(self) -> None:
        found = {target: len(offsets) for target, offsets in self._written.items()}
        wanted = {target: sum(map(self._count_reports, own)) for target, own in self._stretches.items()}
        if found != wanted:
            raise RefusedError(
                "the delivery reports do not match the records that were sent",
                cause=f"reports by target partition: expected {wanted}, received {found}",
                hint="run the copy again; nothing of this transaction is committed",
            )

    def _count_reports(self, stretch: DeliveredRange) -> int:
        return len(stretch.offsets) if self.is_thorough else min(2, len(stretch.offsets))

    def _pair(self, target: int, stretches: Iterable[DeliveredRange]) -> Iterator[tuple[DeliveredRange, array[int]]]:
        """Each stretch with its reports."""
        begin = 0
        for stretch in stretches:
            end = begin + self._count_reports(stretch)
            yield stretch, self._written[target][begin:end]
            begin = end

    def _build_runs(self, target: int) -> Iterator[Run]:
        for stretch, places in self._pair(target, self._stretches[target]):
            cuts = _cut(places) if self.is_thorough else [(0, len(stretch.offsets) - 1)]
            for first, last in cuts:
                begin = places[first] if self.is_thorough else places[0]
                yield Run(
                    stretch.source,
                    target,
                    last - first + 1,
                    first_source=stretch.offsets[first],
                    last_source=stretch.offsets[last],
                    first_target=begin,
                    last_target=begin + last - first,
                    checksum=Checksum.of(stretch.hashes[first : last + 1]),
                )


def _build_longs() -> array[int]:
    return array("q")


def _cut(places: array[int]) -> Iterator[tuple[int, int]]:
    """The first and the last index of what lies side by side.

    Something else in between, such as the late marker of another transaction, cuts a run in two.
    """
    begin = 0
    for place in range(1, len(places) + 1):
        if place == len(places) or places[place] != places[place - 1] + 1:
            yield begin, place - 1
            begin = place


def _join(runs: Iterable[Run]) -> Iterator[Run]:
    """Runs of one target, where those of one source that lie side by side are one."""
    held: Run | None = None
    for run in runs:
        if held is not None and held.source == run.source and held.last_target + 1 == run.first_target:
            held = replace(
                held,
                count=held.count + run.count,
                last_source=run.last_source,
                last_target=run.last_target,
                checksum=held.checksum.combine(run.checksum),
            )
            continue
        if held is not None:
            yield held
        held = run
    if held is not None:
        yield held


class TaskTransaction:
    """One transaction, which may have to be written more than once, each time by another producer.

    `before` and `number` say what the task committed before it. `record` is the control record that it was last tried
    to be committed with.
    """

    def __init__(
        self,
        settings: TaskSettings,
        claim: Claim,
        *,
        before: Amount,
        number: int,
        trace: DeliveryTrace | None,
        run: str = "",
    ) -> None:
        self.amount = Amount()
        self.record: ControlRecord | None = None
        self._settings = settings
        self._claim = claim
        self._before = before
        self._number = number
        self._trace = trace
        self._run = run
        self._kept: list[RowPiece] | None = []
        self._begun_at = 0.0

    @property
    def is_full(self) -> bool:
        """Whether the next rows belong to another one. Only where rows come in the same order again."""
        now, settings = self.amount, self._settings
        return settings.is_ordered and (
            now.records >= settings.transaction_records or now.bytes >= settings.transaction_bytes
        )

    @property
    def is_late(self) -> bool:
        """Whether the brokers may have ended it themselves, which looks like a fence."""
        return bool(self._begun_at) and time.monotonic() > self._deadline

    @property
    def is_kept(self) -> bool:
        """Whether it can be written again."""
        return self._kept is not None

    def add(self, piece: RowPiece, producer: TaskProducer) -> None:
        """Write rows. They are part of it also if this fails."""
        self.amount += piece.amount
        if self._kept is not None:
            self._kept.append(piece)
            if self.amount.bytes > self._settings.kept_bytes:
                self._kept = None
        self._produce(piece, producer)

    def write_again(self, producer: TaskProducer) -> None:
        """Write everything that was in it, with a new producer."""
        self._begun_at = 0.0
        if self._trace is not None:
            self._trace.is_thorough = True
        for piece in self._kept or ():
            self._produce(piece, producer)

    def commit(self, producer: TaskProducer, *, control_topic: str, is_done: bool) -> None:
        """Commit it, with its control record."""
        # Where the input ended with a transaction, the word "done" is all that is left to write, in one of its own.
        self._begin(producer)
        if self._trace is not None:
            # Where records lie is known when the brokers have them, and must be known before the commit.
            producer.flush(deadline=self._deadline)
            if (spot := self._trace.find_unclear()) is not None:
                raise ProducerFailure(_build_unclear(), spot=spot)
        self.record = record = ControlRecord(
            self._claim,
            amount=self._before + self.amount,
            is_done=is_done,
            transactions=self._number,
            copied=None if self._trace is None else self._trace.build(),
            run=self._run,
        )
        producer.commit(
            control_topic,
            partition=self._claim.partition,
            key=self._claim.key,
            value=encode_control(record),
            deadline=self._deadline,
        )

    @property
    def _deadline(self) -> float:
        return self._begun_at + self._settings.transaction_seconds

    def _produce(self, piece: RowPiece, producer: TaskProducer) -> None:
        self._begin(producer)
        reported = () if self._trace is None else self._trace.add(piece)
        producer.produce(piece, deadline=self._deadline, reported=reported)

    def _begin(self, producer: TaskProducer) -> None:
        if not self._begun_at:
            producer.begin()
            self._begun_at = time.monotonic()
            if self._trace is not None:
                self._trace.begin()


def _build_unclear() -> Any:
    from confluent_kafka import KafkaError  # noqa: PLC0415

    words = "records of another producer are between those that were sent"
    return KafkaError(KafkaError._INCONSISTENT, words)  # noqa: SLF001
