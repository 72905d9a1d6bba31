"""A journal folder, one change in it or to come, the child that works on it, and what must be true afterwards."""

from __future__ import annotations

import pytest

from seamark.changes.file_journal import FileJournal
from seamark.changes.file_journal.files import Layout
from seamark.changes.journal import EntryKind
from seamark.errors import LockedError, NotFoundError
from tests.fakes.changes.openings import AT, end, new_change_id, new_lock, opening
from tests.fault.changes import journal_child
from tests.fault.changes.strace import build_command, run_traced

# strace counts each kind of call by itself.
CALLS = ("write", "fsync", "/^rename", "/^unlink", "/^mkdir", "openat", "ftruncate", "flock", "/^fchmod")
TRACED = ",".join(CALLS)
TORN = b"entry 0000000200 0123"


class Stage:
    """One run's folder. For a take-over it holds a change that somebody left, with a torn tail."""

    def __init__(self, base, act, *, cache):
        base.mkdir(parents=True)
        self.base = base
        self.act = act
        self.cache = cache
        self.layout = Layout(base / "journal")
        self.change = new_change_id()
        self.lock = new_lock()
        self.log = base / "strace.log"
        self.before = self._leave_torn() if act == "take-over" else ()

    def _leave_torn(self):
        writer = FileJournal(self.layout.folder).begin(opening(self.lock, change=self.change))
        writer.append(EntryKind.INTENT, {"step": 0, "before": 1, "after": 2})
        writer.release()
        with self.layout.change_file(self.change).open("ab") as file:
            file.write(TORN)
        return writer.entries

    @property
    def paths(self):
        """Every file and folder of the journal; strace takes no patterns."""
        at = self.layout
        targets = [
            at.change_file(self.change),
            at.marker(self.change),
            at.lock_file(self.lock),
            at.changes / f"{self.change}.torn-1",
        ]
        folders = [self.base, at.folder, at.changes, at.open, at.locks, at.drafts]
        return [*folders, at.gate, *targets, *(at.draft(target) for target in targets)]

    def build_command(self, *plant, fault="", calls=TRACED, is_filtered=True):
        return build_command(
            journal_child.__file__,
            self.act,
            self.layout.folder,
            self.change,
            self.lock,
            *plant,
            log=self.log,
            calls=calls,
            paths=self.paths if is_filtered else (),
            fault=fault,
        )

    def run(self, *plant, **options):
        return run_traced(self.build_command(*plant, **options), log=self.log, cache=self.cache)

    def check(self, run):
        """Nothing acknowledged is lost, nothing is repaired in silence, and work can go on."""
        journal = FileJournal(self.layout.folder)
        try:
            entries = journal.read(self.change)
        except NotFoundError:
            assert not run.acknowledged
            assert not self.before
            assert not journal.open_heads()
            end(journal.begin(opening(self.lock)))
            return
        assert entries[: len(self.before)] == self.before
        assert set(run.acknowledged) <= {entry.number for entry in entries}
        self._check_tail(journal, entries, run)
        self._check_lock(journal, entries)
        again = journal.read(self.change)
        assert again[: len(entries)] == entries
        assert again[-1].kind is EntryKind.CLOSE
        end(journal.begin(opening(self.lock)))

    def _check_tail(self, journal, entries, run):
        """The torn tail of a take-over is where it was, or beside the file and told of in the journal."""
        tail = journal.torn_tail(self.change)
        notes = [entry.body for entry in entries if "torn_bytes" in entry.body]
        if self.act == "take-over":
            assert len(notes) == (1 if tail is None else 0)
            found = (self.layout.changes / notes[0]["set_aside"]).read_bytes() if notes else tail.data
            assert found == TORN
        elif tail is not None:
            assert journal.open_heads()[0].note == tail.note
        # Nothing but the one entry in hand may be there without having been acknowledged.
        former = len(self.before) + len(notes)
        last = run.acknowledged[-1] if run.acknowledged else max(former - 1, 0)
        assert entries[-1].number - last in (0, 1)

    def _check_lock(self, journal, entries):
        """An open change refuses others and can be taken over; a closed one is in nobody's way."""
        if entries[-1].kind is EntryKind.CLOSE:
            assert not journal.open_heads()
            return
        assert [head.change for head in journal.open_heads()] == [self.change]
        with pytest.raises(LockedError) as caught:
            journal.begin(opening(self.lock))
        assert f"seamark journal resume {self.change}" in caught.value.hint
        end(journal.take_over(self.change, nonce="nonce-9", by="parent@here", at=AT))
