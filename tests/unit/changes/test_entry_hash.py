"""An entry that was read knows its hash; it is the one that writing it anew would give."""

from __future__ import annotations

from dataclasses import replace

from seamark.changes.journal import Entry, EntryKind

WRITTEN = Entry("01M", 3, EntryKind.NOTE, "2026-11-15T00:00:00Z", "me", {"note": "ä"}, "0" * 64)


def test_read_entry_has_the_hash_of_the_written_one():
    read = Entry.from_bytes(WRITTEN.to_bytes())
    assert read == WRITTEN
    assert read.hash == WRITTEN.hash
    assert "hash" not in repr(read)


def test_copy_with_another_body_has_another_hash():
    read = Entry.from_bytes(WRITTEN.to_bytes())
    forged = replace(read, body={"note": "forged"})
    assert forged.hash == replace(WRITTEN, body={"note": "forged"}).hash
    assert forged.hash != read.hash
