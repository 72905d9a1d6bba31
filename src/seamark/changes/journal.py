"""The journal's Protocol: what a place that records changes must be able to do.

Taking the locks and writing the journal are one thing: whoever may write the change's next entry holds its locks, and
who has lost them finds out at its next entry, which is before its next act.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from seamark.changes.actor import Actor, ClockMark
from seamark.core.strict_json import StoredFormat, check_format
from seamark.errors import TamperedJournalError

# A change is a row of entries with sequence numbers from 0: one `open`, then for each step an `intent` before it acts
# and an `outcome` after it was observed, `note`s in between, `taken` where another process took the change over, and
# one `close`. Each entry holds the hash of the one before it, so that a changed, missing or foreign entry is seen.

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


@dataclass(frozen=True, slots=True)
class Head:
    """Where a change stands, as its newest entry says. `spec` is the spec that its plan came from, if it did."""

    change: str
    title: str
    by: str
    opened_at: str
    last_at: str
    last_kind: EntryKind
    last_number: int
    last_hash: str
    locks: tuple[str, ...]
    nonce: str
    step: str = ""
    ending: str = ""
    spec: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the change has not been closed."""
        return self.last_kind is not EntryKind.CLOSE


@dataclass(frozen=True, slots=True)
class OpenChange:
    """What is left to do of a change that isn't finished, and on which clusters.

    `restores` are the steps that run in any case, such as restoring a connector's state: closing the change runs them.
    """

    change: str
    title: str
    holder: str
    held_since: str
    last: str
    last_at: str
    targets: tuple[str, ...]
    subjects: tuple[str, ...]
    remaining: tuple[str, ...]
    restores: tuple[str, ...]


def find_spec(opened: Mapping[str, Any]) -> str:
    """The id of the spec that a change came from, told by the body of its `open` entry; "" where there is none."""
    plan = opened.get("plan")
    spec = plan.get("spec") if isinstance(plan, Mapping) else None
    return str(spec.get("id", "")) if isinstance(spec, Mapping) else ""


KEY_FORMAT = StoredFormat("journal key", 1)
_FIELDS = ("fingerprint", "by", "at", "previous", "signature", "previous_signature")


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """The key of a journal, as the journal stores it.

    `by` recorded it at the time `at`. `signature` is made with the key itself. After a rotation, `previous` is the
    fingerprint of the key before it, and `previous_signature` is made with that one: a holder of the previous key can
    check that another holder of it rotated the key.
    """

    fingerprint: str
    by: str
    at: str
    previous: str = ""
    signature: str = ""
    previous_signature: str = ""

    @property
    def signed_text(self) -> str:
        """What both signatures are made over. The first word keeps it apart from the text of an entry."""
        return json.dumps(["journal-key", self.fingerprint, self.previous, self.by, self.at], ensure_ascii=False)

    def to_bytes(self) -> bytes:
        """Return the record as it is stored."""
        body = {**KEY_FORMAT.field, **{name: getattr(self, name) for name in _FIELDS}}
        return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def parse_key_record(data: bytes, *, where: str) -> KeyRecord:
    """Return a stored record. `where` is its location, for errors.

    Raises:
        FormatVersionError: it has another format version.
        TamperedJournalError: it is something else.
    """
    try:
        body: Any = json.loads(data)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise _build_unreadable(where)
    check_format(KEY_FORMAT, body, where=where)
    if not all(isinstance(body.get(name), str) for name in _FIELDS):
        raise _build_unreadable(where)
    return KeyRecord(**{name: body[name] for name in _FIELDS})


def _build_unreadable(where: str) -> TamperedJournalError:
    return TamperedJournalError(
        f"{where} is not a record of the journal's key",
        hint="find out what else writes to the journal; only seamark may",
    )


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


class JournalPort(Protocol):
    """Storage for changes."""

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


# The time in an entry is that of the writer's wall clock, which may be off by hours. Two other clocks can be used:
# the clock of the machine since its start, where the same machine resumes the change, and the clock of the brokers,
# which give the heads of the Kafka journal their times. Without either, an entry counts as written at the takeover,
# and the process that resumes the change waits the whole time.

_KEY = "clock"


def build_mark(actor: Actor) -> dict[str, Any]:
    """Return what an entry holds of the time at which it is written, for a process of the same machine."""
    mark = actor.mark()
    return {} if mark is None else {_KEY: mark.to_dict()}


def find_latest_write(entry: Entry, writer: JournalWriter, actor: Actor, *, taken_at: float, now: float) -> float:
    """Return when an entry was written at the latest, on the clock of this process.

    `taken_at` is when this process had taken the change over, and `now` the present time, both on that clock.
    """
    mark = actor.mark()
    age = 0.0 if mark is None else mark.measure_since(ClockMark.from_dict(entry.body.get(_KEY)))
    return min(taken_at - writer.measure_age(entry.number), now - age)
