"""The journal's protocol: what a storage for changes must provide.

Holding the locks and writing the journal are the same: the process that may write the change's next entry holds its
locks, and a process that has lost them learns that from its next entry, which comes before its next request.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Protocol, Self

from seamark.changes.actor import LENGTH, Actor, ClockMark
from seamark.changes.locks import find_owners
from seamark.core.refs import EVERY_OWNER, TOPIC, OwnerPatterns
from seamark.core.strict_json import StoredFormat, check_format
from seamark.errors import JournalError, NotFoundError, TamperedJournalError, UsageError

# A change is a sequence of entries numbered from 0: one `open`, then for each step an `intent` before it acts and an
# `outcome` after it was observed, `note`s in between, `taken` if another process took the change over, and one `close`.
# Each entry contains the hash of the previous one, so that a changed, missing or foreign entry is detected.

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
    """How a change ended, stored in its `close` entry's body under "ending"."""

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
    # For an entry that was read: the hash of those bytes. A copy with other fields has none.
    _read_hash: str = field(default="", init=False, repr=False, compare=False)

    def to_bytes(self) -> bytes:
        """Return the canonical form that is stored and hashed: sorted keys, no spaces, UTF-8."""
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
        """The SHA-256 of the stored bytes."""
        return self._read_hash or hashlib.sha256(self.to_bytes()).hexdigest()

    @classmethod
    def from_bytes(cls, data: bytes, *, where: str = "a journal entry") -> Entry:
        """Build the entry from what `to_bytes` returned. `where` is its location, for errors.

        Raises:
            FormatVersionError: it has another format version.
            TamperedJournalError: it isn't an entry in the form that seamark writes.
        """
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
            raise TamperedJournalError(
                f"entry {entry.number} of change {entry.change} was modified after it was written"
            )
        object.__setattr__(entry, "_read_hash", hashlib.sha256(data).hexdigest())
        return entry


