"""A journal whose entries carry a keyed hash, so that an entry written without the journal's key is refused.

The hash chain of the entries shows that none was changed or omitted, but any process with write access to the journal
can compute it. Resume and undo act on the contents of entries, so they accept only entries that were written with the
key (`check_signatures`).
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from seamark.changes.environment import Clock, Environment
from seamark.changes.journal import Entry, EntryKind, Head, JournalPort, JournalWriter, KeyRecord, Opening
from seamark.core.refs import Port
from seamark.errors import LockedError, RefusedError, TamperedJournalError

# The format of a seal is `hmac-sha256:KEY:HASH`. KEY is a short name of the key, so that a seal by another key isn't
# mistaken for a changed secret; `find_key_names` of `seamark.changes.images` reads it. A secret can't be computed from
# its seal.

P = TypeVar("P")
_NAME_LENGTH = 8
# 128 bits: two keys don't get the same fingerprint by accident, and a collision can't be searched for.
_FINGERPRINT_LENGTH = 32


@dataclass(frozen=True, slots=True)
class SealKey:
    """One key of a journal."""

    key: bytes = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """What the journal stores of the key. The key can't be computed from it."""
        digest = hmac.new(self.key, b"seamark: the name of this key", hashlib.sha256).hexdigest()
        return digest[:_FINGERPRINT_LENGTH]

    @property
    def name(self) -> str:
        """The short name of the key that is part of each seal."""
        return self.fingerprint[:_NAME_LENGTH]

    def seal(self, value: str) -> str:
        """Return the seal of a secret, or the signature of a text."""
        return f"hmac-sha256:{self.name}:{hmac.new(self.key, value.encode(), hashlib.sha256).hexdigest()}"


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The keys of one context: `current` seals and signs, `previous` keys only verify closed changes."""

    current: SealKey
    previous: tuple[SealKey, ...] = ()

    @property
    def keys(self) -> tuple[SealKey, ...]:
        """Every key, the current one first."""
        return (self.current, *self.previous)

    def find_previous(self, fingerprint: str) -> SealKey | None:
        """Return the previous key with a fingerprint; None if there is none."""
        return next((key for key in self.previous if key.fingerprint == fingerprint), None)


@dataclass(frozen=True, slots=True)
class SealingEnvironment:
    """An `Environment` that seals with another key, to compare with images that were sealed with that key."""

    _world: Environment
    _key: SealKey

    @property
    def clock(self) -> Clock:
        """The clock of the wrapped environment."""
        return self._world.clock

    def use(self, port: Port[P]) -> P:
        """Return the capability of the wrapped environment."""
        return self._world.use(port)

    def reveal(self, reference: str) -> str:
        """Return the value behind a reference."""
        return self._world.reveal(reference)

    def seal(self, value: str) -> str:
        """Return the seal with the other key."""
        return self._key.seal(value)


# The record selects nothing and proves nothing about entries: those are checked by their own signatures. An attacker
# who can write the journal can replace the record, but only causes commands to be refused.

_MOST_SHOWN = 5


def build_key_record(key: SealKey, *, by: str, at: str, previous: SealKey | None = None) -> KeyRecord:
    """Build the signed record of a key. After a rotation, the previous key signs it, too."""
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
    """Refuse a record that has the fingerprint of a key but wasn't signed with that key.

    Raises:
        TamperedJournalError: a holder of the key didn't write the record.
    """
    if record.signature != key.seal(record.signed_text):
        raise TamperedJournalError(
            f"the record of the journal's key {record.fingerprint} wasn't written by seamark; no changes were made",
            cause="its signature doesn't match its content",
            hint="find the program that writes to the journal; only seamark may",
        )


def is_rotated_from(record: KeyRecord, keys: KeyRing) -> bool:
    """Return whether a holder of our current key rotated the journal's key."""
    return record.previous == keys.current.fingerprint and record.previous_signature == keys.current.seal(
        record.signed_text
    )


def check_same_key(recorded: KeyRecord | None, mine: KeyRecord | None) -> None:
    """Refuse to begin a change whose key isn't the journal's, because the key may have been rotated since.

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
    """Refuse to replace a key other than the recorded previous one, or to rotate the key while a change is open.

    All entries of a change are signed with one key, so a rotation must wait until all changes are closed.

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
    """Build the error for a rotation while changes are open."""
    more = len(open_heads) - _MOST_SHOWN
    first = open_heads[0]
    return LockedError(
        "the journal's key can't be rotated while a change is open; no changes were made",
        cause="; ".join(f"{head.change} ({head.title}), held by {head.by}" for head in open_heads[:_MOST_SHOWN])
        + (f"; and {more} more" if more > 0 else ""),
        hint=f"wait for it, or finish it: seamark journal resume {first.change}",
        context={"change": first.change},
    )


