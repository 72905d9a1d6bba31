"""The journal's Protocol: what a place that records changes must be able to do.

Taking the locks and writing the journal are one thing: whoever may write the change's next entry holds its locks, and
who has lost them finds out at its next entry, which is before its next act.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from seamark.changes.entry import Entry, EntryKind
from seamark.changes.head import Head
from seamark.changes.key_record import KeyRecord

__all__ = ["Head", "Journal", "JournalWriter", "Opening"]


@dataclass(frozen=True, slots=True)
class Opening:
    """What the first entry of a change says. `nonce` is new for each holder: it names this hold of the locks.

    `body` is written into the `open` entry beside locks and nonce: the plan, the actor, what the change undoes. `key`
    is the key that signs the change: it must be the journal's, and is recorded where the journal has none yet.
    """

    change: str
    title: str
    by: str
    at: str
    nonce: str
    locks: tuple[str, ...]
    body: Mapping[str, Any] = field(default_factory=dict)
    key: KeyRecord | None = None


class JournalWriter(Protocol):
    """The hold of one change's locks, and the pen of its entries."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every entry of the change, the ones before a take-over too."""
        ...

    def append(self, kind: EntryKind, body: Mapping[str, Any]) -> Entry:
        """Write one entry; it is durable when this returns.

        Raises:
            FencedError: somebody took the change over; nothing was written.
            JournalError: the entry could not be written, or it is unknown whether it was. No further act is allowed.
        """
        ...

    def append_all(self, entries: Sequence[tuple[EntryKind, Mapping[str, Any]]]) -> tuple[Entry, ...]:
        """Write several entries in one go: all of them are durable when this returns. Raises as `append` does.

        Where it fails, some of them may be written, from the first on.
        """
        ...

    def measure_age(self, number: int) -> float:
        """Return the seconds that certainly passed from an entry of a previous holder to the takeover.

        They are measured by a clock of the journal itself, never by that of the previous holder; 0.0 where the journal
        has none.
        """
        ...

    def release(self) -> None:
        """Give the locks back. After a `close` entry the change is over; without one it stays open, to be resumed."""
        ...


class Journal(Protocol):
    """A place that keeps changes."""

    def begin(self, opening: Opening) -> JournalWriter:
        """Take the locks in sorted order and write the `open` entry.

        A lock conflicts with the same lock, and `connect.GROUP` with every lock of that Connect cluster's connectors:
        those carry it as the part behind `@` (see `changes/locks.py`).

        Raises:
            RefusedError: the journal has another key than the opening.
            LockedError: an open change of somebody else holds a lock that conflicts. Nothing was pre-empted.
            JournalError: the journal can't be written.
        """
        ...

    def take_over(
        self, change: str, *, nonce: str, by: str, at: str, expected_nonce: str | None = None
    ) -> JournalWriter:
        """Take an open change over: fence its holder, write a `taken` entry with the new nonce.

        With `expected_nonce`, refuse (LockedError) unless the present holder's nonce is that one.
        """
        ...

    def read(self, change: str) -> tuple[Entry, ...]:
        """Every entry of a change, its chain checked. NotFoundError if there is none. An id may be shortened."""
        ...

    def heads(self, *, limit: int | None = None) -> tuple[Head, ...]:
        """Changes, the newest first."""
        ...

    def open_heads(self) -> tuple[Head, ...]:
        """Every change that is still open. Cheap: it must not read the whole journal."""
        ...

    def read_key(self) -> KeyRecord | None:
        """Return the record of the journal's key; None where none was recorded yet."""
        ...

    def record_key(self, record: KeyRecord) -> None:
        """Record the journal's key, while no change can begin. Does nothing where it is recorded already.

        Raises:
            RefusedError: the journal's key isn't `record.previous`.
            LockedError: the record is that of a rotation, and a change is open.
        """
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...
