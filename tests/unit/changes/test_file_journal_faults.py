"""The file journal when its disk fails, its holder sleeps at the wrong moment, or its gate stays shut."""

from __future__ import annotations

import errno
import fcntl
import os

import pytest

from seamark.changes.file_journal import FileJournal
from seamark.changes.file_journal import entries as writer
from seamark.changes.file_journal import files as durable
from seamark.changes.journal import EntryKind
from seamark.errors import FencedError, JournalError, LockedError, RefusedError
from tests.fakes.changes.openings import AT, end, new_lock, opening
from tests.unit.changes.file_faults import change_file, failing


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "journal"


@pytest.fixture
def journal(folder):
    journal = FileJournal(folder)
    yield journal
    journal.close()


@pytest.fixture
def other(folder):
    """The journal as another process sees it."""
    journal = FileJournal(folder)
    yield journal
    journal.close()


# --- disks that fail ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "word"), [(errno.ENOSPC, "df -h"), (errno.EIO, "dmesg"), (errno.EROFS, "findmnt"), (errno.EDQUOT, "df -h")]
)
def test_failed_write_says_what_to_type(folder, journal, monkeypatch, code, word):
    first = opening(new_lock())
    holder = journal.begin(first)
    with monkeypatch.context() as patch:
        patch.setattr(durable.os, "write", failing(os.write, code=code))
        with pytest.raises(JournalError) as caught:
            holder.append(EntryKind.NOTE, {})
    assert word in caught.value.hint
    assert str(folder) in caught.value.hint
    assert f"seamark journal resume {first.change}" in caught.value.hint
    assert os.strerror(code) in caught.value.cause


def test_after_a_failed_fsync_nothing_more_is_written_or_synced(folder, journal, other, monkeypatch):
    first = opening(new_lock())
    holder = journal.begin(first)
    with monkeypatch.context() as patch:
        patch.setattr(durable.os, "fsync", failing(os.fsync))
        with pytest.raises(JournalError, match="it is unknown whether it is on disk"):
            holder.append(EntryKind.NOTE, {"note": "lost?"})
    before = change_file(folder, first.change).read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(durable.os, "fsync", lambda _: pytest.fail("synced again"))
        patch.setattr(durable.os, "write", lambda *_: pytest.fail("written again"))
        for _ in range(2):
            with pytest.raises(JournalError, match="this process can't write to change") as caught:
                holder.append(EntryKind.NOTE, {"note": "never"})
            assert f"seamark journal resume {first.change}" in caught.value.hint
    assert change_file(folder, first.change).read_bytes() == before
    # Whoever takes it over writes everything anew, into a file that no fsync has failed on.
    inode = change_file(folder, first.change).stat().st_ino
    end(other.take_over(first.change, nonce="n2", by="b", at=AT))
    assert change_file(folder, first.change).stat().st_ino != inode
    assert [entry.kind for entry in journal.read(first.change)] == ["open", "note", "taken", "close"]


def test_file_that_was_removed_or_written_by_others_stops_the_holder(folder, journal):
    removed, grown, swapped = (opening(new_lock()) for _ in range(3))
    holders = [journal.begin(one) for one in (removed, grown, swapped)]
    change_file(folder, removed.change).unlink()
    with change_file(folder, grown.change).open("ab") as file:
        file.write(b"x")
    path = change_file(folder, swapped.change)
    copy = path.read_bytes()
    path.rename(folder / "old")
    path.write_bytes(copy)
    for holder in holders:
        with pytest.raises(JournalError):
            holder.append(EntryKind.NOTE, {})
    assert path.read_bytes() == (folder / "old").read_bytes() == copy


# --- fencing, at the moments that matter -------------------------------------------------------------------------


def test_holder_that_slept_before_its_write_writes_nowhere(folder, journal, other, monkeypatch):
    first = opening(new_lock())
    holder = journal.begin(first)
    takers = []

    def sleep_then_write(fd, data):
        monkeypatch.undo()
        takers.append(other.take_over(first.change, nonce="n2", by="b", at=AT))
        durable.write_all(fd, data)

    monkeypatch.setattr(writer, "write_all", sleep_then_write)
    with pytest.raises(FencedError):
        holder.append(EntryKind.NOTE, {"note": "too late"})
    assert journal.read(first.change) == takers[0].entries
    assert [entry.kind for entry in takers[0].entries] == ["open", "taken"]
    end(takers[0])
    with pytest.raises(FencedError):
        holder.append(EntryKind.NOTE, {"note": "still too late"})