SIGNATURE = "signature"
# The fields that the journal adds to the body of the first entry.
_ADDED = frozenset({"nonce"})

Seal = Callable[[str], str]
"""Returns the keyed hash of a text."""


class SignedJournal:
    """A `JournalPort` that signs what it writes to another one. `find_keys` is called when something is signed."""

    def __init__(self, journal: JournalPort, find_keys: Callable[[], KeyRing]) -> None:
        self._journal = journal
        self._find_keys = find_keys
        # How many changes this process has begun or taken over. What is read under the locks of one is valid meanwhile.
        self.begun = 0

    def begin(self, opening: Opening) -> JournalWriter:
        """See `JournalPort.begin`."""
        body = {**opening.body, "title": opening.title, "locks": list(opening.locks)}
        key = self._find_keys().current
        signature = _sign(key.seal, opening.change, 0, EntryKind.OPEN, body)
        record = build_key_record(key, by=opening.by, at=opening.at)
        signed = replace(opening, body={**opening.body, SIGNATURE: signature}, key=record)
        writer = self._journal.begin(signed)
        self.begun += 1
        return _SignedWriter(writer, key.seal)

    def take_over(
        self, change: str, *, nonce: str, by: str, at: str, expected_nonce: str | None = None
    ) -> JournalWriter:
        """See `JournalPort.take_over`. The entry of a takeover isn't signed, because it only names the new holder.

        Signatures are checked while the lock is held, because an entry may have been added since the change was read.

        Raises:
            TamperedJournalError: an entry was not written with the key. The change stays open.
        """
        key = self._find_keys().current
        writer = self._journal.take_over(change, nonce=nonce, by=by, at=at, expected_nonce=expected_nonce)
        self.begun += 1
        try:
            check_signatures(writer.entries, key.seal)
        except TamperedJournalError:
            writer.release()
            raise
        return _SignedWriter(writer, key.seal)

    def read(self, change: str) -> tuple[Entry, ...]:
        """See `JournalPort.read`. Signatures aren't checked: reading doesn't require the key."""
        return self._journal.read(change)

    def heads(self, *, limit: int | None = None) -> tuple[Head, ...]:
        """See `JournalPort.heads`."""
        return self._journal.heads(limit=limit)

    def open_heads(self) -> tuple[Head, ...]:
        """See `JournalPort.open_heads`."""
        return self._journal.open_heads()

    def read_key(self) -> KeyRecord | None:
        """See `JournalPort.read_key`."""
        return self._journal.read_key()

    def record_key(self, record: KeyRecord) -> None:
        """See `JournalPort.record_key`."""
        self._journal.record_key(record)

    def close(self) -> None:
        """See `JournalPort.close`."""
        self._journal.close()


@dataclass(frozen=True, slots=True)
class _SignedWriter:
    """A `JournalWriter` that signs what it writes."""

    _writer: JournalWriter
    _seal: Seal

    @property
    def entries(self) -> tuple[Entry, ...]:
        return self._writer.entries

    def append(self, kind: EntryKind, body: Mapping[str, Any]) -> Entry:
        (entry,) = self.append_all([(kind, body)])
        return entry

    def append_all(self, entries: Sequence[tuple[EntryKind, Mapping[str, Any]]]) -> tuple[Entry, ...]:
        before = self._writer.entries
        change, first = before[0].change, len(before)
        return self._writer.append_all(
            [
                (kind, {**body, SIGNATURE: _sign(self._seal, change, first + place, kind, body)})
                for place, (kind, body) in enumerate(entries)
            ]
        )

    def measure_age(self, number: int) -> float:
        return self._writer.measure_age(number)

    def release(self) -> None:
        self._writer.release()


def check_signatures(entries: Sequence[Entry], seal: Seal) -> None:
    """Refuse a change with an entry that a holder of the key didn't write.

    Raises:
        TamperedJournalError: an entry has no signature, or one for other content.
    """
    for entry in entries:
        if entry.kind is EntryKind.TAKEN:
            continue
        body = {key: value for key, value in entry.body.items() if key != SIGNATURE}
        if entry.kind is EntryKind.OPEN:
            body = {key: value for key, value in body.items() if key not in _ADDED}
        if entry.body.get(SIGNATURE) != _sign(seal, entry.change, entry.number, entry.kind, body):
            raise TamperedJournalError(
                f"entry {entry.number} of change {entry.change} was not written by seamark with this journal's key; "
                "no changes were made",
                cause="its signature doesn't match its content",
                hint=f"find out who wrote it: seamark journal show {entry.change}",
            )


def _sign(seal: Seal, change: str, number: int, kind: EntryKind, body: Mapping[str, Any]) -> str:
    """Sign an entry including its change and number, so that a copy in another change or position is invalid."""
    signed = [change, number, str(kind), body]
    return seal(json.dumps(signed, sort_keys=True, separators=(",", ":"), ensure_ascii=False))
