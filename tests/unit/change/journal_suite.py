"""What every journal must do. The file journal and the Kafka journal run the very same cases.

A test module makes a class of it and a fixture `journal_factory`: each call gives a new journal over the same store, as
another process would have it; each test gets a store of its own.

    class TestFileJournal(JournalSuite): ...
"""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from seamark.change.journal import Opening
from seamark.change.locks import cluster_lock, connector_lock, group_lock
from seamark.errors import FencedError, LockedError, NotFoundError, RefusedError, SeamarkError, UsageError
from seamark.model.entry import NO_HASH, Ending, EntryKind, check_chain
from seamark.model.ulid import new_ulid

AT = "2026-11-15T08:00:00.000Z"
# Ids of one run grow strictly, however fast they are made.
_ticks = itertools.count()
_START = time.time()


def new_change_id():
    """A change id that sorts behind every one made before it."""
    return new_ulid(_START + next(_ticks) / 1000, secrets.token_bytes(10))


def new_lock():
    """A lock that no other test has."""
    return f"data.topic-{secrets.token_hex(6)}"


def opening(*locks, change=None, by="ann@north:1", title="pause orders", nonce=None, **body):
    """The first entry of a change."""
    return Opening(
        change=change or new_change_id(),
        title=title,
        by=by,
        at=AT,
        nonce=nonce or secrets.token_hex(8),
        locks=tuple(sorted(locks)),
        body=body,
    )


def end(writer, ending=Ending.DONE):
    """Close a change and give its locks back."""
    writer.append(EntryKind.CLOSE, {"ending": str(ending)})
    writer.release()


