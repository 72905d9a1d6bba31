"""A journal whose entries carry a keyed hash, so that an entry written without the journal's key is refused.

The hash chain of entries shows that none was changed or left out, but anybody who may write to the journal can compute
it. Resume and undo act on what entries say: they accept entries of holders of the key only (`check_signatures`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from seamark.changes.entry import Entry, EntryKind
from seamark.changes.head import Head
from seamark.changes.journal import Journal, JournalWriter, Opening
from seamark.changes.journal_key import build_key_record
from seamark.changes.key_record import KeyRecord
from seamark.changes.sealing import KeyRing
from seamark.errors import TamperedJournalError

SIGNATURE = "signature"
# What the journal adds to the body of the first entry.
_ADDED = frozenset({"nonce"})

Seal = Callable[[str], str]
"""Returns the keyed hash of a text."""


class SignedJournal:
    """A `Journal` that signs what is written to another one. `find_keys` is called when something is signed."""

    def __init__(self, journal: Journal, find_keys: Callable[[], KeyRing]) -> None:
        self._journal = journal
        self._find_keys = find_keys

    def begin(self, opening: Opening) -> JournalWriter:
        """See `Journal.begin`."""
        body = {**opening.body, "title": opening.title, "locks": list(opening.locks)}
        key = self._find_keys().current
        signature = _sign(key.seal, opening.change, 0, EntryKind.OPEN, body)
        record = build_key_record(key, by=opening.by, at=opening.at)
        signed = replace(opening, body={**opening.body, SIGNATURE: signature}, key=record)
        return _SignedWriter(self._journal.begin(signed), key.seal)

    def take_over(
        self, change: str, *, nonce: str, by: str, at: str, expected_nonce: str | None = None
    ) -> JournalWriter:
        """See `Journal.take_over`. The entry of a takeover isn't signed: it names the new holder only.

        Signatures are checked under the lock, because an entry may have been added since the change was read.

        Raises:
            TamperedJournalError: an entry was not written with the key. The change stays open.
        """
        key = self._find_keys().current
        writer = self._journal.take_over(change, nonce=nonce, by=by, at=at, expected_nonce=expected_nonce)
        try:
            check_signatures(writer.entries, key.seal)
        except TamperedJournalError:
            writer.release()
            raise
        return _SignedWriter(writer, key.seal)

    def read(self, change: str) -> tuple[Entry, ...]:
        """See `Journal.read`. Signatures are not checked: anybody may look."""
        return self._journal.read(change)

    def heads(self, *, limit: int | None = None) -> tuple[Head, ...]:
        """See `Journal.heads`."""
        return self._journal.heads(limit=limit)

    def open_heads(self) -> tuple[Head, ...]:
        """See `Journal.open_heads`."""
        return self._journal.open_heads()

    def read_key(self) -> KeyRecord | None:
        """See `Journal.read_key`."""
        return self._journal.read_key()

    def record_key(self, record: KeyRecord) -> None:
        """See `Journal.record_key`."""
        self._journal.record_key(record)

    def close(self) -> None:
        """See `Journal.close`."""
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
        TamperedJournalError: an entry has no signature, or that of other content.
    """
    for entry in entries:
        if entry.kind is EntryKind.TAKEN:
            continue
        body = {key: value for key, value in entry.body.items() if key != SIGNATURE}
        if entry.kind is EntryKind.OPEN:
            body = {key: value for key, value in body.items() if key not in _ADDED}
        if entry.body.get(SIGNATURE) != _sign(seal, entry.change, entry.number, entry.kind, body):
            raise TamperedJournalError(
                f"entry {entry.number} of change {entry.change} was not written by seamark with this journal's key",
                cause="its signature doesn't match its content",
                hint=f"find out who wrote it: seamark journal show {entry.change}; nothing was changed",
            )


def _sign(seal: Seal, change: str, number: int, kind: EntryKind, body: Mapping[str, Any]) -> str:
    """Return the signature of an entry at its place: a copy in another change or at another place has another one."""
    signed = [change, number, str(kind), body]
    return seal(json.dumps(signed, sort_keys=True, separators=(",", ":"), ensure_ascii=False))
