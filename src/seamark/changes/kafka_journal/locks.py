"""Acquiring a change's locks: by beginning the change, or by taking it over."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from seamark.changes.journal import (
    Ending,
    Entry,
    EntryKind,
    Head,
    KeyRecord,
    Opening,
    build_entries,
    build_opening_entry,
    find_hold,
    find_nonce,
)
from seamark.changes.kafka_journal.clients import JournalClients
from seamark.changes.kafka_journal.entries import (
    KafkaJournalWriter,
    LockHold,
    build_change_records,
    check_tail,
    has_change,
    read_change,
)
from seamark.changes.kafka_journal.heads import (
    GateClaim,
    OpenChangeIndex,
    build_claim_value,
    build_release_value,
)
from seamark.changes.kafka_journal.names import GATE_KEY, KEY_KEY, JournalNames, sorted_locks
from seamark.changes.signing import check_recordable, check_same_key
from seamark.errors import (
    AlreadyExistsError,
    AuthorizationError,
    FencedError,
    JournalError,
    LockedError,
    RefusedError,
    SeamarkError,
)
from seamark.kafka.produce import Outgoing
from seamark.kafka.transaction import TransactionalWriter

# Entering the gate means to write a claim, and then to take the gate's transactional ID:
#
# - A claim is a record in the heads topic. It wins if there is no earlier claim that is unreleased and younger than the
#   lease; all readers of the topic agree on that. Claims only keep processes from disturbing each other.
# - The transactional ID provides the safety. A process that was in the gate before and was slower than its lease is
#   fenced, so that it can no longer open a change for locks that it found free there.
#
# Appending doesn't use the gate. A holder that was suspended during its change doesn't block other processes.

# A begin holds the gate for about 0.1 s. Waiting processes check this often, at random times.
_LOOK_SECONDS = (0.03, 0.12)
_RANDOM = secrets.SystemRandom()


class Gate:
    """One process's access to the gate. The gate is released at the latest when the lease ends."""

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
        self.board = OpenChangeIndex(self._log, lease_seconds=clients.timing.lease_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The error inside the block is the one to report; a gate that can't be released is released by the end of its
        # lease.
        with contextlib.suppress(JournalError):
            self.leave()
        self._drop_writer()
        self._claims.close()
        self._log.close()

    def prepare(self, others: Sequence[TransactionalWriter] = ()) -> None:
        """Connect before the gate is claimed, so that no other process waits for the connections."""
        fresh = [] if self._writer else [self._clients.open_gate_writer()]
        if fresh or others:
            self._clients.connect([*fresh, *others])
        self._writer = self._writer or fresh[0]

    def enter(self) -> None:
        """Wait for the gate and take it. After that, `board` is current until this process leaves or is fenced.

        Raises:
            LockedError: other processes held the gate the whole time.
        """
        while True:
            self.prepare()
            self._wait_and_claim()
            try:
                self._take()
            except FencedError:
                # Another process took it at the same time, because our claim was older than its lease.
                self.leave()
                continue
            self.board.catch_up()
            return

    @property
    def is_fresh(self) -> bool:
        """Whether our claim is recent enough to fence the holder of a lock."""
        return self._read_clock() - self._claimed_at <= self._clients.timing.fresh_seconds

    def write(self, records: Sequence[Outgoing]) -> bool:
        """Write as the holder of the gate; return False if this process no longer holds it, and nothing was written."""
        if self._writer is None:
            return False
        try:
            self._writer.write(records)
        except FencedError:
            self._drop_writer()
            return False
        return True

    def leave(self) -> None:
        """Release the gate."""
        nonce, self._nonce = self._nonce, ""
        if nonce:
            # The transactional ID was used for this stay; the next one needs a new producer.
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
        """Wait until the holder has left or its lease must have ended."""
        # Counted from now although it began earlier: a late claim costs less than claims that keep others busy.
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
            f"other processes have been starting changes for {seconds:g} s; no change was started",
            cause=f"{holder.by} is starting one now" if holder else "the brokers respond too slowly",
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


def begin_change(clients: JournalClients, opening: Opening, *, now: Callable[[], float]) -> KafkaJournalWriter:
    """Enter the gate, check that the locks are free, write the `open` entry, take the locks' transactional IDs.

    The gate's transactional ID writes the `open` entry before the locks' IDs are taken: the entry makes the locks ours,
    and a process that was too slow can't write it. So taking the IDs never fences a legitimate holder. A crash between
    the two leaves an open change without a step, to be resumed.
    """
    entry = build_opening_entry(opening)
    records = build_change_records([entry], Head.build([entry]), names=clients.names, now=now())
    with (
        Gate(clients, by=opening.by) as gate,
        LockHold(clients, sorted_locks(opening.change, opening.locks)) as hold,
    ):
        # Most refusals are detected here, without disturbing other processes.
        gate.board.catch_up()
        check_same_key(gate.board.key, opening.key)
        gate.board.refuse_conflict(opening)
        _refuse_known(clients, opening)
        gate.prepare(hold.writers)
        _open_and_take(gate, hold, opening, records=records, entry=entry, now=now)
        hold.keep()
    return KafkaJournalWriter(hold, [entry], names=clients.names, by=opening.by, now=now)


def _open_and_take(
    gate: Gate, hold: LockHold, opening: Opening, *, records: list[Outgoing], entry: Entry, now: Callable[[], float]
) -> None:
    is_open = False
    while True:
        try:
            gate.enter()
        except SeamarkError as error:
            raise (_left_open(opening.change, error) if is_open else error) from None
        is_open = _is_ours(gate.board.heads.get(opening.change), opening)
        if not is_open:
            if opening.change in gate.board.closed:
                # This process was suspended after it wrote the `open` entry, and another process resumed and finished
                # the change.
                raise _fenced(opening.change, "it was closed")
            check_same_key(gate.board.key, opening.key)
            gate.board.refuse_conflict(opening)
            is_open = _write_opening(gate, opening, records=[*_build_first_key(gate, opening), *records])
        if is_open and gate.is_fresh:
            break
        # This process was suspended, or another one was faster: check again. An `open` entry that was written is found
        # then.
        gate.leave()
    try:
        hold.take()
    except SeamarkError as error:
        raise _close_unheld(gate, entry, error=error, now=now()) from None
    # A suspension just before the locks were taken is detected only now: a change that was taken over is not ours to
    # write.
    try:
        gate.board.catch_up()
    except SeamarkError as error:
        raise _left_open(opening.change, error) from None
    if not _is_ours(gate.board.heads.get(opening.change), opening):
        raise _fenced(opening.change, "it was closed")


def record_key(clients: JournalClients, record: KeyRecord) -> None:
    """Enter the gate, so that no change begins meanwhile, and write the record of the journal's key."""
    with Gate(clients, by=record.by) as gate:
        # Most refusals are detected here, without disturbing other processes.
        gate.board.catch_up()
        if not _is_recorded(gate, record):
            check_recordable(gate.board.key, record, gate.board.open_heads())
        while not _is_recorded(gate, record):
            gate.enter()
            if not _is_recorded(gate, record):
                check_recordable(gate.board.key, record, gate.board.open_heads())
                gate.write([_build_key_record(record, names=clients.names)])
                # The topic shows whether it was written or the gate was lost.
                gate.board.catch_up()
            gate.leave()


def _is_recorded(gate: Gate, record: KeyRecord) -> bool:
    return gate.board.key is not None and gate.board.key.fingerprint == record.fingerprint


def _build_first_key(gate: Gate, opening: Opening) -> list[Outgoing]:
    """Build the record of the key if the journal has none; the first change writes it in the same transaction."""
    if gate.board.key is not None or opening.key is None:
        return []
    return [_build_key_record(opening.key, names=gate.names)]


def _build_key_record(record: KeyRecord, *, names: JournalNames) -> Outgoing:
    return Outgoing(names.heads, key=KEY_KEY, value=record.to_bytes())


def _write_opening(gate: Gate, opening: Opening, *, records: list[Outgoing]) -> bool:
    try:
        return gate.write(records)
    except JournalError as error:
        raise JournalError(
            f"change {opening.change} was not started: {error.message}",
            cause=error.cause,
            hint=f"{error.hint}; no step was applied. If `seamark journal list --state open` lists the change: "
            f"seamark journal resume {opening.change}",
            context={"change": opening.change, **error.context},
        ) from None


def _close_unheld(gate: Gate, entry: Entry, *, error: SeamarkError, now: float) -> SeamarkError:
    """Close a change whose locks' transactional IDs weren't acquired; return the error to raise.

    The holder of the gate writes the `close` entry.
    """
    body = {"ending": str(Ending.FAILED), "error": error.as_dict()}
    close = build_entries(entry.change, [(EntryKind.CLOSE, body)], by=entry.by, at=entry.at, after=entry)
    head = Head.build([entry, *close])
    try:
        is_closed = gate.write(build_change_records(close, head, names=gate.names, now=now))
    except SeamarkError:
        is_closed = False
    # A missing ACL has its own exit code; every other error means that the journal can't be written.
    if is_closed and isinstance(error, AuthorizationError):
        return error
    return _left_open(entry.change, error) if not is_closed else _not_begun(entry.change, error)


def take_change(
    clients: JournalClients,
    change: str,
    *,
    nonce: str,
    by: str,
    at: str,
    expected_nonce: str | None,
    now: Callable[[], float],
) -> KafkaJournalWriter:
    """Enter the gate, fence the holder by taking its locks' IDs, read its entries, write a `taken` entry."""
    with Gate(clients, by=by) as gate:
        gate.board.catch_up()
        head = _find_open(clients, gate.board.heads, change, expected_nonce=expected_nonce)
        # Refuse entries of another format version here, because `hold.take` fences the holder.
        with clients.open_journal_log() as log:
            read_change(log, change)
        with LockHold(clients, sorted_locks(change, head.locks)) as hold:
            gate.prepare(hold.writers)
            while True:
                gate.enter()
                head = _find_open(clients, gate.board.heads, change, expected_nonce=expected_nonce)
                if gate.is_fresh:
                    break
                gate.leave()
            hold.take()
            # From here on, the previous holder can't write; what it wrote until now counts.
            entries = _read_fenced(clients, change, head=head)
            ages = gate.board.measure_ages(change)
            writer = KafkaJournalWriter(hold, entries, names=clients.names, by=by, now=now, ages=ages)
            former = find_nonce(entries)
            writer.append_all([(EntryKind.TAKEN, {"nonce": nonce, "from": former})], at=at)
            hold.keep()
    return writer


def _not_begun(change: str, error: SeamarkError) -> JournalError:
    return JournalError(
        f"change {change} was not started: {error.message}",
        cause=error.cause,
        hint=error.hint,
        context={"change": change, **error.context},
    )


def _left_open(change: str, error: SeamarkError) -> JournalError:
    return JournalError(
        f"change {change} is open in the journal, but its locks were not acquired; no step was applied",
        cause=f"{error.message}: {error.cause}",
        hint=f"finish it: seamark journal resume {change}",
        context={"change": change, **error.context},
    )


def _is_ours(head: Head | None, opening: Opening) -> bool:
    """Return whether the change is already open, because our write succeeded and only its answer was lost."""
    if head is None:
        return False
    if head.nonce != opening.nonce:
        raise _fenced(opening.change, f"{head.by} holds it, last entry at {head.last_at}")
    return True


def _fenced(change: str, cause: str) -> FencedError:
    return FencedError(
        f"change {change} was taken over before its first step",
        cause=cause,
        hint=f"show the change: seamark journal show {change}",
        context={"change": change},
    )


def _refuse_known(clients: JournalClients, opening: Opening) -> None:
    with clients.open_journal_log() as log:
        if has_change(log, opening.change):
            raise AlreadyExistsError(f"the journal already has a change {opening.change}")


def _find_open(clients: JournalClients, heads: dict[str, Head], change: str, *, expected_nonce: str | None) -> Head:
    head = heads.get(change)
    if head is None:
        with clients.open_journal_log() as log:
            entries = read_change(log, change)
        raise _closed(entries)
    if expected_nonce is not None and expected_nonce != head.nonce:
        raise _other_nonce(head.by, head.nonce, change=change, expected=expected_nonce, last_at=head.last_at)
    return head


def _read_fenced(clients: JournalClients, change: str, *, head: Head) -> tuple[Entry, ...]:
    with clients.open_journal_log() as log:
        entries = read_change(log, change)
    check_tail(entries, head)
    if entries[-1].kind is EntryKind.CLOSE:
        raise _closed(entries)
    if find_nonce(entries) != head.nonce:
        newest = find_hold(entries)
        raise _other_nonce(newest.by, find_nonce(entries), change=change, expected=head.nonce, last_at=entries[-1].at)
    return entries


def _closed(entries: tuple[Entry, ...]) -> RefusedError:
    change = entries[0].change
    if entries[-1].kind is EntryKind.CLOSE:
        message = f"change {change} is closed; there is nothing to take over"
    else:
        message = f"change {change} has no head record and no close entry"
    return RefusedError(message, hint=f"show the change: seamark journal show {change}", context={"change": change})


def _other_nonce(by: str, nonce: str, *, change: str, expected: str, last_at: str) -> LockedError:
    return LockedError(
        f"the holder of change {change} is {nonce}, not {expected}",
        cause=f"{by} holds it, last entry at {last_at}",
        hint=f"show the change again, then decide: seamark journal show {change}",
        context={"change": change, "nonce": nonce, "by": by},
    )