class JournalSuite:
    """The cases. `rounds` and `many` may be lowered where a change costs more than a few milliseconds."""

    rounds = 10
    many = 50
    deadline_seconds = 60.0

    @pytest.fixture
    def journal(self, journal_factory):
        return journal_factory()

    @pytest.fixture
    def other(self, journal_factory):
        """The journal as another process sees it."""
        return journal_factory()

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
        first = opening(f"group.{words}-{secrets.token_hex(4)}", title=words, by=f"{words}@host", text=words)
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

    # --- locks ---------------------------------------------------------------------------------------------------

    def test_conflict_is_refused_and_says_who_since_when_and_where(self, journal, other):
        lock = new_lock()
        first = opening(lock, title="stop game/orders", by="ann@north:1")
        writer = journal.begin(first)
        writer.append(EntryKind.INTENT, {"step": 4711, "before": 1, "after": 2})
        second = opening(lock, by="ben@south:2")
        with pytest.raises(LockedError) as caught:
            other.begin(second)
        said = f"{caught.value.message} {caught.value.cause} {caught.value.hint}"
        for word in (lock, first.change, "ann@north:1", AT, "4711"):
            assert word in said
        # Nothing was pre-empted, and nothing of the second is left.
        writer.append(EntryKind.OUTCOME, {"step": 4711, "outcome": "done"})
        with pytest.raises(NotFoundError):
            other.read(second.change)
        end(writer)
        end(other.begin(second))

    def test_changes_without_conflict_run_side_by_side(self, journal, other):
        one, two = journal.begin(opening(new_lock())), other.begin(opening(new_lock()))
        for writer in (one, two, one, two):
            writer.append(EntryKind.NOTE, {"note": "x"})
        end(one)
        end(two)
        assert len(journal.read(one.entries[0].change)) == len(journal.read(two.entries[0].change)) == 4

    @pytest.mark.parametrize("cluster_first", [True, False])
    def test_cluster_lock_excludes_locks_of_its_connectors(self, journal, other, cluster_first):
        workers = f"workers-{secrets.token_hex(4)}"
        whole = cluster_lock(workers)
        for inner in (
            connector_lock("orders", offsets_topic=f"{workers}-offsets", workers=workers),
            group_lock(f"connect-{workers}", workers=workers),
        ):
            held, wanted = (whole, inner) if cluster_first else (inner, whole)
            writer = journal.begin(opening(held))
            with pytest.raises(LockedError):
                other.begin(opening(wanted))
            # Another cluster and a thing of no cluster are free.
            end(other.begin(opening(cluster_lock(f"other-{workers}"))))
            end(other.begin(opening(group_lock(f"plain-{workers}"))))
            end(writer)
            end(other.begin(opening(wanted)))

    def test_same_thing_under_another_cluster_conflicts(self, journal, other):
        name = f"group-{secrets.token_hex(4)}"
        writer = journal.begin(opening(group_lock(name, workers="a")))
        with pytest.raises(LockedError):
            other.begin(opening(group_lock(name)))
        end(writer)

    def test_refused_begin_leaves_its_other_locks_free(self, journal, other):
        taken, free = new_lock(), new_lock()
        writer = journal.begin(opening(taken))
        with pytest.raises(LockedError):
            other.begin(opening(taken, free))
        end(journal.begin(opening(free)))
        end(writer)

    def test_release_without_close_stays_open_and_refuses_others(self, journal, other):
        lock = new_lock()
        first = opening(lock)
        writer = journal.begin(first)
        writer.append(EntryKind.INTENT, {"step": 0, "before": 1, "after": 2})
        writer.release()
        assert first.change in {head.change for head in other.open_heads()}
        with pytest.raises(LockedError) as caught:
            other.begin(opening(lock))
        assert f"seamark journal resume {first.change}" in caught.value.hint
        end(other.take_over(first.change, nonce="n2", by="ben@south:2", at=AT))
        end(other.begin(opening(lock)))

    def test_change_of_a_closed_journal_stays_open(self, journal_factory, other):
        lock = new_lock()
        journal = journal_factory()
        first = opening(lock)
        journal.begin(first)
        journal.close()
        with pytest.raises(LockedError):
            other.begin(opening(lock))
        end(other.take_over(first.change, nonce="n2", by="ben@south:2", at=AT))

    def test_locks_in_two_orders_never_deadlock(self, journal, other):
        a, b = new_lock(), new_lock()
        won = {"ab": 0, "ba": 0}
        refused = []
        start = threading.Barrier(2)

        def run(own, name, locks):
            start.wait(self.deadline_seconds)
            until = time.monotonic() + self.deadline_seconds
            while won[name] < self.rounds and time.monotonic() < until:
                # As a careless caller would give them.
                wanted = Opening(new_change_id(), title=name, by=name, at=AT, nonce=secrets.token_hex(8), locks=locks)
                try:
                    end(own.begin(wanted))
                    won[name] += 1
                except LockedError as error:
                    refused.append(error)
                    time.sleep(secrets.randbelow(10) / 1000)

        with ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(run, journal, "ab", (a, b)), pool.submit(run, other, "ba", (b, a))]
            for job in jobs:
                job.result(timeout=self.deadline_seconds + 5)
        assert won == {"ab": self.rounds, "ba": self.rounds}

    def test_of_concurrent_begins_exactly_one_wins_and_nobody_is_fenced(self, journal_factory):
        lock = new_lock()
        journals = [journal_factory() for _ in range(8)]
        winners = []
        with ThreadPoolExecutor(8) as pool:
            for _ in range(self.rounds):
                start = threading.Barrier(8)

                def attempt(own, start=start):
                    start.wait(self.deadline_seconds)
                    try:
                        return own.begin(opening(lock))
                    except LockedError:
                        return None

                writers = [writer for writer in pool.map(attempt, journals, timeout=self.deadline_seconds) if writer]
                assert len(writers) == 1
                writers[0].append(EntryKind.NOTE, {"note": "still mine"})
                end(writers[0])
                winners.append(writers[0].entries[0].change)
        assert len(set(winners)) == self.rounds
        for change in winners:
            assert [entry.kind for entry in journals[0].read(change)] == ["open", "note", "close"]

    # --- taking over ---------------------------------------------------------------------------------------------

    def test_take_over_fences_the_old_writer(self, journal, other):
        first = opening(new_lock(), by="ann@north:1")
        old = journal.begin(first)
        old.append(EntryKind.INTENT, {"step": 0, "before": 1, "after": 2})
        new = other.take_over(first.change, nonce="nonce-2", by="ben@south:2", at=AT)
        assert [entry.kind for entry in new.entries] == ["open", "intent", "taken"]
        taken = new.entries[-1]
        assert (taken.by, taken.at, taken.body["nonce"]) == ("ben@south:2", AT, "nonce-2")
        before = other.read(first.change)
        for _ in range(2):
            with pytest.raises(FencedError):
                old.append(EntryKind.OUTCOME, {"step": 0, "outcome": "done"})
        assert other.read(first.change) == before == new.entries
        new.append(EntryKind.OUTCOME, {"step": 0, "outcome": "did not happen"})
        with pytest.raises(FencedError):
            old.append(EntryKind.CLOSE, {"ending": "done"})
        # Letting go of what it has no more does no harm to the new holder.
        old.release()
        with pytest.raises(LockedError):
            journal.begin(opening(*first.locks))
        end(new)
        entries = journal.read(first.change)
        assert [entry.kind for entry in entries] == ["open", "intent", "taken", "outcome", "close"]
        assert [entry.by for entry in entries] == ["ann@north:1"] * 2 + ["ben@south:2"] * 3
        end(journal.begin(opening(*first.locks)))

    def test_head_after_take_over_names_the_new_holder(self, journal, other):
        first = opening(new_lock(), by="ann@north:1")
        journal.begin(first).release()
        new = other.take_over(first.change, nonce="nonce-2", by="ben@south:2", at=AT)
        head = next(head for head in journal.open_heads() if head.change == first.change)
        assert (head.by, head.nonce, head.last_kind) == ("ben@south:2", "nonce-2", EntryKind.TAKEN)
        assert head.locks == first.locks
        end(new)

    def test_take_over_again_fences_the_first_taker(self, journal, other):
        first = opening(new_lock())
        journal.begin(first)
        second = other.take_over(first.change, nonce="nonce-2", by="b", at=AT)
        third = journal.take_over(first.change, nonce="nonce-3", by="c", at=AT)
        with pytest.raises(FencedError):
            second.append(EntryKind.NOTE, {})
        end(third)
        assert [entry.kind for entry in other.read(first.change)] == ["open", "taken", "taken", "close"]

    def test_take_over_with_wrong_nonce_is_refused_and_fences_nobody(self, journal, other):
        first = opening(new_lock())
        writer = journal.begin(first)
        with pytest.raises(LockedError):
            other.take_over(first.change, nonce="n2", by="b", at=AT, expected_nonce="not that")
        writer.append(EntryKind.NOTE, {})
        assert len(other.read(first.change)) == 2
        new = other.take_over(first.change, nonce="n2", by="b", at=AT, expected_nonce=first.nonce)
        with pytest.raises(LockedError):
            journal.take_over(first.change, nonce="n3", by="c", at=AT, expected_nonce=first.nonce)
        end(new)

    def test_take_over_of_a_closed_change_is_refused(self, journal, other):
        first = opening(new_lock())
        end(journal.begin(first))
        with pytest.raises(RefusedError):
            other.take_over(first.change, nonce="n2", by="b", at=AT)
        assert len(other.read(first.change)) == 2
        end(other.begin(opening(*first.locks)))

    def test_take_over_takes_a_shortened_id(self, journal, other):
        first = opening(new_lock())
        journal.begin(first).release()
        new = other.take_over(first.change[:20], nonce="n2", by="b", at=AT)
        assert new.entries[0].change == first.change
        end(new)