def test_holder_that_slept_after_its_write_is_fenced_and_its_entry_kept(journal, other, monkeypatch):
    first = opening(new_lock())
    holder = journal.begin(first)
    takers = []

    def write_then_sleep(fd, data):
        monkeypatch.undo()
        durable.write_all(fd, data)
        takers.append(other.take_over(first.change, nonce="n2", by="b", at=AT))

    monkeypatch.setattr(writer, "write_all", write_then_sleep)
    with pytest.raises(FencedError):
        holder.append(EntryKind.INTENT, {"step": 0})
    # It was not acknowledged, so nothing was done on its word; that it was wanted is still told.
    assert [entry.kind for entry in takers[0].entries] == ["open", "intent", "taken"]
    end(takers[0])
    assert len(journal.read(first.change)) == 4


def test_holder_that_slept_within_its_write_leaves_a_torn_tail_for_the_taker(folder, journal, other, monkeypatch):
    first = opening(new_lock())
    holder = journal.begin(first)
    takers = []

    def write_sleep_write(fd, data):
        monkeypatch.undo()
        durable.write_all(fd, data[:100])
        takers.append(other.take_over(first.change, nonce="n2", by="b", at=AT))
        durable.write_all(fd, data[100:])

    monkeypatch.setattr(writer, "write_all", write_sleep_write)
    with pytest.raises(FencedError):
        holder.append(EntryKind.INTENT, {"step": 0})
    assert [entry.kind for entry in takers[0].entries] == ["open", "taken"]
    assert takers[0].entries[1].body["torn_bytes"] == 100
    end(takers[0])
    assert len(journal.read(first.change)) == 3
    assert (folder / "changes" / f"{first.change}.torn-1").stat().st_size == 100


def test_close_written_while_somebody_takes_over_counts_once(journal, other, monkeypatch):
    first = opening(new_lock())
    holder = journal.begin(first)
    refusals = []

    def write_then_be_taken(fd, data):
        monkeypatch.undo()
        durable.write_all(fd, data)
        with pytest.raises(RefusedError, match="is closed") as caught:
            other.take_over(first.change, nonce="n2", by="b", at=AT)
        refusals.append(caught.value)

    monkeypatch.setattr(writer, "write_all", write_then_be_taken)
    end(holder)
    assert len(refusals) == 1
    assert [entry.kind for entry in journal.read(first.change)] == ["open", "close"]
    end(journal.begin(opening(*first.locks)))


def test_take_over_that_fails_half_way_fences_and_can_be_repeated(journal, other, monkeypatch):
    first = opening(new_lock())
    holder = journal.begin(first)
    with monkeypatch.context() as patch:
        # The new nonce is two fsyncs; the third is that of the copy.
        patch.setattr(durable.os, "fsync", failing(os.fsync, at=3))
        with pytest.raises(JournalError, match="was not taken over"):
            other.take_over(first.change, nonce="n2", by="b", at=AT)
    with pytest.raises(FencedError, match="taken over by another process"):
        holder.append(EntryKind.NOTE, {})
    assert len(journal.read(first.change)) == 1
    end(other.take_over(first.change, nonce="n3", by="c", at=AT, expected_nonce=first.nonce))
    assert [entry.kind for entry in journal.read(first.change)] == ["open", "taken", "close"]


# --- the gate ----------------------------------------------------------------------------------------------------


def test_gate_that_stays_shut_is_a_refusal_that_names_the_process(folder, journal):
    end(journal.begin(opening(new_lock())))
    gate = os.open(folder / "gate", os.O_RDWR)
    try:
        fcntl.flock(gate, fcntl.LOCK_EX)
        with pytest.raises(LockedError) as caught:
            FileJournal(folder, gate_wait_seconds=0.05).begin(opening(new_lock()))
    finally:
        os.close(gate)
    assert f"process {os.getpid()} on " in caught.value.cause
    assert f"kill -CONT {os.getpid()}" in caught.value.hint
    end(journal.begin(opening(new_lock())))


def test_change_that_is_closed_and_not_released_is_still_locked(journal, other):
    first = opening(new_lock())
    holder = journal.begin(first)
    holder.append(EntryKind.CLOSE, {"ending": "done"})
    with pytest.raises(LockedError, match="has just ended") as caught:
        other.begin(opening(*first.locks))
    assert f"process {os.getpid()}" in caught.value.cause
    holder.release()
    end(other.begin(opening(*first.locks)))


def test_lock_file_says_what_it_locks(folder, journal):
    lock = f"group.Zürich/{'x' * 300}@workers"
    journal.begin(opening(lock, by="ann@north:1"))
    [path] = (folder / "locks").iterdir()
    text = path.read_text()
    assert "group.Zürich/xxx" in text
    assert "ann@north:1" in text
