"""The clients that the journal's parts work with, all for one Kafka cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from seamark.changes.kafka_journal.board import Board
from seamark.changes.kafka_journal.names import JournalNames
from seamark.changes.kafka_journal.timing import JournalTiming
from seamark.kafka.clocks import Clocks
from seamark.kafka.log import PartitionLog
from seamark.kafka.produce import RecordWriter
from seamark.kafka.transaction import TransactionalWriter

# More threads than this make nothing faster: each only waits for its brokers' answers.
_MOST_THREADS = 8


def run_together(jobs: Sequence[Callable[[], None]]) -> list[BaseException]:
    """Run all jobs, several at the same time. Return the errors of those that failed, in the order of the jobs."""
    with ThreadPoolExecutor(min(len(jobs), _MOST_THREADS)) as pool:
        pending = [pool.submit(job) for job in jobs]
        return [error for job in pending if (error := job.exception()) is not None]


@dataclass(frozen=True, slots=True)
class JournalClients:
    """Opens clients with the context's settings. The settings hold secrets and are not shown.

    `build_producer` and `build_consumer` replace the classes of librdkafka. With `run` and `clocks`, a simulation
    decides what runs when.
    """

    config: Mapping[str, str] = field(repr=False)
    names: JournalNames
    timing: JournalTiming
    cluster_id: str = ""
    clocks: Clocks = field(default_factory=Clocks)
    build_producer: Callable[[dict[str, Any]], Any] | None = None
    build_consumer: Callable[[dict[str, Any]], Any] | None = None
    run: Callable[[Sequence[Callable[[], None]]], list[BaseException]] = run_together

    def open_journal_log(self) -> PartitionLog:
        """A reader of the journal topic."""
        return self._open_log(self.names.journal)

    def open_heads_log(self) -> PartitionLog:
        """A reader of the topic of heads."""
        return self._open_log(self.names.heads)

    def read_board(self) -> Board:
        """The topic of heads as it is now."""
        with self.open_heads_log() as log:
            board = Board(log, lease_seconds=self.timing.lease_seconds)
            board.catch_up()
            return board

    def open_record_writer(self) -> RecordWriter:
        """A writer for the claims of the gate."""
        return RecordWriter(self.config, build_producer=self.build_producer, clocks=self.clocks)

    def open_gate_writer(self) -> TransactionalWriter:
        """A writer under the gate's transactional id."""
        return self._open_writer(self.names.gate_id(self.cluster_id))

    def open_lock_writer(self, lock: str) -> TransactionalWriter:
        """A writer under a lock's transactional id."""
        return self._open_writer(self.names.lock_id(self.cluster_id, lock=lock))

    def connect(self, writers: Sequence[TransactionalWriter]) -> None:
        """Connect writers, all at the same time."""
        topics = (self.names.journal, self.names.heads)
        for error in self.run([partial(writer.connect, topics) for writer in writers]):
            raise error

    def _open_log(self, topic: str) -> PartitionLog:
        return PartitionLog(
            self.config,
            topic,
            patience_seconds=self.timing.patience_seconds,
            build_consumer=self.build_consumer,
            clocks=self.clocks,
        )

    def _open_writer(self, transactional_id: str) -> TransactionalWriter:
        return TransactionalWriter(
            self.config,
            transactional_id=transactional_id,
            transaction_seconds=self.timing.transaction_seconds,
            write_seconds=self.timing.write_seconds,
            build_producer=self.build_producer,
            clocks=self.clocks,
        )
