"""A simulated journal of files: what every process shares, and what one process has of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from seamark.changes.journal import NO_HASH, Entry, EntryKind, Head, Opening
from seamark.changes.locks import conflicts
from seamark.errors import FencedError, JournalError, LockedError, NotFoundError, RefusedError, UsageError
from tests.simulation.clock import Timeline
from tests.simulation.faults import Call, Fault, Kind, Process


@dataclass(slots=True)
class Stored:
    """One change as it is kept."""

    change: str
    locks: tuple[str, ...]
    nonce: str
    entries: list[Entry] = field(default_factory=list)
    hashes: list[str] = field(default_factory=list)
    data: list[bytes] = field(default_factory=list)
    # Which process wrote each entry. Entries carry names of people; here each process has its own.
    writers: list[str] = field(default_factory=list)
    # When each entry was written, by the true time; entries carry that of their writer's wall clock.
    times: list[float] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """Whether it has no `close` entry."""
        return self.entries[-1].kind is not EntryKind.CLOSE


class Store:
    """What is durable. Changes stand in the order of their opening, and `log` has every entry in its order."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.changes: dict[str, Stored] = {}
        self.log: list[tuple[str, int]] = []
        self.watch: Callable[[Stored], None] = lambda stored: None

    def add(self, stored: Stored, entry: Entry, *, writer: str) -> None:
        """Make an entry durable."""
        self.keep(stored, entry, data=entry.to_bytes(), writer=writer, at=self.timeline.now)

    def keep(self, stored: Stored, entry: Entry, *, data: bytes, writer: str, at: float) -> None:
        """Take in an entry that is durable. `at` is the true time at which it was written."""
        stored.entries.append(entry)
        stored.data.append(data)
        stored.hashes.append(hashlib.sha256(data).hexdigest())
        stored.writers.append(writer)
        stored.times.append(at)
        self.log.append((stored.change, entry.number))
        if entry.kind is EntryKind.CLOSE:
            self.watch(stored)

    def open_changes(self) -> list[Stored]:
        """The changes that are not closed."""
        return [stored for stored in self.changes.values() if stored.is_open]


