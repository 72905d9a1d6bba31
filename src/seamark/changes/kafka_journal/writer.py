"""The pen of one change's entries."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from seamark.changes.entry import NO_HASH, Entry, EntryKind
from seamark.changes.journal import Head
from seamark.changes.kafka_journal.heads import build_head_value, track_entries
from seamark.changes.kafka_journal.hold import LockHold
from seamark.changes.kafka_journal.names import JournalNames, head_key
from seamark.changes.kafka_journal.records import build_entry_records
from seamark.errors import AuthorizationError, FencedError, JournalError, TamperedJournalError, UsageError
from seamark.kafka.produce import Outgoing


class KafkaJournalWriter:
    """The hold of one change in the Kafka journal. Threads may share it. After any failed append it writes no more."""

    def __init__(
        self,
        hold: LockHold,
        entries: Iterable[Entry],
        *,
        names: JournalNames,
        by: str,
        now: Callable[[], float],
        ages: Sequence[tuple[int, float]] = (),
    ) -> None:
        """`ages` are how long before the takeover entries were written, by their numbers: `Board.measure_ages`."""
        self._hold = hold
        self._ages = ages
        self._entries = list(entries)
        self._change = self._entries[0].change
        self._track = track_entries(tuple(self._entries))
        self._names = names
        self._by = by
        self._now = now
        self._mutex = threading.Lock()
        self._failure: FencedError | JournalError | None = None
        self.is_released = False

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every entry of the change, the ones before a take-over too."""
        return tuple(self._entries)

    def append(self, kind: EntryKind, body: Mapping[str, Any]) -> Entry:
        """Write one entry; it is on all in-sync replicas when this returns. See `JournalWriter.append`."""
        return self.append_all([(kind, body)])[0]

    def append_all(
        self, bodies: Sequence[tuple[EntryKind, Mapping[str, Any]]], *, at: str | None = None
    ) -> tuple[Entry, ...]:
        """Write several entries in one transaction, with the time that the caller says, or now."""
        with self._mutex:
            self._check_usable()
            now = self._now()
            entries = self._build_entries(bodies, at=at or timestamp(now))
            head = self._track.head
            for entry in entries:
                head = self._track.preview(entry, after=head)
            records = build_change_records(entries, head, names=self._names, now=now)
            # Whatever ends this block early, an interrupt too, leaves a writer of which nobody knows what it wrote.
            self._failure = JournalError(
                f"entry {entries[0].number} of change {self._change} was not written to its end"
            )
            try:
                self._hold.write(records)
            except FencedError as error:
                self._failure = self._build_fenced(error)
                raise self._failure from None
            except (JournalError, AuthorizationError) as error:
                self._failure = self._build_failure(entries[0], error)
                raise self._failure from None
            self._failure = None
            self._track.head = head
            self._entries += entries
            return tuple(entries)

    def _build_entries(self, bodies: Sequence[tuple[EntryKind, Mapping[str, Any]]], *, at: str) -> list[Entry]:
        entries: list[Entry] = []
        after = self._entries[-1]
        for kind, body in bodies:
            after = build_entry(self._change, kind, body, by=self._by, at=at, after=after)
            entries.append(after)
        return entries

    def measure_age(self, number: int) -> float:
        """Return how long before the takeover an entry was written. See `JournalWriter.measure_age`."""
        # Entries of one transaction share a head, and a compacted head leaves only a later one: both are younger.
        return next((seconds for last, seconds in self._ages if last >= number), 0.0)

    def release(self) -> None:
        """Give the locks back. Without a `close` entry the change stays open, to be resumed."""
        with self._mutex:
            self.is_released = True
            self._hold.release()

    def _check_usable(self) -> None:
        if self.is_released:
            raise UsageError(f"the hold of change {self._change} was released")
        if isinstance(self._failure, FencedError):
            raise self._failure
        if self._failure is not None:
            raise JournalError(
                f"change {self._change} can't be written any more by this process",
                cause=f"earlier: {self._failure.message}",
                hint=f"seamark journal resume {self._change}",
                context={"change": self._change},
            )
        if self._entries[-1].kind is EntryKind.CLOSE:
            raise UsageError(f"change {self._change} is closed; it takes no more entries")

    def _build_fenced(self, error: FencedError) -> FencedError:
        return FencedError(
            f"change {self._change} was taken from this process; it writes and does nothing more",
            cause=f"{error.message}; or this process was stopped in the middle of a write ({error.cause})",
            hint=f"see who holds it: seamark journal show {self._change}; "
            f"if nobody does any more, seamark journal resume {self._change} finishes it",
            context={"change": self._change, **error.context},
        )

    def _build_failure(self, entry: Entry, error: JournalError | AuthorizationError) -> JournalError:
        return JournalError(
            f"entry {entry.number} ({entry.kind}) of change {self._change}: {error.message}",
            cause=error.cause,
            hint=f"{error.hint}; then: seamark journal resume {self._change}",
            context={"change": self._change, **error.context},
        )


def build_change_records(entries: Iterable[Entry], head: Head, *, names: JournalNames, now: float) -> list[Outgoing]:
    """What entries write: their chunks, and the change's head, which goes when the change is closed."""
    value = build_head_value(head) if head.is_open else None
    records = [record for entry in entries for record in build_entry_records(entry, topic=names.journal, now=now)]
    return [*records, Outgoing(names.heads, key=head_key(head.change), value=value)]


def build_entry(
    change: str, kind: EntryKind, body: Mapping[str, Any], *, by: str, at: str, after: Entry | None
) -> Entry:
    """The next entry as it will be read again. It shares nothing with the caller's `body`."""
    number = after.number + 1 if after else 0
    previous = after.hash if after else NO_HASH
    try:
        return Entry.from_bytes(
            Entry(change, number=number, kind=kind, at=at, by=by, body=body, previous=previous).to_bytes()
        )
    except (TypeError, ValueError, RecursionError, TamperedJournalError) as error:
        raise UsageError(f"entry {number} of change {change} can't be written as JSON", cause=str(error)) from None


def timestamp(now: float) -> str:
    """A moment in UTC and ISO 8601."""
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
