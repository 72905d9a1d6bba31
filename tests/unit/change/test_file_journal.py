"""The file journal: the shared cases, and what only files can have."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress

import pytest

from seamark.change.file_journal import FileJournal, durable, writer
from seamark.errors import (
    AlreadyExistsError,
    FencedError,
    JournalError,
    LockedError,
    NotFoundError,
    RefusedError,
    TamperedJournalError,
    UsageError,
)
from seamark.model.entry import EntryKind
from tests.unit.change.journal_suite import AT, JournalSuite, end, new_lock, opening


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "journal"


@pytest.fixture
def journal_factory(folder):
    made = []

    def make():
        made.append(FileJournal(folder))
        return made[-1]

    yield make
    for journal in made:
        journal.close()


@pytest.fixture
def journal(journal_factory):
    return journal_factory()


@pytest.fixture
def other(journal_factory):
    return journal_factory()


class TestFileJournal(JournalSuite):
    """The cases that every journal has."""


def change_file(folder, change):
    return folder / "changes" / f"{change}.journal"


def failing(call, *, code=errno.EIO, at=1):
    """The call, failing at its Nth time."""
    times = 0

    def fail(*arguments):
        nonlocal times
        times += 1
        if times == at:
            raise OSError(code, os.strerror(code))
        return call(*arguments)

    return fail


# --- who may see and write it ------------------------------------------------------------------------------------


def test_folder_and_files_are_their_owners_alone_whatever_the_umask(folder, journal):
    former = os.umask(0)
    try:
        holder = journal.begin(opening(new_lock()))
        journal.take_over(holder.entries[0].change, nonce="n2", by="b", at=AT)
    finally:
        os.umask(former)
    modes = {
        path.relative_to(folder).parts[0]: stat.S_IMODE(path.stat().st_mode)
        for path in [folder, *folder.rglob("*")]
        if path != folder
    }
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in folder.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert modes.keys() == {"changes", "open", "locks", "drafts", "gate"}


def test_reading_makes_no_folder(folder, journal):
    assert journal.heads() == journal.open_heads() == ()
    with pytest.raises(NotFoundError):
        journal.read("01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert not folder.exists()


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_file_that_others_can_write_is_refused_by_name(folder, journal, mode):
    first = opening(new_lock())
    journal.begin(first).release()
    change_file(folder, first.change).chmod(mode)
    for act in (lambda: journal.read(first.change), journal.heads, journal.open_heads):
        with pytest.raises(TamperedJournalError, match=f"{first.change}.journal can be written by others") as caught:
            act()
        assert "chmod 600" in caught.value.hint
    with pytest.raises(TamperedJournalError):
        journal.begin(opening(new_lock()))


def test_file_of_somebody_else_is_refused_by_name(folder, journal, monkeypatch):
    first = opening(new_lock())
    journal.begin(first).release()
    owner = os.geteuid()
    monkeypatch.setattr(durable.os, "geteuid", lambda: owner + 1)
    with pytest.raises(TamperedJournalError, match=f"belongs to user {owner}"):
        durable.read_owned(change_file(folder, first.change))


def test_folder_that_others_can_write_is_refused_by_name(folder, journal):
    folder.mkdir(mode=0o700)
    folder.chmod(0o777)
    for act in (lambda: journal.begin(opening(new_lock())), journal.heads, journal.open_heads):
        with pytest.raises(TamperedJournalError, match="can be written by others"):
            act()


def test_symbolic_link_in_place_of_a_file_is_refused(folder, journal):
    first = opening(new_lock())
    journal.begin(first).release()
    path = change_file(folder, first.change)
    path.rename(folder / "elsewhere")
    path.symlink_to(folder / "elsewhere")
    with pytest.raises(TamperedJournalError, match="symbolic link"):
        journal.read(first.change)


@pytest.mark.parametrize("change", ["", "../../etc/passwd", "01ARZ/..", "Ä", "0" * 27, "*"])
def test_what_can_be_no_id_is_refused(journal, change):
    with pytest.raises(UsageError):
        journal.read(change)
    with pytest.raises(UsageError):
        journal.begin(opening(new_lock(), change=change or "x"))


def test_id_is_found_in_small_letters_too(journal):
    first = opening(new_lock())
    journal.begin(first).release()
    assert journal.read(first.change.lower()) == journal.read(first.change)


def test_second_change_of_the_same_id_is_refused(journal):
    first = opening(new_lock())
    end(journal.begin(first))
    with pytest.raises(AlreadyExistsError):
        journal.begin(opening(new_lock(), change=first.change))
    assert len(journal.read(first.change)) == 2


# --- the lists ---------------------------------------------------------------------------------------------------


def test_open_heads_read_the_open_changes_alone(folder, journal):
    for _ in range(5):
        closed = opening(new_lock())
        end(journal.begin(closed))
        change_file(folder, closed.change).write_bytes(b"not to be read")
    first = opening(new_lock())
    journal.begin(first).release()
    assert [head.change for head in journal.open_heads()] == [first.change]
    assert [head.change for head in journal.heads(limit=1)] == [first.change]
    with pytest.raises(TamperedJournalError):
        journal.heads()


def test_head_names_the_step_by_the_plans_words(journal):
    plan = {"steps": [{"kind": "stop", "subject": "game/orders"}, {"kind": "pause", "subject": "game/users"}]}
    holder = journal.begin(opening(new_lock(), plan=plan))
    assert journal.open_heads()[0].step == ""
    holder.append(EntryKind.INTENT, {"step": 1, "before": 1, "after": 2})
    assert journal.open_heads()[0].step == "1 (pause game/users)"


# --- what a crash leaves -----------------------------------------------------------------------------------------


def test_listing_and_draft_of_a_begin_that_died_are_swept(folder, journal):
    end(journal.begin(opening(new_lock())))
    dead = opening(new_lock())
    (folder / "open" / dead.change).write_text(dead.nonce)
    (folder / "drafts" / f"{dead.change}.journal").write_text("entry 00000")
    assert journal.open_heads() == ()
    end(journal.begin(opening(*dead.locks)))
    assert list((folder / "open").iterdir()) == []
    assert list((folder / "drafts").iterdir()) == []


def test_listing_of_a_closed_change_is_swept(folder, journal, monkeypatch):
    first = opening(new_lock())
    holder = journal.begin(first)
    with monkeypatch.context() as patch:
        patch.setattr(writer.Layout, "drop_marker", failing(lambda *_: None))
        end(holder)
    assert [path.name for path in (folder / "open").iterdir()] == [first.change]
    assert journal.open_heads() == ()
    end(journal.begin(opening(*first.locks)))
    assert list((folder / "open").iterdir()) == []


def test_begin_that_fails_at_any_fsync_leaves_nothing_locked(journal, monkeypatch):
    lock = new_lock()
    end(journal.begin(opening(lock)))
    failed = 0
    for at in range(1, 20):
        wanted = opening(lock)
        holder = None
        with monkeypatch.context() as patch, suppress(JournalError):
            patch.setattr(durable.os, "fsync", failing(os.fsync, at=at))
            holder = journal.begin(wanted)
        if holder:
            end(holder)
            break
        failed += 1
        assert journal.open_heads() == ()
        with pytest.raises(NotFoundError):
            journal.read(wanted.change)
    assert failed >= 4


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
        with pytest.raises(JournalError, match="not known"):
            holder.append(EntryKind.NOTE, {"note": "lost?"})
    before = change_file(folder, first.change).read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(durable.os, "fsync", lambda _: pytest.fail("synced again"))
        patch.setattr(durable.os, "write", lambda *_: pytest.fail("written again"))
        for _ in range(2):
            with pytest.raises(JournalError, match="can't be written any more") as caught:
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
    assert [entry.kind for entry in takers[0].entries] == ["open", "note", "taken"]
    assert takers[0].entries[1].body["torn_bytes"] == 100
    end(takers[0])
    assert len(journal.read(first.change)) == 4
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
    with pytest.raises(FencedError, match="taken from this process"):
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
