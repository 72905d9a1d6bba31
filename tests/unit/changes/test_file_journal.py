"""The file journal: the shared cases, and what only files can have."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

import pytest

from seamark.changes.file_journal import FileJournal
from seamark.changes.file_journal import entries as writer
from seamark.changes.file_journal import files as durable
from seamark.changes.journal import EntryKind
from seamark.errors import AlreadyExistsError, JournalError, NotFoundError, TamperedJournalError, UsageError
from tests.fakes.changes.journal_suite import JournalSuite
from tests.fakes.changes.openings import AT, end, new_lock, opening
from tests.unit.changes.file_faults import change_file, failing


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


class TestFileJournal(JournalSuite):
    """The cases that every journal has."""


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
        with pytest.raises(TamperedJournalError, match=f"other users can write to .*{first.change}.journal") as caught:
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
        with pytest.raises(TamperedJournalError, match="other users can write to"):
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
