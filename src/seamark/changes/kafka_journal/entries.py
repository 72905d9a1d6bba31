"""Reading changes from the journal topic, without reading all of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import Any, Self

from seamark.changes.actor import LENGTH, ulid_time
from seamark.changes.journal import ENTRY_FORMAT, NO_HASH, Entry, EntryKind, Head, check_chain
from seamark.changes.kafka_journal.clients import JournalClients
from seamark.changes.kafka_journal.heads import HeadTrack, build_head_value, track_entries
from seamark.changes.kafka_journal.names import JournalNames, head_key, proof_key
from seamark.core.strict_json import VERSION_FIELD, check_format
from seamark.errors import (
    AuthorizationError,
    FencedError,
    JournalError,
    NotFoundError,
    TamperedJournalError,
    UsageError,
)
from seamark.kafka.log import LogRecord, PartitionLog
from seamark.kafka.produce import Outgoing

# The first lock's id is the pen: it writes the entries. Before each entry every other id proves that it is not
# fenced, by a small transaction of its own. So an entry exists only if all locks were held when its writing began. A
# crash between the proofs and the entry leaves the proofs, which mean nothing to a reader.


class LockHold:
    """The transactional ids of a change's locks, taken or still to be taken."""

    def __init__(self, clients: JournalClients, locks: Sequence[str]) -> None:
        self._clients = clients
        self._heads_topic = clients.names.heads
        self._write_seconds = clients.timing.write_seconds
        self._locks = tuple(locks)
        self.writers = tuple(clients.open_lock_writer(lock) for lock in locks)
        self._kept = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._kept:
            self.release()

    def keep(self) -> None:
        """Hold on when the block ends."""
        self._kept = True

    def take(self) -> None:
        """Take every id, in sorted order. Whoever had one is fenced."""
        for writer in self.writers:
            writer.take()

    def write(self, records: Sequence[Outgoing]) -> None:
        """Prove every lock, then write.

        Raises:
            FencedError: somebody has taken one of the locks. Nothing was written.
            JournalError: they are not written, or it is unknown.
        """
        pen, *others = self.writers
        deadline = self._clients.clocks.now() + self._write_seconds
        if others:
            proofs = [Outgoing(self._heads_topic, key=proof_key(lock), value=b"held") for lock in self._locks[1:]]
            jobs = [
                partial(writer.write, [proof], deadline=deadline) for writer, proof in zip(others, proofs, strict=True)
            ]
            errors = self._clients.run(jobs)
            # That somebody took the change over says more than that the brokers are slow.
            for error in sorted(errors, key=lambda error: not isinstance(error, FencedError)):
                raise error
        pen.write(records, deadline=deadline)

    def release(self) -> None:
        """Let the connections go. The ids stay ours in name until somebody takes them."""
        for writer in self.writers:
            writer.close()


# A topic takes batches of 1,048,588 bytes by default (max.message.bytes), librdkafka sends at most 1,000,000
# (message.max.bytes). Key, headers and framing need less than 1 kB; a tenth is left for whoever lowered a limit a bit.
CHUNK_BYTES = 900_000


