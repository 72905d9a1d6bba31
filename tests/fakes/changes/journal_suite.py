"""What every journal must do. The file journal and the Kafka journal run the very same cases.

A test module makes a class of it and a fixture `journal_factory`: each call gives a new journal over the same store, as
another process would have it; each test gets a store of its own.

    class TestFileJournal(JournalSuite): ...
"""

from __future__ import annotations

import secrets

import pytest

from seamark.changes.journal import NO_HASH, Ending, EntryKind, check_chain
from seamark.errors import NotFoundError, SeamarkError, UsageError
from tests.fakes.changes.key_cases import KeyCases
from tests.fakes.changes.lock_cases import LockCases
from tests.fakes.changes.openings import AT, end, new_change_id, new_lock, opening

__all__ = ["AT", "JournalSuite", "end", "new_change_id", "new_lock", "opening"]


class JournalSuite(LockCases, KeyCases):
    """The cases: writing, reading and finding here, locks and taking over in `LockCases`, the key in `KeyCases`.

    `rounds` and `many` may be lowered where a change costs more than a few milliseconds.
    """

    many = 50

    # --- writing and reading -------------------------------------------------------------------------------------

    def test_change_is_begun_written_read_and_closed(self, journal, other):
        first = opening(new_lock(), plan={"steps": []})
        writer = journal.begin(first)
        returned = [
            writer.append(EntryKind.INTENT, {"step": 0, "before": None, "after": {"a": "1"}}),
            writer.append(EntryKind.OUTCOME, {"step": 0, "outcome": "done"}),
            writer.append(EntryKind.NOTE, {"note": "half way"}),
            writer.append(EntryKind.CLOSE, {"ending": str(Ending.DONE)}),
        ]
        writer.release()
        entries = other.read(first.change)
        assert entries == writer.entries
        assert list(entries[1:]) == returned
        assert [entry.number for entry in entries] == [0, 1, 2, 3, 4]
        assert [entry.kind for entry in entries] == ["open", "intent", "outcome", "note", "close"]
        assert {entry.change for entry in entries} == {first.change}
        assert {entry.by for entry in entries} == {first.by}

    def test_open_entry_holds_opening(self, journal):
        first = opening(new_lock(), new_lock(), plan={"steps": [1]}, undoes="x")
        journal.begin(first).release()
        entry = journal.read(first.change)[0]
        assert (entry.kind, entry.number, entry.at, entry.by) == (EntryKind.OPEN, 0, AT, first.by)
        assert entry.body["plan"] == {"steps": [1]}
        assert entry.body["undoes"] == "x"
        assert entry.body["title"] == first.title
        assert tuple(entry.body["locks"]) == first.locks
        assert entry.body["nonce"] == first.nonce

    def test_entry_is_readable_by_others_as_soon_as_append_returns(self, journal, other):
        first = opening(new_lock())
        writer = journal.begin(first)
        assert other.read(first.change) == writer.entries
        for number in range(1, 4):
            entry = writer.append(EntryKind.NOTE, {"note": number})
            assert other.read(first.change)[-1] == entry
        writer.release()

    def test_entries_chain(self, journal):
        first = opening(new_lock())
        writer = journal.begin(first)
        writer.append(EntryKind.NOTE, {"note": "one"})
        end(writer)
        entries = journal.read(first.change)
        assert entries[0].previous == NO_HASH
        assert [entry.previous for entry in entries[1:]] == [entry.hash for entry in entries[:-1]]
        assert check_chain(entries) == entries

    def test_large_entry_survives(self, journal, other):
        first = opening(new_lock())
        writer = journal.begin(first)
        # Not to be made small by compression: the limit of a message counts what was not.
        text = secrets.token_hex(2_500_000)
        writer.append(EntryKind.INTENT, {"step": 0, "before": text, "after": None})
        writer.append(EntryKind.OUTCOME, {"step": 0, "outcome": "done"})
        end(writer)
        entries = other.read(first.change)
        assert len(entries) == 4
        assert entries[1].body["before"] == text
        assert len(entries[1].to_bytes()) > 5_000_000

    def test_unicode_survives(self, journal, other):
        words = "Zürich 東京 🚢 \u0000 \u2028 \x1b[31m \\ \" ' é"
        first = opening(f"group.Zürich 東京 🚢 {secrets.token_hex(4)}", title=words, by=f"{words}@host", text=words)
        writer = journal.begin(first)
        writer.append(EntryKind.NOTE, {words: [words, None, 1, 1.5, True, {"a": words}]})
        end(writer)
        entries = other.read(first.change)
        assert entries == writer.entries
        assert entries[0].body["text"] == words
        assert entries[1].body == {words: [words, None, 1, 1.5, True, {"a": words}]}
        head = next(head for head in other.heads() if head.change == first.change)
        assert (head.title, head.by, head.locks) == (words, first.by, first.locks)

    def test_body_changed_by_its_maker_afterwards_changes_no_entry(self, journal):
        first = opening(new_lock())
        writer = journal.begin(first)
        body = {"after": {"tasks.max": "1"}}
        writer.append(EntryKind.NOTE, body)
        body["after"]["tasks.max"] = "9"
        end(writer)
        assert journal.read(first.change)[1].body == {"after": {"tasks.max": "1"}}

    def test_body_that_is_no_json_is_refused_and_writing_goes_on(self, journal):
        first = opening(new_lock())
        writer = journal.begin(first)
        with pytest.raises(SeamarkError):
            writer.append(EntryKind.NOTE, {"note": {1, 2}})
        end(writer)
        assert [entry.kind for entry in journal.read(first.change)] == ["open", "close"]

    def test_closed_change_takes_no_more_entries(self, journal):
        first = opening(new_lock())
        writer = journal.begin(first)
        writer.append(EntryKind.CLOSE, {"ending": str(Ending.DONE)})
        with pytest.raises(SeamarkError):
            writer.append(EntryKind.NOTE, {})
        writer.release()
        assert len(journal.read(first.change)) == 2

    def test_released_writer_writes_nothing(self, journal):
        first = opening(new_lock())
        writer = journal.begin(first)
        writer.release()
        writer.release()
        with pytest.raises(SeamarkError):
            writer.append(EntryKind.NOTE, {})
        assert len(journal.read(first.change)) == 1

    # --- finding changes -----------------------------------------------------------------------------------------

    def test_heads_are_newest_first_with_every_field(self, journal, other):
        done, held = opening(new_lock(), title="first"), opening(new_lock(), title="second", by="ben@south:2")
        writer = journal.begin(done)
        end(writer, Ending.PARTLY)
        holder = journal.begin(held)
        last = holder.append(EntryKind.INTENT, {"step": 4711, "before": 1, "after": 2})
        mine = [head for head in other.heads() if head.change in (done.change, held.change)]
        assert [head.change for head in mine] == [held.change, done.change]
        head = mine[0]
        assert (head.title, head.by, head.opened_at, head.last_at) == ("second", "ben@south:2", AT, last.at)
        assert (head.last_kind, head.last_number, head.last_hash) == (EntryKind.INTENT, 1, last.hash)
        assert (head.locks, head.nonce, head.ending) == (held.locks, held.nonce, "")
        assert head.is_open
        assert "4711" in head.step
        assert (mine[1].last_kind, mine[1].ending, mine[1].is_open) == (EntryKind.CLOSE, "partly", False)
        assert mine[1].last_hash == writer.entries[-1].hash
        holder.release()

    def test_many_changes_are_listed_in_order_and_limited(self, journal, other):
        made = []
        for number in range(self.many):
            one = opening(new_lock(), title=f"change {number}")
            end(journal.begin(one))
            made.append(one)
        heads = other.heads()
        mine = {one.change for one in made}
        assert [head.title for head in heads if head.change in mine] == [one.title for one in reversed(made)]
        assert [head.change for head in other.heads(limit=3)] == [one.change for one in made[:-4:-1]]
        assert not [head for head in other.open_heads() if head.change in mine]
        assert len(other.read(made[self.many // 2].change)) == 2

    def test_open_heads_are_the_open_ones_alone(self, journal, other):
        closed, held, left = opening(new_lock()), opening(new_lock()), opening(new_lock())
        end(journal.begin(closed))
        writer = journal.begin(held)
        journal.begin(left).release()
        found = {head.change: head for head in other.open_heads()}
        assert {held.change, left.change} <= found.keys()
        assert closed.change not in found
        assert found[held.change].locks == held.locks
        end(writer)
        assert held.change not in {head.change for head in other.open_heads()}

    def test_id_may_be_shortened(self, journal):
        first = opening(new_lock())
        journal.begin(first).release()
        assert journal.read(first.change[:20]) == journal.read(first.change)

    def test_shortened_id_of_two_changes_names_both(self, journal):
        one = opening(new_lock())
        two = opening(new_lock(), change=one.change[:-1] + ("0" if one.change[-1] != "0" else "1"))
        journal.begin(one).release()
        journal.begin(two).release()
        with pytest.raises(UsageError) as caught:
            journal.read(one.change[:-1])
        said = f"{caught.value.message} {caught.value.cause}"
        assert one.change in said
        assert two.change in said
        assert journal.read(one.change)[0].change == one.change

    @pytest.mark.parametrize("change", ["0" * 26, "7ZZZ"])
    def test_unknown_id_is_not_found(self, journal, change):
        journal.begin(opening(new_lock())).release()
        with pytest.raises(NotFoundError):
            journal.read(change)
        with pytest.raises(NotFoundError):
            journal.take_over(change, nonce="n", by="b", at=AT)

    def test_empty_journal_reads_as_empty(self, journal):
        assert not journal.open_heads()
        assert not journal.heads()
        with pytest.raises(NotFoundError):
            journal.read(new_change_id())
