"""Getting a change's locks: by beginning it, or by taking it over."""

from __future__ import annotations

from collections.abc import Callable

from seamark.changes.entry import Ending, Entry, EntryKind
from seamark.changes.journal import Head, Opening
from seamark.changes.journal_key import check_recordable, check_same_key
from seamark.changes.kafka_journal.clients import JournalClients
from seamark.changes.kafka_journal.gate import Gate
from seamark.changes.kafka_journal.heads import HeadTrack
from seamark.changes.kafka_journal.hold import LockHold
from seamark.changes.kafka_journal.names import KEY_KEY, JournalNames, sorted_locks
from seamark.changes.kafka_journal.reader import check_tail, has_change, read_change
from seamark.changes.kafka_journal.writer import KafkaJournalWriter, build_change_records, build_entry
from seamark.changes.key_record import KeyRecord
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


def begin_change(clients: JournalClients, opening: Opening, *, now: Callable[[], float]) -> KafkaJournalWriter:
    """Pass the gate, find the locks free, write the `open` entry, take the locks' ids.

    The `open` entry is written by the gate's own id, before the locks' ids are taken: it is what makes the locks ours,
    and it can't be written by one who was too slow. So taking the ids fences nobody who holds them rightly. A crash
    between the two leaves an open change without a step, to be resumed.
    """
    body = {**opening.body, "title": opening.title, "locks": list(opening.locks), "nonce": opening.nonce}
    entry = build_entry(opening.change, EntryKind.OPEN, body, by=opening.by, at=opening.at, after=None)
    records = build_change_records([entry], HeadTrack(entry).head, names=clients.names, now=now())
    with (
        Gate(clients, by=opening.by) as gate,
        LockHold(clients, sorted_locks(opening.change, opening.locks)) as hold,
    ):
        # Most refusals are seen without disturbing anybody.
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
                # We slept after our opening was written, and another process resumed the change to its end.
                raise _fenced(opening.change, "it was closed")
            check_same_key(gate.board.key, opening.key)
            gate.board.refuse_conflict(opening)
            is_open = _write_opening(gate, opening, records=[*_build_first_key(gate, opening), *records])
        if is_open and gate.is_fresh:
            break
        # We slept, or somebody was faster: look again. An opening that was written is seen then.
        gate.leave()
    try:
        hold.take()
    except SeamarkError as error:
        raise _close_unheld(gate, entry, error=error, now=now()) from None
    # A nap just before the taking is only seen now: what somebody took over meanwhile is not ours to write.
    try:
        gate.board.catch_up()
    except SeamarkError as error:
        raise _left_open(opening.change, error) from None
    if not _is_ours(gate.board.heads.get(opening.change), opening):
        raise _fenced(opening.change, "it was closed")


def record_key(clients: JournalClients, record: KeyRecord) -> None:
    """Pass the gate, so that no change begins meanwhile, and write the record of the journal's key."""
    with Gate(clients, by=record.by) as gate:
        # Most refusals are seen without disturbing others.
        gate.board.catch_up()
        if not _is_recorded(gate, record):
            check_recordable(gate.board.key, record, gate.board.open_heads())
        while not _is_recorded(gate, record):
            gate.enter()
            if not _is_recorded(gate, record):
                check_recordable(gate.board.key, record, gate.board.open_heads())
                gate.write([_build_key_record(record, names=clients.names)])
                # Whether it was written or the gate was lost, the topic says.
                gate.board.catch_up()
            gate.leave()


def _is_recorded(gate: Gate, record: KeyRecord) -> bool:
    return gate.board.key is not None and gate.board.key.fingerprint == record.fingerprint


def _build_first_key(gate: Gate, opening: Opening) -> list[Outgoing]:
    """The record of the key, where the journal has none: the first change makes it, in the same transaction."""
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
            f"change {opening.change} was not begun: {error.message}",
            cause=error.cause,
            hint=f"{error.hint}; no step was done. If seamark journal list --open shows it: "
            f"seamark journal resume {opening.change}",
            context={"change": opening.change, **error.context},
        ) from None