def build_entry_records(entry: Entry, *, topic: str, now: float) -> tuple[Outgoing, ...]:
    """The records of an entry, in order. Each says where it belongs. `now` is in seconds since the epoch."""
    data = entry.to_bytes()
    chunks = [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
    stamp, digest = _build_timestamp_ms(entry, now), entry.hash.encode()
    return tuple(
        Outgoing(
            topic,
            key=entry.change.encode(),
            value=chunk,
            headers=(
                # Also here, so that a reader checks it before it relies on any other header.
                (VERSION_FIELD, str(ENTRY_FORMAT.version).encode()),
                ("number", str(entry.number).encode()),
                ("kind", str(entry.kind).encode()),
                # No later entry vouches for the last one of a change; this does.
                ("hash", digest),
                ("chunk", str(index).encode()),
                ("chunks", str(len(chunks)).encode()),
            ),
            timestamp_ms=stamp,
        )
        for index, chunk in enumerate(chunks)
    )


def _build_timestamp_ms(entry: Entry, now: float) -> int:
    """The time that the record carries. An `open` entry has that of its change's id, which is how it is found again.

    A clock that was put back since must not make a time to come of it: brokers refuse those.
    """
    now_ms = int(now * 1000)
    if entry.kind is not EntryKind.OPEN:
        return now_ms
    try:
        return min(now_ms, round(ulid_time(entry.change) * 1000)) or now_ms
    except ValueError:
        return now_ms


def begins_change(record: LogRecord) -> bool:
    """Whether this is the first record of a change."""
    return record.headers.get("kind") == b"open" and record.headers.get("chunk") == b"0"


def _read_labels(record: LogRecord) -> tuple[bytes, ...]:
    """What all chunks of an entry say alike."""
    return tuple(record.headers.get(name, b"") for name in ("number", "kind", "hash", "chunks"))


class ChunkAssembly:
    """Puts the chunks of each change's entries together. Holds what is not yet whole, and nothing else."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._pending: dict[bytes, list[LogRecord]] = {}

    def check_version(self, record: LogRecord) -> None:
        """Refuse a record of another format version, also where the reader would pass over it."""
        value = record.headers.get(VERSION_FIELD, b"").decode(errors="replace")
        found = {VERSION_FIELD: int(value) if value.isdecimal() else value} if value else {}
        check_format(ENTRY_FORMAT, found, where=self._describe(record))

    def add(self, record: LogRecord) -> Entry | None:
        """Take a record; give the entry that it completes."""
        self.check_version(record)
        key = record.key or b""
        chunk, chunks = self._read_number(record, "chunk"), self._read_number(record, "chunks")
        parts = self._pending.setdefault(key, [])
        if chunk != len(parts) or not 0 <= chunk < chunks:
            raise self._tampered(record, f"chunk {chunk} of {chunks} stands where chunk {len(parts)} should")
        parts.append(record)
        if _read_labels(record) != _read_labels(parts[0]):
            raise self._tampered(record, "it belongs to another entry than the chunk before it")
        if len(parts) < chunks:
            return None
        del self._pending[key]
        return self._build_entry(parts)

    def _build_entry(self, parts: list[LogRecord]) -> Entry:
        last = parts[-1]
        try:
            entry = Entry.from_bytes(b"".join(part.value or b"" for part in parts), where=self._describe(last))
        except TamperedJournalError as error:
            raise self._tampered(last, f"{error.message}: {error.cause}" if error.cause else error.message) from None
        labels = (str(entry.number).encode(), str(entry.kind).encode(), entry.hash.encode())
        if (last.key, *labels) != (entry.change.encode(), *_read_labels(last)[:3]):
            raise self._tampered(last, f"it holds entry {entry.number} of change {entry.change}, not as it was written")
        return entry

    def check_whole(self) -> None:
        """Refuse a rest: an entry's chunks are written together or not at all."""
        for key in self._pending:
            raise TamperedJournalError(
                f"the last entry of change {key.decode(errors='replace')} misses a part in the topic {self._topic}",
                hint="find out what deleted or wrote records there; its retention must be unlimited",
            )

    def _read_number(self, record: LogRecord, name: str) -> int:
        value = record.headers.get(name, b"")
        if not value.isdigit():
            raise self._tampered(record, f"its header {name!r} is {value.decode(errors='replace')!r}")
        return int(value)

    def _describe(self, record: LogRecord) -> str:
        return f"offset {record.offset} of topic {self._topic}"

    def _tampered(self, record: LogRecord, reason: str) -> TamperedJournalError:
        change = (record.key or b"").decode(errors="replace")
        return TamperedJournalError(
            f"the record at offset {record.offset} of the topic {self._topic} is not as seamark wrote it",
            cause=f"change {change}: {reason}",
            hint="find out what else writes to this topic; nobody but seamark may",
            context={"topic": self._topic, "offset": str(record.offset), "change": change},
        )


# An `open` entry carries the time of its change's id. The slack is for topics that stamp records themselves, with the
# brokers' clocks.
_SLACK_SECONDS = 60.0
# Some 2 MB of usual entries at a time, going backwards. A list of the newest twenty changes takes one such window.
_WINDOW_RECORDS = 2000
_SHOWN_CANDIDATES = 5


def resolve_change(log: PartitionLog, change: str) -> str:
    """The whole id for one that may be shortened.

    Raises:
        UsageError: it is no id, or it fits several changes.
        NotFoundError: it fits none.
    """
    wanted = change.strip().upper()
    if not wanted or not wanted.isascii() or not wanted.isalnum() or len(wanted) > LENGTH:
        raise UsageError(f"{change!r} is no change id", hint="seamark journal list shows the ids")
    if len(wanted) == LENGTH:
        return wanted
    prefix, found = wanted.encode(), dict[str, None]()
    for record in log.read(_find_start(log, wanted.ljust(LENGTH, "0"))):
        if begins_change(record) and record.key and record.key.startswith(prefix):
            found[record.key.decode(errors="replace")] = None
    if not found:
        raise _not_found(change)
    if len(found) > 1:
        shown = ", ".join(list(found)[:_SHOWN_CANDIDATES])
        more = f" and {len(found) - _SHOWN_CANDIDATES} more" if len(found) > _SHOWN_CANDIDATES else ""
        raise UsageError(f"{change} fits {len(found)} changes", cause=f"{shown}{more}", hint="give more letters")
    return next(iter(found))


def read_change(log: PartitionLog, change: str) -> tuple[Entry, ...]:
    """Every entry of a change, its chain checked. NotFoundError if there is none."""
    low, _ = log.read_bounds()
    start = _find_start(log, change)
    entries = tuple(_read_entries(log, change, start=start))
    if start > low and (not entries or entries[0].number):
        # Its record's time does not fit its id: somebody's clock was far off. Then the whole topic is read.
        entries = tuple(_read_entries(log, change, start=low))
    if not entries:
        raise _not_found(change)
    for entry in entries:
        if (entry.kind is EntryKind.OPEN) != (entry.number == 0):
            raise TamperedJournalError(
                f"entry {entry.number} of change {change} is a second opening, or the first is none",
                hint="find out what else writes to the journal's topic; nobody but seamark may",
            )
    return check_chain(entries)


def has_change(log: PartitionLog, change: str) -> bool:
    """Whether a change was ever opened, looked for where its id says."""
    return any(record.key == change.encode() for record in log.read(_find_start(log, change)))


def check_tail(entries: tuple[Entry, ...], head: Head | None) -> None:
    """Refuse a change whose end is missing: an earlier look at its head saw an entry that is not there."""
    if head is None:
        return
    known = head.last_number < len(entries) and entries[head.last_number].hash == head.last_hash
    if not known:
        raise TamperedJournalError(
            f"entry {head.last_number} of change {head.change} is missing, or is another than its head says",
            cause=f"the journal holds {len(entries)} entries of it",
            hint="find out what deleted records of the journal's topic; its retention must be unlimited",
            context={"change": head.change},
        )


def build_lost(head: Head, topic: str) -> TamperedJournalError:
    """What is said of an open change of which only the head is left."""
    return TamperedJournalError(
        f"change {head.change} ({head.title}) is open, but topic {topic} has no entry of it",
        cause="the topic was deleted and made anew, or records of it were deleted: what was before can't be told",
        hint="docs/runbooks/journal-topic-lost.md says how to go on without it",
        context={"change": head.change},
    )


def read_heads(log: PartitionLog, *, limit: int | None) -> tuple[Head, ...]:
    """The heads of the newest changes, the newest first.

    The newest are those whose `open` entries come last. All of their entries stand behind those, so that one way back
    to find them and one forth to follow them are enough.
    """
    low, high = log.read_bounds()
    start = low if limit is None else _find_nth_last(log, limit, low=low, high=high)
    assembly = ChunkAssembly(log.topic)
    tracks: dict[str, HeadTrack] = {}
    for record in log.read(start, high):
        assembly.check_version(record)
        key = (record.key or b"").decode(errors="replace")
        if key not in tracks and record.headers.get("kind") != b"open":
            continue
        entry = assembly.add(record)
        if entry is None:
            continue
        if key in tracks:
            tracks[key].follow(entry)
        else:
            tracks[key] = HeadTrack(entry)
    newest = sorted(tracks, reverse=True)[:limit]
    return tuple(tracks[change].head for change in newest)


def _read_entries(log: PartitionLog, change: str, *, start: int) -> Iterator[Entry]:
    key = change.encode()
    assembly = ChunkAssembly(log.topic)
    for record in log.read(start):
        if record.key != key:
            continue
        entry = assembly.add(record)
        if entry is not None:
            yield entry
            if entry.kind is EntryKind.CLOSE:
                return
    assembly.check_whole()


def _find_start(log: PartitionLog, change: str) -> int:
    """Where a change can begin at the earliest, by the time in its id."""
    low, high = log.read_bounds()
    try:
        made_at = ulid_time(change)
    except ValueError:
        return low
    found = log.find_offset(max(0.0, made_at - _SLACK_SECONDS))
    return high if found is None else max(low, found)


def _find_nth_last(log: PartitionLog, limit: int, *, low: int, high: int) -> int:
    """The offset at which the `limit`-last change begins; `low` if there are not as many."""
    opened: list[int] = []
    end = high
    while end > low and len(opened) < limit:
        start = max(low, end - _WINDOW_RECORDS)
        window = [record.offset for record in log.read(start, end) if begins_change(record)]
        opened = window + opened
        end = start
    if len(opened) < limit:
        return low
    return opened[-limit] if limit else high


def _not_found(change: str) -> NotFoundError:
    return NotFoundError(f"the journal has no change {change}", hint="seamark journal list", context={"change": change})


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
        """`ages` are how long before the takeover entries were written, by number: `OpenChangeIndex.measure_ages`."""
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