class SimWriter:
    """A `JournalWriter` of one process."""

    def __init__(self, journal: SimJournal, stored: Stored, nonce: str, *, by: str) -> None:
        self.stored = stored
        self.nonce = nonce
        # What this holder knows, which is not what the store has once it was taken over.
        self.own = list(stored.entries)
        self.failed = False
        self._hash = stored.hashes[-1] if stored.hashes else NO_HASH
        self._by = by
        self._journal = journal

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every entry of the change."""
        return tuple(self.own)

    def append(self, kind: EntryKind, body: Mapping[str, Any]) -> Entry:
        """Write one entry."""
        at = self._journal.timestamp()
        fault = self._journal.process.call(Call.APPEND)
        if self.own and self.own[-1].kind is EntryKind.CLOSE:
            raise UsageError("the change is closed")
        self._journal.wait(fault)
        self.check_fence()
        if self.failed:
            raise JournalError("simulated: this writer failed before", context={"change": self.stored.change})
        if fault is not None and fault.kind is Kind.JOURNAL_FAILS:
            self.fail()
        entry = Entry(
            self.stored.change,
            number=len(self.own),
            kind=kind,
            at=at,
            by=self._by,
            body=body,
            previous=self._hash,
        )
        self._journal.store.add(self.stored, entry, writer=self._journal.process.name)
        if fault is not None and fault.kind is Kind.KILL_AFTER:
            self._journal.process.kill()
        if fault is not None and fault.kind is Kind.JOURNAL_UNSURE:
            self.fail()
        self.own.append(entry)
        self._hash = self.stored.hashes[-1]
        self._journal.process.play(fault)
        return entry

    def measure_age(self, number: int) -> float:
        """How long before the takeover an entry was written: files have no clock of their own."""
        del number
        return 0.0

    def check_fence(self) -> None:
        """Refuse if somebody else holds the change."""
        if self.stored.nonce != self.nonce:
            raise FencedError(f"change {self.stored.change} was taken over")

    def fail(self) -> None:
        """Fail for good: whether the entry is there, nobody can tell."""
        self.failed = True
        raise JournalError("simulated: the journal can't be written", context={"change": self.stored.change})

    def release(self) -> None:
        """Give the locks back."""


class SimJournal:
    """A `JournalPort` of one process."""

    def __init__(
        self, process: Process, store: Store, timeline: Timeline, *, now: Callable[[], float] | None = None
    ) -> None:
        """`now` is the wall clock of the process; without it the true time."""
        self.process = process
        self.store = store
        self._timeline = timeline
        self._now = now or (lambda: timeline.now)

    def begin(self, opening: Opening) -> SimWriter:
        """Take the locks and write the `open` entry."""
        fault = self.process.call(Call.APPEND)
        self.wait(fault)
        for other in self.store.open_changes():
            if any(conflicts(mine, theirs) for mine in opening.locks for theirs in other.locks):
                raise LockedError(f"change {other.change} holds a lock", context={"change": other.change})
        if fault is not None and fault.kind is Kind.JOURNAL_FAILS:
            raise JournalError("simulated: the journal can't be written")
        stored = self.store.changes[opening.change] = Stored(opening.change, opening.locks, opening.nonce)
        body = {**opening.body, "title": opening.title, "locks": list(opening.locks), "nonce": opening.nonce}
        entry = Entry(opening.change, number=0, kind=EntryKind.OPEN, at=opening.at, by=opening.by, body=body)
        self.store.add(stored, entry, writer=self.process.name)
        writer = SimWriter(self, stored, opening.nonce, by=opening.by)
        self._end(fault)
        return writer

    def take_over(self, change: str, *, nonce: str, by: str, at: str, expected_nonce: str | None = None) -> SimWriter:
        """Fence the holder and write a `taken` entry."""
        fault = self.process.call(Call.APPEND)
        self.wait(fault)
        stored = self._find(change)
        if not stored.is_open:
            raise RefusedError(f"change {change} is closed; there is nothing to take over")
        if expected_nonce is not None and expected_nonce != stored.nonce:
            raise LockedError(f"change {change} has another holder")
        if fault is not None and fault.kind is Kind.JOURNAL_FAILS:
            raise JournalError("simulated: the journal can't be written")
        former, stored.nonce = stored.nonce, nonce
        entry = Entry(
            change,
            number=len(stored.entries),
            kind=EntryKind.TAKEN,
            at=at,
            by=by,
            body={"nonce": nonce, "from": former},
            previous=stored.hashes[-1],
        )
        self.store.add(stored, entry, writer=self.process.name)
        writer = SimWriter(self, stored, nonce, by=by)
        self._end(fault)
        return writer

    def read(self, change: str) -> tuple[Entry, ...]:
        """Every entry of a change."""
        return tuple(self._find(change).entries)

    def heads(self, *, limit: int | None = None) -> tuple[Head, ...]:
        """Changes, the newest first."""
        return tuple(build_head(stored) for stored in reversed(self.store.changes.values()))[:limit]

    def open_heads(self) -> tuple[Head, ...]:
        """The open ones."""
        return tuple(head for head in self.heads() if head.is_open)

    def close(self) -> None:
        """Nothing to let go of."""

    def timestamp(self) -> str:
        """Now, as entries have it."""
        now = datetime.fromtimestamp(self._now(), UTC)
        return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def wait(self, fault: Fault | None) -> None:
        """A slow journal."""
        if fault is not None and fault.kind is Kind.JOURNAL_SLOW:
            self._timeline.advance(fault.size * 15)

    def _end(self, fault: Fault | None) -> None:
        if fault is not None and fault.kind is Kind.KILL_AFTER:
            self.process.kill()
        if fault is not None and fault.kind is Kind.JOURNAL_UNSURE:
            raise JournalError("simulated: nobody knows whether it was written")
        self.process.play(fault)

    def _find(self, change: str) -> Stored:
        if change not in self.store.changes:
            raise NotFoundError(f"the journal has no change {change}")
        return self.store.changes[change]


def build_head(stored: Stored) -> Head:
    """Where a change stands."""
    first, last = stored.entries[0], stored.entries[-1]
    return Head(
        change=stored.change,
        title=str(first.body["title"]),
        by=last.by,
        opened_at=first.at,
        last_at=last.at,
        last_kind=last.kind,
        last_number=last.number,
        last_hash=stored.hashes[-1],
        locks=stored.locks,
        nonce=stored.nonce,
    )
