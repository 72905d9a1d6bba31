"""The checks of a journal's key: whether a change may begin with it, and whether it may be recorded or rotated.

The record selects nothing and proves nothing about entries: those are checked by their own signatures. Whoever can
write the journal can replace the record, and reaches only that commands are refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from seamark.changes.head import Head
from seamark.changes.key_record import KeyRecord
from seamark.changes.sealing import KeyRing, SealKey
from seamark.errors import LockedError, RefusedError, TamperedJournalError

_MOST_SHOWN = 5


def build_key_record(key: SealKey, *, by: str, at: str, previous: SealKey | None = None) -> KeyRecord:
    """Return the signed record of a key; after a rotation signed with the previous key too."""
    record = KeyRecord(key.fingerprint, by, at, previous.fingerprint if previous else "")
    return KeyRecord(
        record.fingerprint,
        by,
        at,
        record.previous,
        key.seal(record.signed_text),
        previous.seal(record.signed_text) if previous else "",
    )


def check_record(record: KeyRecord, key: SealKey) -> None:
    """Refuse a record with the fingerprint of a key that wasn't signed with the key.

    Raises:
        TamperedJournalError: a holder of the key didn't write the record.
    """
    if record.signature != key.seal(record.signed_text):
        raise TamperedJournalError(
            f"the record of the journal's key {record.fingerprint} wasn't written by seamark; no changes were made",
            cause="its signature doesn't match its content",
            hint="find out what else writes to the journal; only seamark may",
        )


def is_rotated_from(record: KeyRecord, keys: KeyRing) -> bool:
    """Return whether a holder of our current key rotated the journal's key."""
    return record.previous == keys.current.fingerprint and record.previous_signature == keys.current.seal(
        record.signed_text
    )


def check_same_key(recorded: KeyRecord | None, mine: KeyRecord | None) -> None:
    """Refuse a change whose key isn't the journal's, where changes are begun: the key may have been rotated since.

    Raises:
        RefusedError: the journal has another key.
    """
    if recorded is not None and mine is not None and recorded.fingerprint != mine.fingerprint:
        raise RefusedError(
            "the journal has another key than this process; no changes were made",
            cause=f"{recorded.by} recorded key {recorded.fingerprint} at {recorded.at}; "
            f"this process has {mine.fingerprint}",
            hint="run the command again: it explains which key is missing",
        )


def check_recordable(recorded: KeyRecord | None, record: KeyRecord, open_heads: Sequence[Head]) -> None:
    """Refuse to record a key over another one than its previous one, or to rotate the key while a change is open.

    Entries of one change have one key, so that a rotation waits for all changes.

    Raises:
        RefusedError: the key of the journal isn't the expected one.
        LockedError: a change is open.
    """
    found = recorded.fingerprint if recorded is not None else ""
    if found != record.previous:
        raise RefusedError(
            "the key of the journal was recorded by another process; no changes were made",
            cause=f"it is {found or 'not recorded'}, expected {record.previous or 'none'}",
            hint="run the command again",
        )
    if record.previous and open_heads:
        raise build_open(open_heads)


def build_open(open_heads: Sequence[Head]) -> LockedError:
    """Return the error for a rotation while changes are open."""
    more = len(open_heads) - _MOST_SHOWN
    first = open_heads[0]
    return LockedError(
        "the journal's key can't be rotated while a change is open; no changes were made",
        cause="; ".join(f"{head.change} ({head.title}), held by {head.by}" for head in open_heads[:_MOST_SHOWN])
        + (f"; and {more} more" if more > 0 else ""),
        hint=f"wait for it, or finish it: seamark journal resume {first.change}",
        context={"change": first.change},
    )
