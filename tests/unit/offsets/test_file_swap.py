"""A standalone worker's file, swapped whole."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

import pytest

from seamark.errors import RefusedError, SeamarkError, UnknownOutcomeError, UnsettledError
from seamark.offsets.codec.java_map import change_file, read_java_map, write_java_map
from seamark.offsets.stores import file as file_swap
from seamark.offsets.stores.file import FileSwap, build_digest


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "connect.offsets"
    path.write_bytes(b"old")
    return path


def swap(file, content=b"new", *, expected=b"old", make_sure=lambda: None):
    FileSwap(file).swap(build_digest(expected), content, make_sure=make_sure)


def names(file):
    return sorted(path.name for path in file.parent.iterdir())


def test_the_file_is_another_one_with_the_same_mode(file):
    file.chmod(0o604)
    before = file.stat()
    swap(file)
    after = file.stat()
    assert (file.read_bytes(), names(file)) == (b"new", ["connect.offsets"])
    assert (stat.S_IMODE(after.st_mode), after.st_uid, after.st_gid) == (0o604, before.st_uid, before.st_gid)
    assert after.st_ino != before.st_ino


def test_it_is_on_the_disk_before_its_name_and_its_name_after(file, monkeypatch):
    done = []
    sync, put = os.fsync, type(file).replace
    monkeypatch.setattr(os, "fsync", lambda fd: (done.append(str(Path(f"/proc/self/fd/{fd}").readlink())), sync(fd)))
    monkeypatch.setattr(type(file), "replace", lambda one, to: (done.append("rename"), put(one, to))[1])
    swap(file)
    assert done == [f"{file.parent}/.connect.offsets.seamark", "rename", str(file.parent)]


def test_nothing_is_written_where_the_file_is_another_by_now(file):
    with pytest.raises(RefusedError, match="was written meanwhile; no changes were made"):
        swap(file, expected=b"older")
    with pytest.raises(RefusedError):
        swap(file, expected=None)
    assert (file.read_bytes(), names(file)) == (b"old", ["connect.offsets"])


def test_who_uses_it_is_asked_under_the_lock(file):
    def refuse():
        with pytest.raises(UnsettledError):
            FileSwap(file).read()
        raise RefusedError("a worker uses it")

    with pytest.raises(RefusedError, match="a worker uses it"):
        swap(file, make_sure=refuse)
    assert FileSwap(file).read() == b"old"


def test_two_of_us_never_change_it_at_once(file):
    folder = os.open(file.parent, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    try:
        with pytest.raises(UnsettledError, match=r"another seamark process is changing .*"):
            swap(file)
    finally:
        os.close(folder)
    swap(file)
    assert file.read_bytes() == b"new"


def test_a_draft_that_was_left_is_taken_away(file):
    (file.parent / ".connect.offsets.seamark").write_bytes(b"half")
    swap(file)
    assert (file.read_bytes(), names(file)) == (b"new", ["connect.offsets"])


def test_a_draft_that_is_a_link_is_not_followed(file, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"precious")
    (file.parent / ".connect.offsets.seamark").symlink_to(elsewhere)
    swap(file)
    assert (file.read_bytes(), elsewhere.read_bytes()) == (b"new", b"precious")


def test_a_disk_that_is_full_leaves_the_former_file(file, monkeypatch):
    def fail(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(SeamarkError, match="can't be written; no changes were made") as caught:
        swap(file)
    assert caught.value.cause == "No space left on device"
    assert (file.read_bytes(), names(file)) == (b"old", ["connect.offsets"])


def test_a_folder_that_is_not_confirmed_is_an_unknown_outcome(file, monkeypatch):
    def fail(_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(file_swap, "_sync", fail)
    with pytest.raises(UnknownOutcomeError):
        swap(file)
    assert file.read_bytes() == b"new"


def test_a_file_that_would_change_hands_is_refused(file, monkeypatch):
    def deny(*_):
        raise PermissionError

    former = file.stat()
    monkeypatch.setattr(os, "fchown", deny)
    other = os.stat_result((former.st_mode, 1, 1, 1, former.st_uid + 1, former.st_gid, 3, 0, 0, 0))
    with pytest.raises(RefusedError, match="belongs to user"):
        FileSwap(file)._dress(os.open(file, os.O_RDONLY), other)


def test_no_file_and_a_new_one(file):
    swap(file, None)
    assert names(file) == []
    swap(file, expected=None)
    assert file.read_bytes() == b"new"
    # No other user of the machine may write it, whatever the umask.
    assert stat.S_IMODE(file.stat().st_mode) & 0o022 == 0


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(SeamarkError, match="can't be opened"):
        FileSwap(tmp_path / "none" / "connect.offsets").read()


def test_pairs_are_changed_in_place_and_new_ones_come_last():
    entries = [(b"a", b"1"), (None, b"2"), (b"c", None)]
    changed = read_java_map(change_file(write_java_map(entries), {b"c": b"3", b"d": b"4"}, name="f"))
    assert changed.entries == ((b"a", b"1"), (None, b"2"), (b"c", b"3"), (b"d", b"4"))
    assert read_java_map(change_file(None, {b"a": b"1"}, name="f")).entries == ((b"a", b"1"),)
