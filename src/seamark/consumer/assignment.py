"""The partitions that a consumer holds, and how far each has come: read, and saved. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from seamark.errors import FormatVersionError, NotFoundError, UsageError
from seamark.kafka.model import TopicPartition
from seamark.tables.model import LedgerEntry
from seamark.tables.postgres.ledger import Ledger, Runner


@dataclass(slots=True)
class PartitionState:
    """One partition. `entry` is what the ledger said last; `position` is the record that comes next.

    `saved` is what the ledger says if the last transaction was committed, which is not known yet.
    """

    entry: LedgerEntry
    position: int
    saved: LedgerEntry | None = None
    # Where the caller wants to resume, whatever the ledger contains.
    sought: int | None = None
    # Whether the ledger has that offset if the last save was committed, now or later.
    is_sought_saved: bool = False
    # Whether the client reads on from `position`. If not, or if that is unknown, the client must seek.
    is_placed: bool = False
    # Up to where the caller keeps returned records in its memory, saved or not; None if it keeps none.
    kept: int | None = None

    @property
    def is_read(self) -> bool:
        """Whether records of it were given to the caller since the ledger was looked at."""
        return self.position != self.start

    @property
    def is_to_save(self) -> bool:
        """Whether the ledger is to follow: records were given, or the caller has sought another place."""
        return self.is_read or self.sought is not None

    @property
    def is_unsettled(self) -> bool:
        """Whether the ledger must be looked at before more of it is given."""
        return self.is_read or self.saved is not None or not self.is_placed

    @property
    def start(self) -> int:
        """Where its next records are, as far as the ledger is known."""
        return self.entry.next_offset if self.sought is None else self.sought

    @property
    def resume(self) -> int:
        """Return the next record to give: after those that the caller keeps, else where the ledger is."""
        return self.start if self.kept is None else self.kept

    def seek(self, offset: int) -> None:
        """Record the offset from which the caller wants to resume."""
        self.sought = self.position = offset
        self.kept = None
        # No save of before has it.
        self.is_sought_saved = self.is_placed = False

    def save(self, saved: LedgerEntry) -> None:
        """Record that a transaction contains the records that were returned, and the offset that was sought."""
        self.saved, self.is_sought_saved = saved, True


class Assignment:
    """All partitions of one consumer."""

    def __init__(self) -> None:
        self._held: dict[TopicPartition, PartitionState] = {}

    def __iter__(self) -> Iterator[tuple[TopicPartition, PartitionState]]:
        return iter(list(self._held.items()))

    def __contains__(self, spot: TopicPartition) -> bool:
        return spot in self._held

    def take(self, spot: TopicPartition, entry: LedgerEntry) -> None:
        """A partition was claimed."""
        self._held[spot] = PartitionState(entry, position=entry.next_offset)

    def drop(self, spots: Iterable[TopicPartition]) -> None:
        """Partitions are gone."""
        for spot in spots:
            self._held.pop(spot, None)

    def find(self, spot: TopicPartition) -> PartitionState:
        """A partition that is held."""
        if spot not in self._held:
            topic, partition = spot
            raise NotFoundError(
                f"partition {topic}-{partition} is not assigned to this consumer",
                hint="call consume() first; another member of the group may have the partition",
            )
        return self._held[spot]

    def accept(self, spot: TopicPartition, offset: int) -> bool:
        """Whether a record is the next of its partition; it is given to the caller then."""
        held = self._held.get(spot)
        # What was on its way when the partition was taken or set back is not.
        if held is None or offset < held.position:
            return False
        held.position = offset + 1
        return True

    def keep(self) -> None:
        """Record that the caller keeps all returned records in its memory, so that they are not returned again."""
        for held in self._held.values():
            held.kept = held.position

    def take_back(self) -> None:
        """Rewind to the start: the last records of the client didn't reach the caller, and may be lost."""
        for held in self._held.values():
            held.position, held.is_placed = held.resume, False

    def settle(self, spot: TopicPartition, found: LedgerEntry) -> bool:
        """The ledger was looked at. Whether the client must be sent back or forth, to `position`."""
        held = self._held[spot]
        is_committed = found == held.saved
        # In one epoch only our own saves move it; one whose COMMIT was in doubt may be seen only now.
        if held.is_sought_saved and (is_committed or found.moves != held.entry.moves):
            held.sought = None
        held.entry, held.saved = found, None
        if not is_committed and (held.kept is None or held.position != held.kept):
            # The ledger is right, unless the caller has sought another place or keeps what it got.
            held.position, held.is_placed = held.resume, False
        return not held.is_placed


# A process that was stopped in its transaction holds its rows until the database ends it.
_LOCK_SECONDS = 10


class LedgerSession:
    """Claims partitions and reads them. The connection is opened on first use, and reopened after a failure."""

    def __init__(self, ledger: Ledger, connect: Callable[[], Any]) -> None:
        self._ledger = ledger
        self._connect = connect
        self._connection: Any = None
        self._is_created = False

    def read(self) -> dict[tuple[str, int], LedgerEntry]:
        """What stands in the ledger now."""
        with self._transaction() as runner:
            return self._ledger.read(runner)

    def claim(self, entry: LedgerEntry, *, find_start: Callable[[], int]) -> LedgerEntry:
        """Claim a partition. A partition without an entry gets one, at the offset where reading begins."""
        # In a transaction of its own, so that an entry of another format version is refused before any row is locked.
        self.read()
        with self._transaction() as runner:
            found = self._ledger.claim(runner, entry)
        if found is not None:
            return found
        first = LedgerEntry(entry.topic, entry.topic_id, entry.partition, next_offset=find_start())
        try:
            with self._transaction() as runner:
                self._ledger.add(runner, first)
        except Exception:
            # Another process may have entered it in the same moment. If not, this says it again.
            if entry.key not in self.read():
                raise
        return self.claim(entry, find_start=find_start)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextmanager
    def _transaction(self) -> Iterator[Runner]:
        if self._connection is None:
            self._connection = self._connect()
        try:
            runner = Runner(self._connection)
            _expect_transactions(runner)
            self._create(runner)
            if runner.is_postgres:
                runner.change(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'")
            yield runner
            self._connection.commit()
        except BaseException:
            # The state of a connection that failed is unknown; the next use opens another.
            broken, self._connection = self._connection, None
            broken.close()
            raise

    def _create(self, runner: Runner) -> None:
        """Create the table if it doesn't exist: creating needs a privilege that later calls don't need."""
        if self._is_created or self._is_readable(runner):
            return
        try:
            self._ledger.create(runner)
            self._connection.commit()
        except Exception:
            # Another process may make it in the same moment; one of the two then fails, and both find it.
            self._connection.rollback()
            if not self._is_readable(runner):
                raise
        self._is_created = True

    def _is_readable(self, runner: Runner) -> bool:
        try:
            self._ledger.read(runner)
            self._connection.commit()
        except FormatVersionError:
            raise
        except Exception:  # noqa: BLE001 - drivers have errors of their own for a table that is missing
            self._connection.rollback()
            return False
        self._is_created = True
        return True


def _expect_transactions(runner: Runner) -> None:
    if runner.is_alone:
        raise UsageError(
            "connect returns a connection in autocommit mode",
            cause="the ledger must be locked and read in one transaction",
            hint="open the connection without autocommit",
        )
