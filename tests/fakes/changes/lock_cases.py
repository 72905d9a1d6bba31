"""The part of the journal suite that is about locks: who is refused, who wins, who is fenced."""

from __future__ import annotations

import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from seamark.changes.journal import EntryKind, Opening
from seamark.changes.locks import cluster_lock, connector_lock, group_lock
from seamark.errors import FencedError, LockedError, NotFoundError, RefusedError
from tests.fakes.changes.openings import AT, end, new_change_id, new_lock, opening


class LockCases:
    """Locks and taking over. `rounds` may be lowered where a change costs more than a few milliseconds."""

    rounds = 10
    deadline_seconds = 60.0

    @pytest.fixture
    def journal(self, journal_factory):
        return journal_factory()

    @pytest.fixture
    def other(self, journal_factory):
        """The journal as another process sees it."""
        return journal_factory()

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
            connector_lock("orders", workers=workers),
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
