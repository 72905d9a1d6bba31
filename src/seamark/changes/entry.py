"""Journal entries: the write-ahead record of one change, chained by hashes.

A change is a row of entries with sequence numbers from 0: one `open`, then for each step an `intent` before it acts and
an `outcome` after it was observed, `note`s in between, `taken` where another process took the change over, and one
`close`. Each entry holds the hash of the one before it, so that a changed, missing or foreign entry is seen.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from seamark.core.format_version import StoredFormat, check_format
from seamark.errors import TamperedJournalError

ENTRY_FORMAT = StoredFormat("journal entry", 1)
NO_HASH = "0" * 64


class EntryKind(StrEnum):
    """What an entry records."""

    OPEN = "open"
    INTENT = "intent"
    OUTCOME = "outcome"
    NOTE = "note"
    TAKEN = "taken"
    CLOSE = "close"


class Ending(StrEnum):
    """How a change ended, in its `close` entry's body under "ending"."""

    DONE = "done"
    PARTLY = "partly"
    FAILED = "failed"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class Entry:
    """One journal entry. `body` is JSON; `previous` is the hash of the entry before it in the same change."""

    change: str
    number: int
    kind: EntryKind
    at: str
    by: str
    body: Mapping[str, Any] = field(default_factory=dict)
    previous: str = NO_HASH
    # Of an entry that was read: the hash of those bytes, which are its own spelling. A copy with other fields has none.
    _read_hash: str = field(default="", init=False, repr=False, compare=False)

    def to_bytes(self) -> bytes:
        """The one spelling that is stored and hashed: sorted keys, no spaces, UTF-8."""
        body = {
            **ENTRY_FORMAT.field,
            "change": self.change,
            "number": self.number,
            "kind": str(self.kind),
            "at": self.at,
            "by": self.by,
            "body": self.body,
            "previous": self.previous,
        }
        return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    @property
    def hash(self) -> str:
        """SHA-256 over the stored bytes."""
        return self._read_hash or hashlib.sha256(self.to_bytes()).hexdigest()

    @classmethod
    def from_bytes(cls, data: bytes, *, where: str = "a journal entry") -> Entry:
        """Read what `to_bytes` gave; anything else is refused by name. `where` is its location, for errors."""
        try:
            body = json.loads(data)
            check_format(ENTRY_FORMAT, body, where=where)
            entry = cls(
                change=body["change"],
                number=body["number"],
                kind=EntryKind(body["kind"]),
                at=body["at"],
                by=body["by"],
                body=body["body"],
                previous=body["previous"],
            )
        except (ValueError, KeyError, TypeError) as error:
            raise TamperedJournalError("a journal entry can't be read", cause=str(error)) from None
        if entry.to_bytes() != data:
            raise TamperedJournalError(f"entry {entry.number} of change {entry.change} is not as seamark writes it")
        object.__setattr__(entry, "_read_hash", hashlib.sha256(data).hexdigest())
        return entry


def check_chain(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Give the entries of one change back if each follows from the one before it; else name the first that does not."""
    checked: list[Entry] = []
    for entry in entries:
        expected_number = len(checked)
        expected_hash = checked[-1].hash if checked else NO_HASH
        if checked and entry.change != checked[0].change:
            raise TamperedJournalError(f"entry {entry.number} of change {entry.change} stands in another change")
        if entry.number != expected_number:
            raise TamperedJournalError(
                f"entry {expected_number} of change {entry.change} is missing",
                cause=f"entry {entry.number} stands there",
            )
        if entry.previous != expected_hash:
            raise TamperedJournalError(
                f"entry {entry.number} of change {entry.change} does not follow from the one before it",
                cause="an entry was changed, or two holders wrote at once",
            )
        checked.append(entry)
    return tuple(checked)
