"""The transaction that a task has in hand: its rows as long as they are few, its time, and its control record."""

from __future__ import annotations

import time
from typing import Any

from seamark.kafka_sink.control import Amount, Claim, ControlRecord
from seamark.kafka_sink.control_codec import encode_control
from seamark.kafka_sink.copy_trace import CopyTrace
from seamark.kafka_sink.task_producer import ProducerFailure, RowPiece, TaskProducer
from seamark.kafka_sink.task_settings import TaskSettings


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
        trace: CopyTrace | None,
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

    words = "somebody else's records lie among those that were sent"
    return KafkaError(KafkaError._INCONSISTENT, words)  # noqa: SLF001
