"""What the Kafka journal's gate, locks and fencing must do, on real brokers and on those in memory.

A test module makes a class of it, and the fixtures `journal_factory` (a new journal over the same topics for each call,
as another process would have it), `journal`, `other` and `clients` (the clients of one more process).
"""

from __future__ import annotations

import secrets
import time

import pytest

from seamark.changes.journal import EntryKind
from seamark.changes.kafka_journal import JournalTiming
from seamark.changes.kafka_journal.entries import LockHold
from seamark.changes.kafka_journal.heads import build_claim_value
from seamark.changes.kafka_journal.locks import Gate
from seamark.changes.kafka_journal.names import GATE_KEY, sorted_locks
from seamark.changes.locks import cluster_lock, connector_lock
from seamark.errors import AlreadyExistsError, AuthorizationError, FencedError, JournalError, LockedError, NotFoundError
from seamark.kafka.produce import Outgoing
from seamark.kafka.transaction import TransactionalWriter
from tests.fakes.changes.openings import AT, end, new_lock, opening


def after_first_call(monkeypatch, owner, method, act):
    """Act once, right after the first call of a method, as if the process had been stopped there."""
    original = getattr(owner, method)
    left = [act]

    def call(self, *arguments):
        result = original(self, *arguments)
        return (left.pop()(result) or result) if left else result

    monkeypatch.setattr(owner, method, call)


def before_first_take(monkeypatch, act):
    """Act once, right before a process takes the transactional IDs of its locks."""
    original = LockHold.take

    def nap_and_take(self):
        monkeypatch.setattr(LockHold, "take", original)
        act()
        original(self)

    monkeypatch.setattr(LockHold, "take", nap_and_take)


def read_kinds(journal, change):
    return [entry.kind for entry in journal.read(change)]


