from __future__ import annotations

import json
from dataclasses import replace

import pytest

from seamark.changes.journal import NO_HASH, Entry, EntryKind, check_chain
from seamark.errors import FormatVersionError, TamperedJournalError

AT = "2026-11-15T08:00:00.000Z"


def build_chain(length: int = 3) -> list[Entry]:
    entries: list[Entry] = []
    for number in range(length):
        kind = EntryKind.OPEN if number == 0 else EntryKind.NOTE
        previous = entries[-1].hash if entries else NO_HASH
        entries.append(Entry("01J0", number, kind, AT, "ann@north:1", {"n": number, "text": "käse"}, previous))
    return entries


def test_an_entry_is_read_as_it_was_written():
    for entry in build_chain():
        assert Entry.from_bytes(entry.to_bytes()) == entry


def test_a_whole_chain_is_given_back():
    entries = build_chain(5)

    assert check_chain(entries) == tuple(entries)
    assert check_chain([]) == ()


@pytest.mark.parametrize(
    "change",
    [
        {"change": "01J1"},
        {"kind": EntryKind.TAKEN},
        {"at": "2026-11-15T08:00:00.001Z"},
        {"by": "bob@north:1"},
        {"body": {"n": 1, "text": "kase"}},
        {"previous": "f" * 64},
        {"number": 7},
    ],
    ids=lambda change: next(iter(change)),
)
@pytest.mark.parametrize("place", [0, 1])
def test_every_changed_field_is_seen(change, place):
    entries = build_chain()
    entries[place] = replace(entries[place], **change)

    with pytest.raises(TamperedJournalError):
        check_chain(entries)


def test_the_last_entry_is_bound_by_what_is_known_of_its_hash():
    entries = build_chain()
    known = entries[-1].hash

    assert replace(entries[-1], by="bob").hash != known


def test_a_missing_entry_is_named():
    first, _, third = build_chain()

    with pytest.raises(TamperedJournalError, match="entry 1 of change 01J0 is missing"):
        check_chain([first, third])


def test_an_entry_of_another_change_is_named():
    entries = build_chain()
    other = replace(entries[2], change="01J9")

    with pytest.raises(TamperedJournalError, match="is stored in another change"):
        check_chain([*entries[:2], other])


def test_a_chain_that_does_not_begin_at_its_beginning_is_refused():
    entries = build_chain()

    with pytest.raises(TamperedJournalError, match="entry 0"):
        check_chain(entries[1:])


def test_another_spelling_of_the_same_entry_is_refused():
    entry = build_chain()[1]
    pretty = json.dumps(json.loads(entry.to_bytes()), indent=1).encode()

    with pytest.raises(TamperedJournalError, match="was modified after it was written"):
        Entry.from_bytes(pretty)


@pytest.mark.parametrize("data", [b"", b"\xff", b'{"format_version": 1}'])
def test_what_is_no_entry_is_refused(data):
    with pytest.raises(TamperedJournalError):
        Entry.from_bytes(data)


@pytest.mark.parametrize("data", [b"{}", b"[]", b"null"])
def test_data_without_a_format_version_is_refused(data):
    with pytest.raises(FormatVersionError, match="found no journal entry format version"):
        Entry.from_bytes(data)
