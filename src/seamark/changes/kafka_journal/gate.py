"""The gate: one process at a time begins a change or takes one over. Between them the check and the act are one.

To enter is to claim, and then to take the gate's transactional id:

- A claim is a record in the topic of heads. It wins if no earlier claim, unreleased and younger than the lease, stands
  before it; all who read the topic agree on that. It only keeps people from disturbing each other.
- The transactional id makes it safe. Whoever was in the gate before and was slower than its lease is fenced, so that
  what it found free there can't be opened by it any more.

Appending does not pass the gate. A holder that was stopped in the middle of its change holds nobody up.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from seamark.changes.kafka_journal.board import Board, GateClaim, build_claim_value, build_release_value
from seamark.changes.kafka_journal.clients import JournalClients
from seamark.changes.kafka_journal.names import GATE_KEY
from seamark.errors import FencedError, JournalError, LockedError
from seamark.kafka.produce import Outgoing
from seamark.kafka.transaction import TransactionalWriter

# A begin holds the gate for some 0.1 s. Whoever waits looks this often, each at another moment.
_LOOK_SECONDS = (0.03, 0.12)
_RANDOM = secrets.SystemRandom()


class Gate:
    """One process's way into the gate. Leaving is sure: at the latest when the lease ends."""

    def __init__(self, clients: JournalClients, *, by: str) -> None:
        self.names = clients.names
        self._clients = clients
        self._by = by
        self._read_clock = clients.clocks.since_boot
        self._deadline = self._read_clock() + clients.timing.enter_seconds
        self._log = clients.open_heads_log()
        self._claims = clients.open_record_writer()
        self._writer: TransactionalWriter | None = None
        self._nonce = ""
        self._claimed_at = 0.0
        self.board = Board(self._log, lease_seconds=clients.timing.lease_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Whatever happened inside is what is to be told; a gate that can't be opened again opens with its lease.
        with contextlib.suppress(JournalError):
            self.leave()
        self._drop_writer()
        self._claims.close()
        self._log.close()

    def prepare(self, others: Sequence[TransactionalWriter] = ()) -> None:
        """Make connections before the gate is claimed: nobody shall wait for them."""
        fresh = [] if self._writer else [self._clients.open_gate_writer()]
        if fresh or others:
            self._clients.connect([*fresh, *others])
        self._writer = self._writer or fresh[0]

    def enter(self) -> None:
        """Wait for the gate and take it. Then `board` says what is, and stays true until we leave or are fenced.

        Raises:
            LockedError: others had it all the time.
        """
        while True:
            self.prepare()
            self._wait_and_claim()
            try:
                self._take()
            except FencedError:
                # Somebody else took it within the same moment: our claim was older than its lease.
                self.leave()
                continue
            self.board.catch_up()
            return

    @property
    def is_fresh(self) -> bool:
        """Whether our claim is young enough to fence anybody on its strength."""
        return self._read_clock() - self._claimed_at <= self._clients.timing.fresh_seconds

    def write(self, records: Sequence[Outgoing]) -> bool:
        """Write as the one who is in the gate; False if we are no longer, and nothing is written."""
        if self._writer is None:
            return False
        try:
            self._writer.write(records)
        except FencedError:
            self._drop_writer()
            return False
        return True

    def leave(self) -> None:
        """Let the next one in."""
        nonce, self._nonce = self._nonce, ""
        if nonce:
            # The id was used for this stay; the next needs a new producer.
            self._drop_writer()
            self._claims.write(self._record(build_release_value(nonce)))

    def _wait_and_claim(self) -> None:
        while True:
            self._nonce = secrets.token_hex(8)
            self._claims.write(self._record(build_claim_value(self._nonce, by=self._by)))
            self._claimed_at = self._read_clock()
            self.board.catch_up()
            holder = self.board.gate
            if holder is not None and holder.nonce == self._nonce:
                if self.is_fresh:
                    return
                self.leave()
                holder = None
            self._nonce = ""
            self._refuse_late(holder)
            if holder is not None:
                self._wait_for_change(holder)

    def _wait_for_change(self, holder: GateClaim) -> None:
        """Wait until the holder has left or its lease must be over."""
        # Counted from now although it began earlier: a claim too late costs less than claims that keep others busy.
        over = self._read_clock() + self._clients.timing.lease_seconds
        while self.board.gate == holder and self._read_clock() < over:
            self._refuse_late(holder)
            self._clients.clocks.sleep(_RANDOM.uniform(*_LOOK_SECONDS))
            self.board.catch_up()

    def _refuse_late(self, holder: GateClaim | None) -> None:
        if self._read_clock() <= self._deadline:
            return
        seconds = self._clients.timing.enter_seconds
        raise LockedError(
            f"others have been beginning changes for {seconds:g} s; nothing was begun",
            cause=f"{holder.by} is at it now" if holder else "the brokers answer too slowly",
            hint="run the command again",
            context={"by": holder.by if holder else ""},
        )

    def _take(self) -> None:
        if self._writer is not None:
            self._writer.take()

    def _record(self, value: bytes) -> Outgoing:
        return Outgoing(self._clients.names.heads, key=GATE_KEY, value=value)

    def _drop_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
