"""Reading a change's file: whole entries, and what stands behind the last of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from seamark.changes.entry import Entry, EntryKind, check_chain
from seamark.changes.file_journal.durable import read_owned
from seamark.changes.file_journal.frames import DamagedFrameError, Frames, split_frames
from seamark.changes.file_journal.layout import Layout
from seamark.errors import TamperedJournalError

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
