"""Writes the entries of one change.

An append is: am I still the holder? → write → fsync → am I still the holder? → done. It takes no lock. Whoever takes
the change over first puts a new nonce into `open/ID`, then reads the file, then puts a copy with a `taken` entry in its
place. So an entry that was acknowledged is in the copy, as its second look came before the new nonce. One that was not
is in the copy or in a file without a name, and its writer hears FencedError. A holder that was stopped at any of these
points, even within its write, holds nobody up and spoils nothing.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from seamark.changes.file_journal.files import (
    DamagedFrameError,
    Frames,
    Layout,
    build_frame,
    journal_errors,
    read_owned,
    split_frames,
    write_all,
)
from seamark.changes.file_journal.locks import HeldLockFiles
from seamark.changes.journal import NO_HASH, Entry, EntryKind, check_chain
from seamark.errors import FencedError, JournalError, SeamarkError, TamperedJournalError, UsageError

# A holder may be in the middle of a write. 5 MB into the page cache take about 2 ms; ten times that is time enough.
_LOOK_AGAIN_SECONDS = 0.02
# The change that made a fleet of ten thousand has 37 MB, and is read by every plan.
_KEPT_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class TornTail:
    """Bytes behind the last whole entry: an entry that was not written to its end and was never acknowledged."""

    file: Path
    offset: int
    data: bytes

    @property
    def note(self) -> str:
        """What is to be said of it."""
        return (
            f"{len(self.data)} bytes of an unfinished entry at the end of {self.file} (byte {self.offset}) are ignored"
        )


@dataclass(frozen=True, slots=True)
class StoredChange:
    """A change as its file holds it: the whole entries, their bytes, and a torn tail if there is one."""

    entries: tuple[Entry, ...]
    size: int
    torn: TornTail | None = None

    @property
    def is_open(self) -> bool:
        """Whether its last whole entry does not close it."""
        return self.entries[-1].kind is not EntryKind.CLOSE

    @property
    def nonce(self) -> str:
        """The nonce of the newest holder, as the entries say."""
        return str(newest_hold(self.entries).body.get("nonce", ""))


class ClosedChanges:
    """Changes that were read and are closed: nobody writes to them any more, so that one reading serves several looks.

    It keeps the first ones it is given until their files come to `budget_bytes`. A reader of heads begins with the
    newest, which are those that are read next.
    """

    def __init__(self, budget_bytes: int = _KEPT_BYTES) -> None:
        self._left = budget_bytes
        self._kept: dict[str, tuple[tuple[int, int, int], StoredChange]] = {}

    def read(self, layout: Layout, change: str) -> StoredChange:
        """Like `read_change`. A file that is not the one of before is read anew."""
        mark = _mark_of(layout.change_file(change))
        kept = self._kept.get(change)
        if kept is not None and kept[0] == mark:
            return kept[1]
        stored = read_change(layout, change)
        if not stored.is_open and stored.torn is None and stored.size <= self._left:
            self._left -= stored.size
            self._kept[change] = (mark, stored)
        return stored


def _mark_of(path: Path) -> tuple[int, int, int]:
    seen = path.stat()
    return seen.st_ino, seen.st_size, seen.st_mtime_ns


def newest_hold(entries: Sequence[Entry]) -> Entry:
    """The entry by which the present holder got the change: the newest `taken`, else the `open`."""
    return next((entry for entry in reversed(entries) if entry.kind is EntryKind.TAKEN), entries[0])


def read_change(layout: Layout, change: str) -> StoredChange:
    """Read and check a change. FileNotFoundError if there is none.

    A change that its entries leave open must be listed open too: what closed it was cut off otherwise.
    """
    stored = _read_settled(layout.change_file(change), change)
    if stored.is_open and layout.read_marker(change) is None:
        # Its holder may have closed it between the two looks.
        stored = _read_settled(layout.change_file(change), change)
        if stored.is_open and layout.read_marker(change) is None:
            raise TamperedJournalError(
                f"change {change} is not listed open, but {layout.change_file(change)} does not end with its close",
                cause=f"the end of the file was cut off, or {layout.marker(change)} was removed",
                hint=f"put the file back from a backup; or, to have it resumed: touch {layout.marker(change)}",
                context={"change": change, "file": str(layout.change_file(change))},
            )
    return stored


def _read_settled(path: Path, change: str) -> StoredChange:
    frames = _split(path, read_owned(path))
    if frames.torn_bytes:
        time.sleep(_LOOK_AGAIN_SECONDS)
        frames = _split(path, read_owned(path))
    entries = _read_entries(path, frames, change=change)
    torn = TornTail(path, offset=frames.size, data=frames.torn_bytes) if frames.torn_bytes else None
    return StoredChange(entries=entries, size=frames.size, torn=torn)


def _split(path: Path, data: bytes) -> Frames:
    try:
        return split_frames(data)
    except DamagedFrameError as error:
        raise _tampered(path, error.reason, number=error.number, offset=error.offset) from None


def _read_entries(path: Path, frames: Frames, *, change: str) -> tuple[Entry, ...]:
    place = (0, 0)

    def read_each() -> Iterator[Entry]:
        nonlocal place
        for number, (offset, body) in enumerate(frames.bodies):
            place = (number, offset)
            entry = Entry.from_bytes(body, where=f"entry {number} of {path}")
            if entry.change != change:
                raise TamperedJournalError(f"it is an entry of change {entry.change}")
            if (entry.kind is EntryKind.OPEN) != (number == 0):
                raise TamperedJournalError("the first entry, and no other, opens the change")
            yield entry

    try:
        entries = check_chain(read_each())
    except TamperedJournalError as error:
        reason = f"{error.message}: {error.cause}" if error.cause else error.message
        raise _tampered(path, reason, number=place[0], offset=place[1], hint=error.hint) from None
    if not entries:
        raise _tampered(path, "the file holds no whole entry", number=0, offset=0)
    return entries


def _tampered(path: Path, reason: str, *, number: int, offset: int, hint: str = "") -> TamperedJournalError:
    return TamperedJournalError(
        f"{path} was changed after it was written, or its disk fails: entry {number} at byte {offset}",
        cause=reason,
        hint=hint or f"keep a copy of {path}, look after the disk, and put the file back from a backup",
        context={"file": str(path), "entry": str(number), "offset": str(offset)},
    )


class FileJournalWriter:
    """The hold of one change in a file journal. Threads may share it."""

    def __init__(
        self,
        layout: Layout,
        entries: Iterable[Entry],
        *,
        nonce: str,
        by: str,
        hold: HeldLockFiles,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._layout = layout
        self._entries = list(entries)
        self._change = self._entries[0].change
        self._nonce = nonce
        self._by = by
        self._hold = hold
        self._now = now
        self._mutex = threading.Lock()
        self._failure = ""
        self._path = layout.change_file(self._change)
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd: int | None = os.open(self._path, flags)
        self._size = os.fstat(self._fd).st_size

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every entry of the change, the ones before a take-over too."""
        return tuple(self._entries)

    @property
    def is_released(self) -> bool:
        """Whether the locks were given back."""
        return self._fd is None

    def append(self, kind: EntryKind, body: Mapping[str, Any]) -> Entry:
        """Write one entry; it is on the disk when this returns. See `JournalWriter.append`."""
        return self.append_all([(kind, body)])[0]

    def append_all(self, bodies: Sequence[tuple[EntryKind, Mapping[str, Any]]]) -> tuple[Entry, ...]:
        """Write several entries with one sync."""
        with self._mutex:
            fd = self._check_usable()
            entries, frames = self._build_entries(bodies)
            last = entries[-1]
            name = f"entry {entries[0].number} ({entries[0].kind}) of change {self._change}"
            with journal_errors(f"{name} was not written", self._layout.folder, change=self._change):
                self._check_fence(fd, size=self._size)
            is_last = last.kind is EntryKind.CLOSE
            self._write(fd, frames, name=name, is_last=is_last)
            self._size += len(frames)
            self._entries += entries
            if is_last:
                self._unlist()
            return tuple(entries)

    def _build_entries(self, bodies: Sequence[tuple[EntryKind, Mapping[str, Any]]]) -> tuple[list[Entry], bytes]:
        entries: list[Entry] = []
        frames: list[bytes] = []
        after, at = self._entries[-1], timestamp(self._now())
        for kind, body in bodies:
            after, frame = build_entry(self._change, kind, body, by=self._by, at=at, after=after)
            entries.append(after)
            frames.append(frame)
        return entries, b"".join(frames)

    def measure_age(self, number: int) -> float:
        """Return 0.0: times of files come from a clock that can be set. Marks in the entries tell more."""
        del number
        return 0.0

    def release(self) -> None:
        """Give the locks back. Without a `close` entry the change stays open, to be resumed."""
        with self._mutex:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None
            self._hold.release()

    def _write(self, fd: int, frame: bytes, *, name: str, is_last: bool) -> None:
        """Write and sync a frame. A writer that failed once writes no more.

        A failed fsync may have dropped the bytes and told it once; a later fsync that succeeds says nothing about them.
        Nothing is taken back either: the file may be somebody else's by now, and a torn tail is seen by every reader.
        """
        self._failure = f"{name} failed, and whether it is on the disk is not known"
        with journal_errors(self._failure, self._layout.folder, change=self._change):
            write_all(fd, frame)
            os.fsync(fd)
            try:
                self._check_fence(fd, size=self._size + len(frame), may_be_unlisted=is_last)
            except FencedError:
                self._failure = ""
                raise
        self._failure = ""

    def _check_usable(self) -> int:
        if self._fd is None:
            raise UsageError(f"the hold of change {self._change} was released")
        if self._failure:
            raise JournalError(
                f"change {self._change} can't be written any more by this process",
                cause=f"earlier: {self._failure}",
                hint=f"seamark journal resume {self._change}",
                context={"change": self._change},
            )
        if self._entries[-1].kind is EntryKind.CLOSE:
            raise UsageError(f"change {self._change} is closed; it takes no more entries")
        return self._fd

    def _check_fence(self, fd: int, *, size: int, may_be_unlisted: bool = False) -> None:
        """Refuse unless this nonce still stands in `open/ID` and the file is the one we know, and as long.

        When its close is written, somebody who begins another change may see it and unlist the change before we do.
        """
        nonce = self._layout.read_marker(self._change)
        if nonce != self._nonce and not (nonce is None and may_be_unlisted):
            raise self._fenced()
        mine, there = os.fstat(fd), self._path.stat()
        if (mine.st_dev, mine.st_ino) != (there.st_dev, there.st_ino) or mine.st_size != size:
            raise JournalError(
                f"{self._path} was replaced or written by something that is not seamark",
                hint=f"find out what; then: seamark journal show {self._change}",
                context={"change": self._change, "file": str(self._path)},
            )

    def _fenced(self) -> FencedError:
        cause = "its listing under open/ was removed"
        try:
            stored = read_change(self._layout, self._change)
            hold = newest_hold(stored.entries)
            if stored.nonce != self._nonce:
                cause = f"{hold.by} holds it since {hold.at}"
            elif not stored.is_open:
                cause = "it was closed"
            elif self._layout.read_marker(self._change) is not None:
                cause = "somebody has begun to take it over"
        except (SeamarkError, OSError):
            # Only the wording hangs on this; that we are fenced is known.
            cause = "somebody else's nonce stands in its place"
        return FencedError(
            f"change {self._change} was taken from this process; it writes and does nothing more",
            cause=cause,
            hint=f"seamark journal show {self._change}",
            context={"change": self._change},
        )

    def _unlist(self) -> None:
        """Take the closed change from the list of open ones. If that fails, the next begin does it."""
        try:
            self._layout.drop_marker(self._change)
        except OSError:
            return


def build_entry(
    change: str, kind: EntryKind, body: Mapping[str, Any], *, by: str, at: str, after: Entry | None
) -> tuple[Entry, bytes]:
    """The next entry as it will be read again, and its frame. It shares nothing with the caller's `body`."""
    number = after.number + 1 if after else 0
    previous = after.hash if after else NO_HASH
    try:
        data = Entry(change, number=number, kind=kind, at=at, by=by, body=body, previous=previous).to_bytes()
        return Entry.from_bytes(data), build_frame(data)
    except (TypeError, ValueError, RecursionError, TamperedJournalError) as error:
        raise UsageError(f"entry {number} of change {change} can't be written as JSON", cause=str(error)) from None


def timestamp(now: float) -> str:
    """A moment in UTC and ISO 8601."""
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
