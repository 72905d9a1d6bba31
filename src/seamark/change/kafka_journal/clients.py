"""The clients that the journal's parts work with, all for one Kafka cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from seamark.change.kafka_journal.board import Board
from seamark.change.kafka_journal.names import JournalNames
from seamark.change.kafka_journal.timing import JournalTiming
from seamark.kafka.log import PartitionLog
from seamark.kafka.produce import RecordWriter
from seamark.kafka.transaction import TransactionalWriter

# More threads than this make nothing faster: each only waits for its brokers' answers.
_MOST_THREADS = 8


@dataclass(frozen=True, slots=True)
class JournalClients:
    """Opens clients with the context's settings. The settings hold secrets and are not shown."""

    config: Mapping[str, str] = field(repr=False)
    names: JournalNames
    timing: JournalTiming
    cluster_id: str = ""

    def open_journal_log(self) -> PartitionLog:
        """A reader of the journal topic."""
        return PartitionLog(self.config, self.names.journal, patience_seconds=self.timing.patience_seconds)

    def open_heads_log(self) -> PartitionLog:
        """A reader of the topic of heads."""
        return PartitionLog(self.config, self.names.heads, patience_seconds=self.timing.patience_seconds)

    def read_board(self) -> Board:
        """The topic of heads as it is now."""
        with self.open_heads_log() as log:
            board = Board(log, lease_seconds=self.timing.lease_seconds)
            board.catch_up()
            return board

    def open_record_writer(self) -> RecordWriter:
        """A writer for the claims of the gate."""
        return RecordWriter(self.config)

    def open_gate_writer(self) -> TransactionalWriter:
        """A writer under the gate's transactional id."""
        return self._open_writer(self.names.gate_id(self.cluster_id))

    def open_lock_writer(self, lock: str) -> TransactionalWriter:
        """A writer under a lock's transactional id."""
        return self._open_writer(self.names.lock_id(self.cluster_id, lock=lock))

    def connect(self, writers: Sequence[TransactionalWriter]) -> None:
        """Connect writers, all at the same time."""
        with ThreadPoolExecutor(min(len(writers), _MOST_THREADS)) as pool:
            for done in [pool.submit(writer.connect, (self.names.journal, self.names.heads)) for writer in writers]:
                done.result()

    def _open_writer(self, transactional_id: str) -> TransactionalWriter:
        return TransactionalWriter(
            self.config,
            transactional_id=transactional_id,
            transaction_seconds=self.timing.transaction_seconds,
            write_seconds=self.timing.write_seconds,
        )
