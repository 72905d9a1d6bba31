"""Writes the entries of one change.

An append checks that this process is still the holder, writes, calls fsync, and checks again. It takes no lock. A
process that takes the change over first writes a new nonce to `open/ID`, then reads the file, then replaces it with a
copy that has a `taken` entry. So the copy contains every acknowledged entry, because the second check of an
acknowledged append came before the new nonce. An entry that was not acknowledged is in the copy or in an unlinked file,
and its writer gets a FencedError. A holder that was suspended at any of these points, even during its write, blocks no
other process and damages nothing.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from seamark.changes.journal import (
    Entry,
    EntryKind,
    build_entries,
    check_appendable,
    check_chain,
    find_hold,
    find_nonce,
    format_timestamp,
)
from seamark.errors import FencedError, JournalError, SeamarkError, TamperedJournalError, UsageError

# A holder may be in the middle of a write. Writing 5 MB to the page cache takes about 2 ms; ten times that is enough.
_LOOK_AGAIN_SECONDS = 0.02
# The change that created a fleet of ten thousand connectors has 37 MB, and every plan reads it.
_KEPT_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class TornTail:
    """Bytes after the last whole entry: an entry that was written only partly and never acknowledged."""

    file: Path
    offset: int
    data: bytes

    @property
    def note(self) -> str:
        """The note to show for it."""
        return (
            f"{len(self.data)} bytes of an incomplete entry at the end of {self.file} (byte {self.offset}) are ignored"
        )


@dataclass(frozen=True, slots=True)
class StoredChange:
    """A change as stored in its file: the whole entries, their size in bytes, and a torn tail if there is one."""

    entries: tuple[Entry, ...]
    size: int
    torn: TornTail | None = None

    @property
    def is_open(self) -> bool:
        """Whether its last whole entry isn't a `close`."""
        return self.entries[-1].kind is not EntryKind.CLOSE


class ClosedChanges:
    """A cache of closed changes, which are no longer written to, so that each file is read only once.

    It keeps the changes it reads first, until their files add up to `budget_bytes`. A reader of heads begins with the
    newest changes, which are also those that are read next.
    """

    def __init__(self, budget_bytes: int = _KEPT_BYTES) -> None:
        self._left = budget_bytes
        self._kept: dict[str, tuple[tuple[int, int, int], StoredChange]] = {}

    def read(self, layout: Layout, change: str) -> StoredChange:
        """Read a change like `read_change`, from the cache unless its file has changed."""
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


