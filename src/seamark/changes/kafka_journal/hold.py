"""The hold of a change's locks: one transactional id for each, taken in sorted order.

The first lock's id is the pen: it writes the entries. Before each entry every other id proves that it is not fenced, by
a small transaction of its own. So an entry exists only if all locks were held when its writing began. A crash between
the proofs and the entry leaves the proofs, which mean nothing to a reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import Self

from seamark.changes.kafka_journal.clients import JournalClients
from seamark.changes.kafka_journal.names import proof_key
from seamark.errors import FencedError
from seamark.kafka.produce import Outgoing


class LockHold:
    """The transactional ids of a change's locks, taken or still to be taken."""

    def __init__(self, clients: JournalClients, locks: Sequence[str]) -> None:
        self._clients = clients
        self._heads_topic = clients.names.heads
        self._write_seconds = clients.timing.write_seconds
        self._locks = tuple(locks)
        self.writers = tuple(clients.open_lock_writer(lock) for lock in locks)
        self._kept = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._kept:
            self.release()

    def keep(self) -> None:
        """Hold on when the block ends."""
        self._kept = True

    def take(self) -> None:
        """Take every id, in sorted order. Whoever had one is fenced."""
        for writer in self.writers:
            writer.take()

    def write(self, records: Sequence[Outgoing]) -> None:
        """Prove every lock, then write.

        Raises:
            FencedError: somebody has taken one of the locks. Nothing was written.
            JournalError: they are not written, or it is unknown.
        """
        pen, *others = self.writers
        deadline = self._clients.clocks.now() + self._write_seconds
        if others:
            proofs = [Outgoing(self._heads_topic, key=proof_key(lock), value=b"held") for lock in self._locks[1:]]
            jobs = [
                partial(writer.write, [proof], deadline=deadline) for writer, proof in zip(others, proofs, strict=True)
            ]
            errors = self._clients.run(jobs)
            # That somebody took the change over says more than that the brokers are slow.
            for error in sorted(errors, key=lambda error: not isinstance(error, FencedError)):
                raise error
        pen.write(records, deadline=deadline)

    def release(self) -> None:
        """Let the connections go. The ids stay ours in name until somebody takes them."""
        for writer in self.writers:
            writer.close()
