"""Reads and writes the entries of changes in the journal topic, without reading the whole topic."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self

from seamark.changes.actor import LENGTH, ulid_time
from seamark.changes.journal import (
    ENTRY_FORMAT,
    Entry,
    EntryKind,
    Head,
    build_entries,
    build_not_found,
    check_appendable,
    check_chain,
    choose_change,
    format_timestamp,
    parse_change_id,
)
from seamark.changes.kafka_journal.clients import JournalClients
from seamark.changes.kafka_journal.heads import HeadTrack, build_head_value, track_entries
from seamark.changes.kafka_journal.names import JournalNames, head_key, proof_key
from seamark.core.strict_json import VERSION_FIELD, check_format
from seamark.errors import (
    AuthorizationError,
    FencedError,
    JournalError,
    TamperedJournalError,
    UsageError,
)
from seamark.kafka.log import LogRecord, PartitionLog
from seamark.kafka.produce import Outgoing

# The transactional.id of the first lock writes the entries. Before each entry, every other transactional.id proves that
# it isn't fenced, with a small transaction of its own. So an entry exists only if all locks were held when its write
# began. A crash between the proofs and the entry leaves only the proofs, which readers ignore.


class LockHold:
    """The transactional IDs of a change's locks, taken or still to be taken."""

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
        """Keep the connections open when the block ends."""
        self._kept = True

    def take(self) -> None:
        """Take every transactional ID, in sorted order. This fences the previous holders."""
        for writer in self.writers:
            writer.take()

    def write(self, records: Sequence[Outgoing]) -> None:
        """Prove that every lock is held, then write.

        Raises:
            FencedError: another process has taken one of the locks. Nothing was written.
            JournalError: the records weren't written, or it is unknown whether they were.
        """
        pen, *others = self.writers
        deadline = self._clients.clocks.now() + self._write_seconds
        if others:
            proofs = [Outgoing(self._heads_topic, key=proof_key(lock), value=b"held") for lock in self._locks[1:]]
            jobs = [
                partial(writer.write, [proof], deadline=deadline) for writer, proof in zip(others, proofs, strict=True)
            ]
            errors = self._clients.run(jobs)
            # Raise a FencedError first: a takeover is more important than slow brokers.
            for error in sorted(errors, key=lambda error: not isinstance(error, FencedError)):
                raise error
        pen.write(records, deadline=deadline)

    def release(self) -> None:
        """Close the connections. The transactional IDs stay assigned to this process until another one takes them."""
        for writer in self.writers:
            writer.close()


# A topic accepts batches of 1,048,588 bytes by default (max.message.bytes), librdkafka sends at most 1,000,000
# (message.max.bytes). Key, headers and framing need less than 1 kB; a tenth is left for slightly lowered limits.
CHUNK_BYTES = 900_000


