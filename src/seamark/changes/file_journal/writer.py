"""The pen of one change's entries.

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from seamark.changes.entry import NO_HASH, Entry, EntryKind
from seamark.changes.file_journal.durable import journal_errors, write_all
from seamark.changes.file_journal.frames import build_frame
from seamark.changes.file_journal.holds import Hold
from seamark.changes.file_journal.layout import Layout
from seamark.changes.file_journal.stored import newest_hold, read_change
from seamark.errors import FencedError, JournalError, SeamarkError, TamperedJournalError, UsageError


class FileJournalWriter:
    """The hold of one change in a file journal. Threads may share it."""

    def __init__(
        self,
        layout: Layout,
        entries: Iterable[Entry],
        *,
        nonce: str,
        by: str,
        hold: Hold,
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