def _close_unheld(gate: Gate, entry: Entry, *, error: SeamarkError, now: float) -> SeamarkError:
    """Close a change whose locks' ids we did not get, as the one who is in the gate. Gives the error to raise."""
    body = {"ending": str(Ending.FAILED), "error": error.as_dict()}
    close = build_entry(entry.change, EntryKind.CLOSE, body, by=entry.by, at=entry.at, after=entry)
    head = HeadTrack(entry).preview(close)
    try:
        is_closed = gate.write(build_change_records([close], head, names=gate.names, now=now))
    except SeamarkError:
        is_closed = False
    # A lack of rights has its own exit code; all else is a journal that can't be written.
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
    """Pass the gate, fence the holder by taking its locks' ids, read what it wrote, write a `taken` entry."""
    with Gate(clients, by=by) as gate:
        gate.board.catch_up()
        head = _find_open(clients, gate.board.heads, change, expected_nonce=expected_nonce)
        # Entries of another format version are refused here: `hold.take` fences the holder.
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
            # From here on nothing of the former holder is written any more; what it wrote until now counts.
            entries = _read_fenced(clients, change, head=head)
            ages = gate.board.measure_ages(change)
            writer = KafkaJournalWriter(hold, entries, names=clients.names, by=by, now=now, ages=ages)
            former = _newest_nonce(entries)
            writer.append_all([(EntryKind.TAKEN, {"nonce": nonce, "from": former})], at=at)
            hold.keep()
    return writer


def _not_begun(change: str, error: SeamarkError) -> JournalError:
    return JournalError(
        f"change {change} was not begun: {error.message}",
        cause=error.cause,
        hint=error.hint,
        context={"change": change, **error.context},
    )


def _left_open(change: str, error: SeamarkError) -> JournalError:
    return JournalError(
        f"change {change} is open in the journal, and its locks could not be taken; no step was done",
        cause=f"{error.message}: {error.cause}",
        hint=f"seamark journal resume {change}",
        context={"change": change, **error.context},
    )


def _is_ours(head: Head | None, opening: Opening) -> bool:
    """Whether the change is open already: an answer to our own writing was lost, and it was done."""
    if head is None:
        return False
    if head.nonce != opening.nonce:
        raise _fenced(opening.change, f"{head.by} has held it since, last entry at {head.last_at}")
    return True


def _fenced(change: str, cause: str) -> FencedError:
    return FencedError(
        f"change {change} was taken over before its first step",
        cause=cause,
        hint=f"seamark journal show {change}",
        context={"change": change},
    )


def _refuse_known(clients: JournalClients, opening: Opening) -> None:
    with clients.open_journal_log() as log:
        if has_change(log, opening.change):
            raise AlreadyExistsError(f"the journal has a change {opening.change} already")


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
    if _newest_nonce(entries) != head.nonce:
        newest = _newest_hold(entries)
        raise _other_nonce(
            newest.by, _newest_nonce(entries), change=change, expected=head.nonce, last_at=entries[-1].at
        )
    return entries


def _newest_hold(entries: tuple[Entry, ...]) -> Entry:
    return next((entry for entry in reversed(entries) if entry.kind is EntryKind.TAKEN), entries[0])


def _newest_nonce(entries: tuple[Entry, ...]) -> str:
    return str(_newest_hold(entries).body.get("nonce", ""))


def _closed(entries: tuple[Entry, ...]) -> RefusedError:
    change = entries[0].change
    if entries[-1].kind is EntryKind.CLOSE:
        message = f"change {change} is closed; there is nothing to take over"
    else:
        message = f"change {change} has no head in the topic of heads, and no close entry"
    return RefusedError(message, hint=f"seamark journal show {change}", context={"change": change})


def _other_nonce(by: str, nonce: str, *, change: str, expected: str, last_at: str) -> LockedError:
    return LockedError(
        f"change {change} is held under nonce {nonce}, not {expected}",
        cause=f"{by} holds it, last entry at {last_at}",
        hint=f"look again before you decide: seamark journal show {change}",
        context={"change": change, "nonce": nonce, "by": by},
    )
