"""Entries as records of the journal topic: cut into chunks, and put together again."""

from __future__ import annotations

from seamark.changes.entry import ENTRY_FORMAT, Entry, EntryKind
from seamark.changes.ulid import ulid_time
from seamark.core.format_version import VERSION_FIELD, check_format
from seamark.errors import TamperedJournalError
from seamark.kafka.log import LogRecord
from seamark.kafka.produce import Outgoing

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