def read_change(layout: Layout, change: str) -> StoredChange:
    """Read and check a change.

    A change whose entries leave it open must also be listed as open. Otherwise its `close` entry was cut off.

    Raises:
        FileNotFoundError: there is no such change.
    """
    stored = _read_settled(layout.change_file(change), change)
    if stored.is_open and layout.read_marker(change) is None:
        # Its holder may have closed it between the two reads.
        stored = _read_settled(layout.change_file(change), change)
        if stored.is_open and layout.read_marker(change) is None:
            raise TamperedJournalError(
                f"change {change} is not listed as open, but {layout.change_file(change)} has no close entry",
                cause=f"the end of the file was cut off, or {layout.marker(change)} was removed",
                hint=f"restore the file from a backup; to resume the change instead: touch {layout.marker(change)}",
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
                raise TamperedJournalError("only the first entry may open the change")
            yield entry

    try:
        entries = check_chain(read_each())
    except TamperedJournalError as error:
        reason = f"{error.message}: {error.cause}" if error.cause else error.message
        raise _tampered(path, reason, number=place[0], offset=place[1], hint=error.hint) from None
    if not entries:
        raise _tampered(path, "the file contains no complete entry", number=0, offset=0)
    return entries


def _tampered(path: Path, reason: str, *, number: int, offset: int, hint: str = "") -> TamperedJournalError:
    return TamperedJournalError(
        f"{path} was modified after it was written, or its disk fails: entry {number} at byte {offset}",
        cause=reason,
        hint=hint or f"keep a copy of {path}, check the disk, and restore the file from a backup",
        context={"file": str(path), "entry": str(number), "offset": str(offset)},
    )


class FileJournalWriter:
    """Holds the locks of one change in a file journal and writes its entries. Threads may share it."""

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
        """Every entry of the change, including those before a takeover."""
        return tuple(self._entries)

    @property
    def is_released(self) -> bool:
        """Whether the locks were released."""
        return self._fd is None

    def append(self, kind: EntryKind, body: Mapping[str, Any]) -> Entry:
        """Write one entry; it is on the disk when this returns. See `JournalWriter.append`."""
        return self.append_all([(kind, body)])[0]

    def append_all(self, bodies: Sequence[tuple[EntryKind, Mapping[str, Any]]]) -> tuple[Entry, ...]:
        """Write several entries with one sync."""
        with self._mutex:
            fd = self._fd
            if fd is None:
                raise UsageError(f"this process has released change {self._change}")
            check_appendable(self._entries[-1], failure=self._failure)
            at = format_timestamp(self._now())
            entries = build_entries(self._change, bodies, by=self._by, at=at, after=self._entries[-1])
            frames = build_frames(entries)
            name = f"entry {entries[0].number} ({entries[0].kind}) of change {self._change}"
            with journal_errors(f"{name} was not written", self._layout.folder, change=self._change):
                self._check_fence(fd, size=self._size)
            is_last = entries[-1].kind is EntryKind.CLOSE
            self._write(fd, frames, name=name, is_last=is_last)
            self._size += len(frames)
            self._entries += entries
            if is_last:
                self._unlist()
            return tuple(entries)

    def measure_age(self, number: int) -> float:
        """Return 0.0: file times come from a clock that can be set. Clock marks in the entries are more reliable."""
        del number
        return 0.0

    def release(self) -> None:
        """Release the locks. Without a `close` entry the change stays open, to be resumed."""
        with self._mutex:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None
            self._hold.release()

    def _write(self, fd: int, frame: bytes, *, name: str, is_last: bool) -> None:
        """Write and sync a frame. A writer that failed once writes no more.

        A failed fsync may have dropped the bytes and is reported only once; a later successful fsync doesn't cover
        them. The partial write isn't removed either: another process may hold the file by now, and every reader detects
        a torn tail.
        """
        self._failure = f"writing {name} failed; it is unknown whether it is on disk"
        with journal_errors(self._failure, self._layout.folder, change=self._change):
            write_all(fd, frame)
            os.fsync(fd)
            try:
                self._check_fence(fd, size=self._size + len(frame), may_be_unlisted=is_last)
            except FencedError:
                self._failure = ""
                raise
        self._failure = ""

    def _check_fence(self, fd: int, *, size: int, may_be_unlisted: bool = False) -> None:
        """Raise an error unless `open/ID` still contains this nonce and the file is the same and has the known size.

        After the `close` entry is written, a process that begins another change may see it and unlist the change first.
        """
        nonce = self._layout.read_marker(self._change)
        if nonce != self._nonce and not (nonce is None and may_be_unlisted):
            raise self._fenced()
        mine, there = os.fstat(fd), self._path.stat()
        if (mine.st_dev, mine.st_ino) != (there.st_dev, there.st_ino) or mine.st_size != size:
            raise JournalError(
                f"{self._path} was replaced or modified by another program",
                hint=f"find that program; then: seamark journal show {self._change}",
                context={"change": self._change, "file": str(self._path)},
            )

    def _fenced(self) -> FencedError:
        cause = "its marker below open/ was removed"
        try:
            stored = read_change(self._layout, self._change)
            hold = find_hold(stored.entries)
            if find_nonce(stored.entries) != self._nonce:
                cause = f"{hold.by} has held it since {hold.at}"
            elif not stored.is_open:
                cause = "it was closed"
            elif self._layout.read_marker(self._change) is not None:
                cause = "another process has begun to take it over"
        except (SeamarkError, OSError):
            # This only affects the wording of the cause; that this process is fenced is certain.
            cause = "its marker has the nonce of another process"
        return FencedError(
            f"change {self._change} was taken over by another process; this process makes no more changes",
            cause=cause,
            hint=f"show the change: seamark journal show {self._change}",
            context={"change": self._change},
        )

    def _unlist(self) -> None:
        """Remove the closed change from the list of open ones. If that fails, the next begin removes it."""
        try:
            self._layout.drop_marker(self._change)
        except OSError:
            return


def build_frames(entries: Iterable[Entry]) -> bytes:
    """Return entries in the format of the journal file."""
    return b"".join(build_frame(entry.to_bytes()) for entry in entries)
