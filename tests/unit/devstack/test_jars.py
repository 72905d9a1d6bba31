"""Jars are the ones that were tested, or they are refused by name."""

from __future__ import annotations

import hashlib

import pytest

from seamark.devstack import downloads as jars
from seamark.errors import DevstackError


@pytest.fixture
def jar_set(tmp_path, monkeypatch):
    """A set of two jars in a cache of its own, with its checksums."""
    monkeypatch.setenv("SEAMARK_CACHE", str(tmp_path / "cache"))
    contents = {"a.jar": b"first", "b.jar": b"second"}
    sums = tmp_path / "jars.sha256"
    sums.write_text("".join(f"{hashlib.sha256(body).hexdigest()}  set-1/{name}\n" for name, body in contents.items()))
    monkeypatch.setattr(jars, "CHECKSUMS", sums)

    def fetch(name, target):
        for file, body in contents.items():
            (target / file).write_bytes(body)

    monkeypatch.setattr(jars, "fetch_jars", fetch)
    return tmp_path / "cache" / "jars" / "set-1"


def test_jars_are_fetched_once(jar_set, monkeypatch):
    assert jars.read_jars("set-1") == jar_set
    monkeypatch.setattr(jars, "fetch_jars", None)
    assert sorted(jar.name for jar in jars.read_jars("set-1").iterdir()) == ["a.jar", "b.jar"]


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda folder: (folder / "a.jar").write_bytes(b"firsT"), "a.jar"),
        (lambda folder: (folder / "b.jar").unlink(), "b.jar"),
        (lambda folder: (folder / "evil.jar").write_bytes(b""), "evil.jar"),
    ],
)
def test_changed_missing_or_extra_jar_is_refused_by_name(jar_set, spoil, named):
    spoil(jars.read_jars("set-1"))
    with pytest.raises(DevstackError, match="don't match their checksums") as caught:
        jars.read_jars("set-1")
    assert named in caught.value.cause


def test_version_without_checksums_is_refused_with_the_way_to_add_it(jar_set):
    with pytest.raises(DevstackError, match="no checksums") as caught:
        jars.read_jars("connect-9.9.9")
    assert "lock-jars connect-9.9.9" in caught.value.hint


def test_committed_checksums_cover_what_the_default_stack_needs():
    sets = jars.read_checksums()
    assert {"kafka-4.3.1", "connect-3.5.2", "plugin-jdbc-6.10.0", "plugin-s3-2.15.0"} <= sets.keys()
    assert len(sets["kafka-4.3.1"]) == 97
    assert all(len(digest) == 64 for files in sets.values() for digest in files.values())


def test_failed_fetch_leaves_no_half_filled_folder(jar_set, monkeypatch):
    def fetch(name, target):
        (target / "a.jar").write_bytes(b"first")
        raise DevstackError("the network went away")

    monkeypatch.setattr(jars, "fetch_jars", fetch)
    with pytest.raises(DevstackError, match="network"):
        jars.read_jars("set-1")
    assert not jar_set.exists()
    assert [path.name for path in jar_set.parent.iterdir()] == [".set-1.lock"]