def check_chain(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return the entries of one change if each follows from the previous one; else name the first that doesn't."""
    checked: list[Entry] = []
    for entry in entries:
        expected_number = len(checked)
        expected_hash = checked[-1].hash if checked else NO_HASH
        if checked and entry.change != checked[0].change:
            raise TamperedJournalError(f"entry {entry.number} of change {entry.change} is stored in another change")
        if entry.number != expected_number:
            raise TamperedJournalError(
                f"entry {expected_number} of change {entry.change} is missing",
                cause=f"found entry {entry.number} instead",
            )
        if entry.previous != expected_hash:
            raise TamperedJournalError(
                f"entry {entry.number} of change {entry.change} doesn't contain the hash of the previous entry",
                cause="an entry was modified, or two processes wrote at the same time",
            )
        checked.append(entry)
    return tuple(checked)


# Functions that all journals share, wherever they store their entries.

# How many changes are named if a shortened ID matches several.
_SHOWN_CANDIDATES = 5


def is_change_id(text: str) -> bool:
    """Return whether this can be a change ID, and so a file name."""
    return len(text) == LENGTH and text.isascii() and text.isalnum() and text == text.upper()


def parse_change_id(change: str) -> str:
    """Return an ID as it is stored; it may be shortened.

    Raises:
        UsageError: it is not an ID.
    """
    wanted = change.strip().upper()
    if not wanted.isascii() or not wanted.isalnum() or len(wanted) > LENGTH:
        raise UsageError(f"invalid change ID {change!r}", hint="list the IDs: seamark journal list")
    return wanted


def choose_change(change: str, found: Sequence[str]) -> str:
    """Return the one change that a shortened ID matches.

    Raises:
        UsageError: it matches several changes.
        NotFoundError: it matches none.
    """
    if not found:
        raise build_not_found(change)
    if len(found) > 1:
        shown = ", ".join(found[:_SHOWN_CANDIDATES])
        more = f" and {len(found) - _SHOWN_CANDIDATES} more" if len(found) > _SHOWN_CANDIDATES else ""
        raise UsageError(
            f"{change} matches {len(found)} changes", cause=f"{shown}{more}", hint="enter more characters of the ID"
        )
    return found[0]


def build_not_found(change: str) -> NotFoundError:
    """Build the error for a change that isn't in the journal."""
    return NotFoundError(
        f"the journal has no change {change}", hint="list the changes: seamark journal list", context={"change": change}
    )


def find_hold(entries: Sequence[Entry]) -> Entry:
    """Return the entry by which the current holder got the change: the newest `taken`, else the `open`."""
    return next((entry for entry in reversed(entries) if entry.kind is EntryKind.TAKEN), entries[0])


def find_nonce(entries: Sequence[Entry]) -> str:
    """Return the nonce of the current holder."""
    return str(find_hold(entries).body.get("nonce", ""))


def build_entries(
    change: str,
    bodies: Iterable[tuple[EntryKind, Mapping[str, Any]]],
    *,
    by: str,
    at: str,
    after: Entry | None = None,
) -> list[Entry]:
    """Build the next entries of a change as they will be read later. They share nothing with the caller's bodies."""
    built: list[Entry] = []
    for kind, body in bodies:
        number = after.number + 1 if after else 0
        previous = after.hash if after else NO_HASH
        entry = Entry(change, number=number, kind=kind, at=at, by=by, body=body, previous=previous)
        try:
            after = Entry.from_bytes(entry.to_bytes())
        except (TypeError, ValueError, RecursionError, TamperedJournalError) as error:
            raise UsageError(f"entry {number} of change {change} can't be written as JSON", cause=str(error)) from None
        built.append(after)
    return built


def build_opening_entry(opening: Opening) -> Entry:
    """Build the `open` entry of a change."""
    body = {**opening.body, "title": opening.title, "locks": list(opening.locks), "nonce": opening.nonce}
    return build_entries(opening.change, [(EntryKind.OPEN, body)], by=opening.by, at=opening.at)[0]


def check_appendable(last: Entry, *, failure: str) -> None:
    """Refuse another entry after the last one; `failure` is the error of an earlier append."""
    if failure:
        raise JournalError(
            f"this process can't write to change {last.change} any more",
            cause=f"earlier: {failure}",
            hint=f"finish it: seamark journal resume {last.change}",
            context={"change": last.change},
        )
    if last.kind is EntryKind.CLOSE:
        raise UsageError(f"change {last.change} is closed and accepts no more entries")


def format_timestamp(now: float) -> str:
    """Return a time, in seconds since the epoch, in UTC and ISO 8601."""
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Head:
    """The state of a change according to its newest entry. `spec` is the spec that its plan was built from, if any."""

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

    @classmethod
    def build(cls, entries: Sequence[Entry], **others: str) -> Self:
        """Build the head of a change. `by` is its current holder, which may have taken the change over."""
        first, last, hold = entries[0], entries[-1], find_hold(entries)
        return cls(
            change=first.change,
            title=str(first.body.get("title", "")),
            by=hold.by,
            opened_at=first.at,
            last_at=last.at,
            last_kind=last.kind,
            last_number=last.number,
            last_hash=last.hash,
            locks=tuple(first.body.get("locks", ())),
            nonce=find_nonce(entries),
            ending=str(last.body.get("ending", "")) if last.kind is EntryKind.CLOSE else "",
            spec=find_spec(first.body),
            **others,
        )

    @property
    def is_open(self) -> bool:
        """Whether the change is still open."""
        return self.last_kind is not EntryKind.CLOSE


@dataclass(frozen=True, slots=True)
class HeadFilter:
    """Which changes are listed: those of owners, opened at or after `since`, by a user, in a state.

    Connectors in `owners` have their worker group as their Connect cluster, as locks do. `by` is a name or a glob, with
    or without host and process. `state` is "open" or an `Ending`, "" for any.
    """

    owners: OwnerPatterns = EVERY_OWNER
    since: str = ""
    by: str = ""
    state: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether every change is accepted."""
        return self == HeadFilter()

    def accepts(self, head: Head) -> bool:
        """Return whether a change is listed."""
        state = OPEN_STATE if head.is_open else head.ending
        if head.opened_at < self.since or self.state not in ("", state) or not self._is_by(head.by):
            return False
        return not self.owners.texts or any(self._matches(owner) for lock in head.locks for owner in find_owners(lock))

    def _is_by(self, by: str) -> bool:
        user = by.rpartition("@")[0]
        names = (by, user, user.removeprefix("claimed:"))
        return not self.by or any(name == self.by or fnmatchcase(name, self.by) for name in names)

    def _matches(self, owner: str) -> bool:
        # A topic isn't the connector of the same name.
        if _is_topic(owner):
            return any(fnmatchcase(owner, text) for text in self.owners.texts if _is_topic(text))
        return self.owners.matches(owner)


def _is_topic(text: str) -> bool:
    return text.partition("/")[0] == TOPIC


OPEN_STATE = "open"


@dataclass(frozen=True, slots=True)
class OpenChange:
    """The remaining steps of a change that isn't finished, and its clusters.

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
    """Return the ID of the spec that a change was built from, from the body of its `open` entry; "" without one."""
    plan = opened.get("plan")
    spec = plan.get("spec") if isinstance(plan, Mapping) else None
    return str(spec.get("id", "")) if isinstance(spec, Mapping) else ""


KEY_FORMAT = StoredFormat("journal key", 1)
_FIELDS = ("fingerprint", "by", "at", "previous", "signature", "previous_signature")


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """The key of a journal, as the journal stores it.

    `by` recorded it at the time `at`. `signature` is made with the key itself. After a rotation, `previous` is the
    fingerprint of the key before it, and `previous_signature` is made with that key, so that a holder of the previous
    key can verify that another holder of it rotated the key.
    """

    fingerprint: str
    by: str
    at: str
    previous: str = ""
    signature: str = ""
    previous_signature: str = ""

    @property
    def signed_text(self) -> str:
        """The text that both signatures cover. The first word distinguishes it from the text of an entry."""
        return json.dumps(["journal-key", self.fingerprint, self.previous, self.by, self.at], ensure_ascii=False)

    def to_bytes(self) -> bytes:
        """Return the record as it is stored."""
        body = {**KEY_FORMAT.field, **{name: getattr(self, name) for name in _FIELDS}}
        return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def parse_key_record(data: bytes, *, where: str) -> KeyRecord:
    """Parse a stored record. `where` is its location, for errors.

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
        hint="find the program that writes to the journal; only seamark may",
    )


@dataclass(frozen=True, slots=True)
class Opening:
    """The content of the first entry of a change. `nonce` is new for each holder and identifies this hold of the locks.

    `body` is written to the `open` entry together with locks and nonce: the plan, the actor, what the change undoes.
    `key` is the key that signs the change: it must be the journal's, and is recorded if the journal has none yet.
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
    """Holds the locks of one change and writes its entries."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every entry of the change, including those before a takeover."""
        ...

    def append(self, kind: EntryKind, body: Mapping[str, Any]) -> Entry:
        """Write one entry; it is durable when this returns.

        Raises:
            FencedError: another process took the change over; nothing was written.
            JournalError: the entry wasn't written, or it is unknown whether it was. No further request is allowed.
        """
        ...

    def append_all(self, entries: Sequence[tuple[EntryKind, Mapping[str, Any]]]) -> tuple[Entry, ...]:
        """Write several entries in one operation: all of them are durable when this returns. Raises as `append` does.

        If it fails, some of them may be written, starting with the first.
        """
        ...

    def measure_age(self, number: int) -> float:
        """Return the seconds that have certainly passed between an entry of a previous holder and the takeover.

        They are measured by a clock of the journal itself, never by that of the previous holder; 0.0 if the journal has
        no clock.
        """
        ...

    def release(self) -> None:
        """Release the locks. After a `close` entry the change has ended; without one it stays open, to be resumed."""
        ...


class JournalPort(Protocol):
    """Storage for changes."""

    def begin(self, opening: Opening) -> JournalWriter:
        """Take the locks in sorted order and write the `open` entry.

        A lock conflicts with the same lock, and `connect.GROUP` with every lock of that Connect cluster's connectors:
        those contain it as the part after `@` (see `changes/locks.py`).

        Raises:
            RefusedError: the journal has another key than the opening.
            LockedError: an open change of another process has a conflicting lock. No lock was taken over.
            JournalError: the journal can't be written.
        """
        ...

    def take_over(
        self, change: str, *, nonce: str, by: str, at: str, expected_nonce: str | None = None
    ) -> JournalWriter:
        """Take an open change over: fence its holder, write a `taken` entry with the new nonce.

        With `expected_nonce`, refuse (LockedError) unless the current holder has that nonce.
        """
        ...

    def read(self, change: str) -> tuple[Entry, ...]:
        """Read every entry of a change and check the hash chain. An ID may be shortened.

        Raises:
            NotFoundError: there is no such change.
        """
        ...

    def heads(self, *, limit: int | None = None) -> tuple[Head, ...]:
        """Return changes, the newest first."""
        ...

    def open_heads(self) -> tuple[Head, ...]:
        """Return every change that is still open. Cheap: it must not read the whole journal."""
        ...

    def read_key(self) -> KeyRecord | None:
        """Return the record of the journal's key; None if none was recorded yet."""
        ...

    def record_key(self, record: KeyRecord) -> None:
        """Record the journal's key while no change can begin. Does nothing if it is already recorded.

        Raises:
            RefusedError: the journal's key isn't `record.previous`.
            LockedError: the record is that of a rotation, and a change is open.
        """
        ...

    def close(self) -> None:
        """Close files and connections."""
        ...


# The time in an entry comes from the writer's wall clock, which may be off by hours. Two other clocks can be used: the
# machine's clock since its start, if the same machine resumes the change, and the brokers' clock, which sets the times
# of the heads in the Kafka journal. Without either, an entry counts as written at the takeover, and the process that
# resumes the change waits the whole time.

_KEY = "clock"


def build_mark(actor: Actor) -> dict[str, Any]:
    """Return the clock mark that an entry stores for processes of the same machine."""
    mark = actor.mark()
    return {} if mark is None else {_KEY: mark.to_dict()}


def find_latest_write(entry: Entry, writer: JournalWriter, actor: Actor, *, taken_at: float, now: float) -> float:
    """Return the latest time at which an entry can have been written, on the clock of this process.

    `taken_at` is when this process took the change over, and `now` is the current time, both on that clock.
    """
    mark = actor.mark()
    age = 0.0 if mark is None else mark.measure_since(ClockMark.from_dict(entry.body.get(_KEY)))
    return min(taken_at - writer.measure_age(entry.number), now - age)
