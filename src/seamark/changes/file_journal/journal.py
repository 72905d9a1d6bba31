"""The journal in a local folder, for one user."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seamark.changes.file_journal.entries import (
    ClosedChanges,
    FileJournalWriter,
    StoredChange,
    TornTail,
    build_frames,
    read_change,
)
from seamark.changes.file_journal.files import (
    Layout,
    journal_errors,
    replace_file,
    sync_file,
)
from seamark.changes.file_journal.locks import (
    GATE_WAIT_SECONDS,
    HeldLockFiles,
    find_living_holder,
    hold_gate,
    replace_locks,
    take_locks,
)
from seamark.changes.journal import (
    Entry,
    EntryKind,
    Head,
    KeyRecord,
    Opening,
    build_entries,
    build_opening_entry,
    find_nonce,
    is_change_id,
)
from seamark.changes.locks import conflicts
from seamark.changes.signing import check_recordable, check_same_key
from seamark.errors import AlreadyExistsError, LockedError, NotFoundError, RefusedError, UsageError


@dataclass(frozen=True, slots=True)
class FileHead(Head):
    """A head with a note about the file for the reader, such as a torn tail."""

    note: str = ""


def build_head(stored: StoredChange) -> FileHead:
    """Return the head of a change."""
    note = stored.torn.note if stored.torn else ""
    return FileHead.build(stored.entries, step=_describe_step(stored.entries), note=note)


def _describe_step(entries: Sequence[Entry]) -> str:
    """Describe the newest step with an entry: its number and, if the `open` entry has a plan, kind and subject."""
    number = next((entry.body["step"] for entry in reversed(entries) if "step" in entry.body), None)
    if number is None:
        return ""
    step = _find_step(entries[0].body, number)
    return f"{number} ({step['kind']} {step['subject']})" if step else str(number)


def _find_step(opened: Mapping[str, Any], number: object) -> Mapping[str, Any] | None:
    plan = opened.get("plan")
    steps = plan.get("steps") if isinstance(plan, Mapping) else None
    if not isinstance(steps, list) or not isinstance(number, int) or not 0 <= number < len(steps):
        return None
    step = steps[number]
    return step if isinstance(step, Mapping) and {"kind", "subject"} <= step.keys() else None


class FileJournal:
    """A `JournalPort` in a folder. Nothing is created on disk before the first change."""

    def __init__(
        self,
        folder: Path | str,
        *,
        now: Callable[[], float] = time.time,
        gate_wait_seconds: float = GATE_WAIT_SECONDS,
    ) -> None:
        self._layout = Layout(Path(folder).expanduser().absolute())
        self._now = now
        self._gate_wait_seconds = gate_wait_seconds
        self._writers: set[FileJournalWriter] = set()
        self._closed = ClosedChanges()

    def begin(self, opening: Opening) -> FileJournalWriter:
        """Take the locks and write the `open` entry. See `JournalPort.begin`."""
        if not is_change_id(opening.change):
            raise UsageError(f"invalid change ID {opening.change!r}", hint="use a ULID in capital letters")
        entry = build_opening_entry(opening)
        with journal_errors(f"change {opening.change} was not started", self._layout.folder):
            self._layout.make()
            with hold_gate(self._layout, wait_seconds=self._gate_wait_seconds):
                self._check_key(opening)
                self._refuse_conflicts(opening)
                hold = take_locks(
                    self._layout, opening.locks, change=opening.change, by=opening.by, nonce=opening.nonce
                )
                with hold.released_on_error(), self._removed_on_error(opening.change):
                    # List the change as open before its file exists, so that no open change is ever unlisted.
                    self._layout.write_marker(opening.change, opening.nonce)
                    target = self._layout.change_file(opening.change)
                    replace_file(target, build_frames([entry]), draft=self._layout.draft(target))
                    return self._open_writer([entry], nonce=opening.nonce, by=opening.by, hold=hold)

    def take_over(
        self, change: str, *, nonce: str, by: str, at: str, expected_nonce: str | None = None
    ) -> FileJournalWriter:
        """Fence the holder, alive or not, and write a `taken` entry. See `JournalPort.take_over`."""
        change = self._resolve(change)
        with journal_errors(f"change {change} was not taken over", self._layout.folder, change=change):
            self._layout.make()
            with hold_gate(self._layout, wait_seconds=self._gate_wait_seconds):
                self._refuse_take_over(read_change(self._layout, change), expected_nonce=expected_nonce)
                # From here on, no entry of the previous holder is acknowledged.
                self._layout.write_marker(change, nonce)
                stored = read_change(self._layout, change)
                if not stored.is_open:
                    self._layout.drop_marker(change)
                    self._refuse_take_over(stored, expected_nonce=None)
                entries = self._rewrite(stored, nonce=nonce, by=by, at=at)
                locks = build_head(stored).locks
                hold = replace_locks(self._layout, locks, change=change, by=by, nonce=nonce)
                with hold.released_on_error():
                    return self._open_writer(entries, nonce=nonce, by=by, hold=hold)

    def read(self, change: str) -> tuple[Entry, ...]:
        """Return every whole entry of a change, checked. `torn_tail` returns the bytes after them."""
        return self._read_stored(change).entries

    def torn_tail(self, change: str) -> TornTail | None:
        """Return the bytes of a partly written entry after the last whole one, which `read` omits."""
        return self._read_stored(change).torn

    def heads(self, *, limit: int | None = None) -> tuple[FileHead, ...]:
        """Return changes, the newest first; IDs are ULIDs and sort by time."""
        with journal_errors("the journal was not read", self._layout.folder):
            self._layout.check()
            wanted = list(reversed(self._layout.change_ids()))[:limit]
            return tuple(build_head(stored) for stored in self._stored(wanted))

    def open_heads(self) -> tuple[FileHead, ...]:
        """Return every open change, the newest first. Reads only the files of open changes."""
        with journal_errors("the journal was not read", self._layout.folder):
            self._layout.check()
            listed = list(reversed(self._layout.open_ids()))
            return tuple(build_head(stored) for stored in self._stored(listed) if stored.is_open)

    def read_key(self) -> KeyRecord | None:
        """See `JournalPort.read_key`."""
        with journal_errors("the journal was not read", self._layout.folder):
            self._layout.check()
            return self._layout.read_key()

    def record_key(self, record: KeyRecord) -> None:
        """See `JournalPort.record_key`."""
        with journal_errors("the journal's key was not recorded", self._layout.folder):
            self._layout.make()
            with hold_gate(self._layout, wait_seconds=self._gate_wait_seconds):
                found = self._layout.read_key()
                if found is not None and found.fingerprint == record.fingerprint:
                    return
                check_recordable(found, record, self.open_heads())
                self._layout.write_key(record)

    def _check_key(self, opening: Opening) -> None:
        """Refuse a change with another key. The first change of a journal without a key record creates the record."""
        found = self._layout.read_key()
        check_same_key(found, opening.key)
        if found is None and opening.key is not None:
            self._layout.write_key(opening.key)

    def close(self) -> None:
        """Release the locks of all writers. Open changes stay open."""
        while self._writers:
            self._writers.pop().release()

    def _open_writer(self, entries: list[Entry], *, nonce: str, by: str, hold: HeldLockFiles) -> FileJournalWriter:
        writer = FileJournalWriter(self._layout, entries, nonce=nonce, by=by, hold=hold, now=self._now)
        self._writers -= {former for former in tuple(self._writers) if former.is_released}
        self._writers.add(writer)
        return writer

    def _resolve(self, change: str) -> str:
        with journal_errors("the journal was not read", self._layout.folder):
            self._layout.check()
            return self._layout.resolve(change)

    def _read_stored(self, change: str) -> StoredChange:
        found = self._resolve(change)
        with journal_errors("the journal was not read", self._layout.folder):
            try:
                return self._closed.read(self._layout, found)
            except FileNotFoundError:
                raise NotFoundError(
                    f"the journal has no change {change}", hint="list the changes: seamark journal list"
                ) from None

    def _stored(self, changes: list[str]) -> Iterator[StoredChange]:
        for change in changes:
            try:
                yield self._closed.read(self._layout, change)
            except FileNotFoundError:
                # Either listed as open shortly before its file exists, or removed by a begin that failed.
                continue

    def _refuse_conflicts(self, opening: Opening) -> None:
        """Refuse if an open change, with or without a live process, has a conflicting lock. Unlists closed changes."""
        if self._layout.change_file(opening.change).exists():
            raise AlreadyExistsError(f"the journal already has a change {opening.change}")
        for change in self._layout.open_ids():
            stored = next(self._stored([change]), None)
            if stored is None or not stored.is_open:
                self._unlist(change, is_stored=stored is not None)
                continue
            head = build_head(stored)
            for mine in opening.locks:
                theirs = next((lock for lock in head.locks if conflicts(mine, lock)), None)
                if theirs is not None:
                    raise self._locked(mine, theirs, head)

    def _unlist(self, change: str, *, is_stored: bool) -> None:
        """Unlist a change that was closed or never begun; its process has ended or is about to."""
        if is_stored:
            # The entry that closed it may be in memory only, and must be durable before the listing is removed.
            sync_file(self._layout.change_file(change))
        self._layout.drop_marker(change)

    def _locked(self, mine: str, theirs: str, head: FileHead) -> LockedError:
        living = find_living_holder(self._layout, head.locks)
        step = f"at step {head.step}" if head.step else "before its first step"
        return LockedError(
            f"{mine} is locked by change {head.change} ({head.title})",
            cause=f"{head.by} has held {theirs} since {head.opened_at}, {step}, last entry at {head.last_at}; "
            + (f"its process is running: {living}" if living else "its process has ended"),
            hint=f"wait until it ends, or show it: seamark journal show {head.change}"
            if living
            else f"finish it: seamark journal resume {head.change}",
            context={"change": head.change, "lock": theirs, "nonce": head.nonce},
        )

    def _refuse_take_over(self, stored: StoredChange, *, expected_nonce: str | None) -> None:
        head = build_head(stored)
        if not stored.is_open:
            raise RefusedError(
                f"change {head.change} is closed; there is nothing to take over",
                hint=f"show the change: seamark journal show {head.change}",
                context={"change": head.change},
            )
        if expected_nonce is not None and expected_nonce != head.nonce:
            raise LockedError(
                f"the holder of change {head.change} is {head.nonce}, not {expected_nonce}",
                cause=f"{head.by} holds it, last entry at {head.last_at}",
                hint=f"show the change again, then decide: seamark journal show {head.change}",
                context={"change": head.change, "nonce": head.nonce},
            )

    @contextmanager
    def _removed_on_error(self, change: str) -> Iterator[None]:
        """Remove a change whose begin failed: no step was run, and it should not keep locks."""
        try:
            yield
        except OSError:
            # If this fails too, an open change without a step remains: the next command reports it, and it can be
            # resumed.
            with suppress(OSError):
                self._layout.drop_change(change)
            raise

    def _rewrite(self, stored: StoredChange, *, nonce: str, by: str, at: str) -> list[Entry]:
        """Replace the change's file with a copy that has the new entries; a torn tail is saved to another file first.

        The copy is written and synced again, so that it has on disk what a failed fsync may have left in memory only.
        One rename replaces the torn tail and records that, so that a crash can't turn it into a silent repair.
        """
        change = stored.entries[0].change
        body: dict[str, object] = {"nonce": nonce, "from": find_nonce(stored.entries)}
        if stored.torn is not None:
            # In the same entry, because it is the only one that the journal writes on its own, and so the only one
            # without a signature.
            body |= self._set_aside(stored.torn, change)
        taken = build_entries(change, [(EntryKind.TAKEN, body)], by=by, at=at, after=stored.entries[-1])
        entries = [*stored.entries, *taken]
        target = self._layout.change_file(change)
        replace_file(target, build_frames(entries), draft=self._layout.draft(target))
        return entries

    def _set_aside(self, torn: TornTail, change: str) -> dict[str, object]:
        target = self._layout.next_torn_file(change)
        replace_file(target, torn.data, draft=self._layout.draft(target))
        words = f"moved {len(torn.data)} bytes of an incomplete entry at byte {torn.offset} to {target.name}"
        return {"note": words, "torn_bytes": len(torn.data), "offset": torn.offset, "set_aside": target.name}