def build_entry_records(entry: Entry, *, topic: str, now: float) -> tuple[Outgoing, ...]:
    """Build the records of an entry, in order. Each names its entry. `now` is in seconds since the epoch."""
    data = entry.to_bytes()
    chunks = [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
    stamp, digest = _build_timestamp_ms(entry, now), entry.hash.encode()
    return tuple(
        Outgoing(
            topic,
            key=entry.change.encode(),
            value=chunk,
            headers=(
                # Repeated as a header, so that a reader checks it before it relies on any other header.
                (VERSION_FIELD, str(ENTRY_FORMAT.version).encode()),
                ("number", str(entry.number).encode()),
                ("kind", str(entry.kind).encode()),
                # No later entry contains the hash of a change's last entry, so this header does.
                ("hash", digest),
                ("chunk", str(index).encode()),
                ("chunks", str(len(chunks)).encode()),
            ),
            timestamp_ms=stamp,
        )
        for index, chunk in enumerate(chunks)
    )


def _build_timestamp_ms(entry: Entry, now: float) -> int:
    """Return the timestamp of the record. That of an `open` entry is the time in its change ID, by which it is found.

    If the clock was set back since, the timestamp must not be in the future, because brokers refuse that.
    """
    now_ms = int(now * 1000)
    if entry.kind is not EntryKind.OPEN:
        return now_ms
    try:
        return min(now_ms, round(ulid_time(entry.change) * 1000)) or now_ms
    except ValueError:
        return now_ms


def begins_change(record: LogRecord) -> bool:
    """Return whether this is the first record of a change."""
    return record.headers.get("kind") == b"open" and record.headers.get("chunk") == b"0"


def _read_labels(record: LogRecord) -> tuple[bytes, ...]:
    """Return the headers that all chunks of an entry share."""
    return tuple(record.headers.get(name, b"") for name in ("number", "kind", "hash", "chunks"))


class ChunkAssembly:
    """Assembles the chunks of each change's entries. Stores incomplete entries only."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._pending: dict[bytes, list[LogRecord]] = {}

    def check_version(self, record: LogRecord) -> None:
        """Refuse a record of another format version, even if the reader would skip it."""
        value = record.headers.get(VERSION_FIELD, b"").decode(errors="replace")
        found = {VERSION_FIELD: int(value) if value.isdecimal() else value} if value else {}
        check_format(ENTRY_FORMAT, found, where=self._describe(record))

    def add(self, record: LogRecord) -> Entry | None:
        """Add a record; return the entry that it completes, or None."""
        self.check_version(record)
        key = record.key or b""
        chunk, chunks = self._read_number(record, "chunk"), self._read_number(record, "chunks")
        parts = self._pending.setdefault(key, [])
        if chunk != len(parts) or not 0 <= chunk < chunks:
            raise self._tampered(record, f"found chunk {chunk} of {chunks}, expected chunk {len(parts)}")
        parts.append(record)
        if _read_labels(record) != _read_labels(parts[0]):
            raise self._tampered(record, "it belongs to another entry than the previous chunk")
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
            raise self._tampered(
                last, f"its key and headers don't match its value, entry {entry.number} of change {entry.change}"
            )
        return entry

    def check_whole(self) -> None:
        """Refuse an incomplete entry: an entry's chunks are written together or not at all."""
        for key in self._pending:
            raise TamperedJournalError(
                f"the last entry of change {key.decode(errors='replace')} is incomplete in topic {self._topic}",
                hint="find the program that deleted or wrote records there; the topic's retention must be unlimited",
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
            f"the record at offset {record.offset} of topic {self._topic} is not a record of seamark",
            cause=f"change {change}: {reason}",
            hint="find the program that writes to this topic; only seamark may",
            context={"topic": self._topic, "offset": str(record.offset), "change": change},
        )


# An `open` entry has the time of its change's ID. The tolerance is for topics with LogAppendTime, whose records have
# the brokers' times.
_SLACK_SECONDS = 60.0
# About 2 MB of typical entries at a time, reading backwards. A list of the newest twenty changes takes one such window.
_WINDOW_RECORDS = 2000


def resolve_change(log: PartitionLog, change: str) -> str:
    """Return the full ID for an ID that may be shortened.

    Raises:
        UsageError: it is not an ID, or it matches several changes.
        NotFoundError: it matches none.
    """
    wanted = parse_change_id(change)
    if len(wanted) == LENGTH:
        return wanted
    prefix, found = wanted.encode(), dict[str, None]()
    for record in log.read(_find_start(log, wanted.ljust(LENGTH, "0"))):
        if begins_change(record) and record.key and record.key.startswith(prefix):
            found[record.key.decode(errors="replace")] = None
    return choose_change(change, list(found))


def read_change(log: PartitionLog, change: str) -> tuple[Entry, ...]:
    """Read every entry of a change and check its hash chain.

    Raises:
        NotFoundError: there is no such change.
    """
    low, _ = log.read_bounds()
    start = _find_start(log, change)
    entries = tuple(_read_entries(log, change, start=start))
    if start > low and (not entries or entries[0].number):
        # The record's time doesn't match its change ID, because a clock was far off. Then the whole topic is read.
        entries = tuple(_read_entries(log, change, start=low))
    if not entries:
        raise build_not_found(change)
    for entry in entries:
        if (entry.kind is EntryKind.OPEN) != (entry.number == 0):
            raise TamperedJournalError(
                f"entry {entry.number} of change {change} is invalid: exactly the first entry must open the change",
                hint="find the program that writes to the journal's topic; only seamark may",
            )
    return check_chain(entries)


def has_change(log: PartitionLog, change: str) -> bool:
    """Return whether a change was ever opened, searching from the time in its ID."""
    return any(record.key == change.encode() for record in log.read(_find_start(log, change)))


def check_tail(entries: tuple[Entry, ...], head: Head | None) -> None:
    """Refuse a change whose end is missing: its head, read earlier, names an entry that isn't there."""
    if head is None:
        return
    known = head.last_number < len(entries) and entries[head.last_number].hash == head.last_hash
    if not known:
        raise TamperedJournalError(
            f"entry {head.last_number} of change {head.change} is missing or differs from its head",
            cause=f"the journal has {len(entries)} entries of the change",
            hint="find the program that deleted records of the journal's topic; its retention must be unlimited",
            context={"change": head.change},
        )


def build_lost(head: Head, topic: str) -> TamperedJournalError:
    """Build the error for an open change of which only the head remains."""
    return TamperedJournalError(
        f"change {head.change} ({head.title}) is open, but topic {topic} has no entry of it",
        cause="the topic was recreated, or its records were deleted; the state before the change is unknown",
        hint="follow docs/runbooks/journal-topic-lost.md",
        context={"change": head.change},
    )


def read_heads(log: PartitionLog, *, limit: int | None) -> tuple[Head, ...]:
    """Read the heads of the newest changes, the newest first.

    The newest changes are those whose `open` entries come last. All of their entries follow these, so one backward
    search and one forward read are enough.
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
    """Return the earliest offset at which a change can begin, by the time in its ID."""
    low, high = log.read_bounds()
    try:
        made_at = ulid_time(change)
    except ValueError:
        return low
    found = log.find_offset(max(0.0, made_at - _SLACK_SECONDS))
    return high if found is None else max(low, found)


def _find_nth_last(log: PartitionLog, limit: int, *, low: int, high: int) -> int:
    """Return the offset at which the `limit`-last change begins; `low` if there are fewer changes."""
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


class KafkaJournalWriter:
    """Holds the locks of one change in the Kafka journal and writes its entries. Threads may share it.

    After a failed append it writes no more.
    """

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
        """Create the writer. `ages` maps entry numbers to their age at the takeover: `OpenChangeIndex.measure_ages`."""
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
        """Every entry of the change, including those before a takeover."""
        return tuple(self._entries)

    def append(self, kind: EntryKind, body: Mapping[str, Any]) -> Entry:
        """Write one entry; all in-sync replicas have it when this returns. See `JournalWriter.append`."""
        return self.append_all([(kind, body)])[0]

    def append_all(
        self, bodies: Sequence[tuple[EntryKind, Mapping[str, Any]]], *, at: str | None = None
    ) -> tuple[Entry, ...]:
        """Write several entries in one transaction, with the time `at`, or the current time."""
        with self._mutex:
            if self.is_released:
                raise UsageError(f"this process has released change {self._change}")
            if isinstance(self._failure, FencedError):
                raise self._failure
            check_appendable(self._entries[-1], failure=self._failure.message if self._failure else "")
            now = self._now()
            entries = build_entries(
                self._change, bodies, by=self._by, at=at or format_timestamp(now), after=self._entries[-1]
            )
            head = self._track.head
            for entry in entries:
                head = self._track.preview(entry, after=head)
            records = build_change_records(entries, head, names=self._names, now=now)
            # Whatever ends this block early, including an interrupt, leaves a writer with an unknown state.
            self._failure = JournalError(
                f"entry {entries[0].number} of change {self._change} was not written completely"
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

    def measure_age(self, number: int) -> float:
        """Return how long before the takeover an entry was written. See `JournalWriter.measure_age`."""
        # Entries of one transaction share a head, and compaction leaves only a later head: both result in a lower age.
        return next((seconds for last, seconds in self._ages if last >= number), 0.0)

    def release(self) -> None:
        """Release the locks. Without a `close` entry the change stays open, to be resumed."""
        with self._mutex:
            self.is_released = True
            self._hold.release()

    def _build_fenced(self, error: FencedError) -> FencedError:
        return FencedError(
            f"change {self._change} was taken over by another process; this process makes no more changes",
            cause=f"{error.message}; or this process was suspended during a write ({error.cause})",
            hint=f"show its holder: seamark journal show {self._change}; "
            f"if that process has ended: seamark journal resume {self._change}",
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
    """Build the records of entries: their chunks, and the change's head, which is deleted when the change is closed."""
    value = build_head_value(head) if head.is_open else None
    records = [record for entry in entries for record in build_entry_records(entry, topic=names.journal, now=now)]
    return [*records, Outgoing(names.heads, key=head_key(head.change), value=value)]