class GateSuite:
    """The cases. `short` has a lease as short as the brokers and the machine allow."""

    short = JournalTiming(lease_seconds=2.0, fresh_seconds=0.5)

    # --- the gate -----------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("kind", ["the same lock", "another ID"])
    def test_process_that_slept_in_the_gate_opens_nothing_and_fences_nothing(self, monkeypatch, journal_factory, kind):
        workers = f"workers-{secrets.token_hex(4)}"
        inner = connector_lock("orders", workers=workers)
        mine, theirs = (inner, inner) if kind == "the same lock" else (inner, cluster_lock(workers))
        slow, fast = journal_factory(self.short), journal_factory(self.short)
        won = []
        # The slow process has found the lock free; then it sleeps for longer than its lease.
        after_first_call(monkeypatch, Gate, "enter", lambda _: won.append(fast.begin(opening(theirs, by="fast@host"))))
        late = opening(mine, by="slow@host")
        with pytest.raises(LockedError) as caught:
            slow.begin(late)
        assert "fast@host" in caught.value.cause
        won[0].append(EntryKind.NOTE, {"note": "not fenced"})
        end(won[0])
        with pytest.raises(NotFoundError):
            fast.read(late.change)

    def test_process_that_slept_after_its_opening_continues_if_the_change_is_its_own(
        self, monkeypatch, journal_factory
    ):
        slow = journal_factory(self.short)
        after_first_call(monkeypatch, Gate, "write", lambda _: time.sleep(self.short.fresh_seconds + 0.05))
        writer = slow.begin(opening(new_lock()))
        end(writer)
        assert read_kinds(slow, writer.entries[0].change) == ["open", "close"]

    def test_process_that_slept_after_its_opening_does_not_fence_the_new_holder(self, monkeypatch, journal_factory):
        slow, fast = journal_factory(self.short), journal_factory(self.short)
        first = opening(new_lock(), by="slow@host")
        taken = []

        def take(_):
            taken.append(fast.take_over(first.change, nonce="n2", by="fast@host", at=AT))

        after_first_call(monkeypatch, Gate, "write", take)
        with pytest.raises(FencedError) as caught:
            slow.begin(first)
        assert "fast@host" in caught.value.cause
        taken[0].append(EntryKind.NOTE, {"note": "not fenced"})
        end(taken[0])
        assert read_kinds(slow, first.change) == ["open", "taken", "note", "close"]

    def test_process_that_slept_after_its_opening_does_not_open_a_closed_change_again(
        self, monkeypatch, journal_factory
    ):
        slow, fast = journal_factory(self.short), journal_factory(self.short)
        first = opening(new_lock(), by="slow@host")

        def take_and_close(_):
            end(fast.take_over(first.change, nonce="n2", by="fast@host", at=AT))
            time.sleep(self.short.fresh_seconds + 0.05)

        after_first_call(monkeypatch, Gate, "write", take_and_close)
        with pytest.raises(FencedError) as caught:
            slow.begin(first)
        assert caught.value.cause == "it was closed"
        assert read_kinds(fast, first.change) == ["open", "taken", "close"]
        end(fast.begin(opening(*first.locks)))

    def test_sleep_right_before_the_locks_are_taken_never_forks_the_history(self, monkeypatch, journal_factory):
        slow, fast = journal_factory(self.short), journal_factory(self.short)
        first = opening(new_lock(), by="slow@host")
        taken = []
        before_first_take(
            monkeypatch,
            lambda: taken.append(fast.take_over(first.change, nonce="n2", by="fast@host", at=AT)),
        )
        with pytest.raises(FencedError) as caught:
            slow.begin(first)
        assert "fast@host" in caught.value.cause
        with pytest.raises(FencedError):
            taken[0].append(EntryKind.NOTE, {})
        end(fast.take_over(first.change, nonce="n3", by="fast@host", at=AT))
        assert read_kinds(slow, first.change) == ["open", "taken", "taken", "close"]

    def test_sleep_right_before_a_takeover_does_not_displace_the_one_that_was_faster(
        self, monkeypatch, journal_factory
    ):
        slow, fast = journal_factory(self.short), journal_factory(self.short)
        first = opening(new_lock())
        fast.begin(first).release()
        before_first_take(monkeypatch, lambda: fast.take_over(first.change, nonce="n2", by="fast@host", at=AT))
        # The operator decided to displace the holder that the head named, not the one that came since.
        with pytest.raises(LockedError) as caught:
            slow.take_over(first.change, nonce="n3", by="slow@host", at=AT)
        assert "fast@host" in caught.value.cause
        assert read_kinds(fast, first.change) == ["open", "taken"]
        end(fast.take_over(first.change, nonce="n4", by="fast@host", at=AT))

    def test_opening_whose_answer_was_lost_is_not_written_twice(self, monkeypatch, journal):
        original = Gate.write
        monkeypatch.setattr(Gate, "write", lambda self, records: original(self, records) and False)
        writer = journal.begin(opening(new_lock()))
        end(writer)
        assert read_kinds(journal, writer.entries[0].change) == ["open", "close"]

    def test_claim_of_a_dead_process_ends_with_its_lease(self, clients, journal_factory):
        claims = clients.open_record_writer()
        claims.write(Outgoing(clients.names.heads, key=GATE_KEY, value=build_claim_value("dead", by="dead@host")))
        claims.close()
        hasty = journal_factory(JournalTiming(lease_seconds=60, enter_seconds=0.5))
        with pytest.raises(LockedError) as caught:
            hasty.begin(opening(new_lock()))
        assert "dead@host" in caught.value.cause
        end(journal_factory(self.short).begin(opening(new_lock())))

    def test_change_whose_locks_can_not_be_taken_is_closed_again(self, monkeypatch, journal):
        first = opening(new_lock())

        def deny(_):
            raise AuthorizationError("not allowed to acquire the transactional ID", hint="grant it")

        with monkeypatch.context() as patch:
            patch.setattr(LockHold, "take", deny)
            with pytest.raises(AuthorizationError):
                journal.begin(first)
        entries = journal.read(first.change)
        assert [entry.kind for entry in entries] == ["open", "close"]
        assert entries[1].body["error"]["code"] == "AUTHORIZATION"
        assert not journal.open_heads()
        end(journal.begin(opening(*first.locks)))

    def test_change_is_not_begun_twice(self, journal, other):
        first = opening(new_lock())
        end(journal.begin(first))
        with pytest.raises(AlreadyExistsError):
            other.begin(first)

    # --- locks and fencing --------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("which", [0, 1, 2])
    def test_loss_of_any_lock_is_noticed_before_the_next_entry(self, clients, journal, which):
        first = opening(new_lock(), new_lock(), new_lock())
        writer = journal.begin(first)
        writer.append(EntryKind.NOTE, {"note": "all three are held"})
        lock = sorted_locks(first.change, first.locks)[which]
        thief = clients.open_lock_writer(lock)
        thief.take()
        for _ in range(2):
            with pytest.raises(FencedError) as caught:
                writer.append(EntryKind.INTENT, {"step": 0, "before": 1, "after": 2})
        thief.close()
        assert first.change in caught.value.message
        assert read_kinds(journal, first.change) == ["open", "note"]
        assert journal.open_heads()[0].last_number == 1

    def test_writer_writes_nothing_after_a_failed_entry(self, monkeypatch, journal):
        first = opening(new_lock())
        writer = journal.begin(first)

        def fail(self, records, *, deadline=None):
            raise JournalError("it is unknown whether it is written")

        with monkeypatch.context() as patch:
            patch.setattr(TransactionalWriter, "write", fail)
            with pytest.raises(JournalError):
                writer.append(EntryKind.INTENT, {"step": 0})
        # The entry may be stored: one more with the same number would fork the history.
        with pytest.raises(JournalError):
            writer.append(EntryKind.INTENT, {"step": 0})
        assert read_kinds(journal, first.change) == ["open"]

    def test_change_without_locks_can_be_taken_over(self, journal, other):
        first = opening()
        writer = journal.begin(first)
        end(other.take_over(first.change, nonce="n2", by="b", at=AT))
        with pytest.raises(FencedError):
            writer.append(EntryKind.NOTE, {})
        assert read_kinds(journal, first.change) == ["open", "taken", "close"]
