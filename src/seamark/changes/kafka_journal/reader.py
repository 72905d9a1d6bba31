"""Reading changes from the journal topic, without reading all of it."""

from __future__ import annotations

from collections.abc import Iterator

from seamark.changes.entry import Entry, EntryKind, check_chain
from seamark.changes.journal import Head
from seamark.changes.kafka_journal.heads import HeadTrack
from seamark.changes.kafka_journal.records import ChunkAssembly, begins_change
from seamark.changes.ulid import LENGTH, ulid_time
from seamark.errors import NotFoundError, TamperedJournalError, UsageError
from seamark.kafka.log import PartitionLog

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
