"""The Kafka journal's locks, gate and fencing, on brokers in memory.

`tests/integration/test_kafka_journal.py` has the same cases on real brokers. These run in the unit tier, so that a
line of the protocol that goes missing is detected without servers (`tools/mutants`).
"""

from __future__ import annotations

import secrets
import time

import pytest

from seamark.change.kafka_journal import JournalTiming
from seamark.change.kafka_journal.board import build_claim_value
from seamark.change.kafka_journal.gate import Gate
from seamark.change.kafka_journal.hold import LockHold
from seamark.change.kafka_journal.names import GATE_KEY, sorted_locks
from seamark.change.locks import cluster_lock, connector_lock
from seamark.errors import AlreadyExistsError, AuthorizationError, FencedError, JournalError, LockedError, NotFoundError
from seamark.kafka.produce import Outgoing
from seamark.kafka.transaction import TransactionalWriter
from seamark.model.entry import EntryKind
from tests.unit.change.journal_brokers import NAMES, build_brokers, build_clients, open_journal
from tests.unit.change.journal_suite import AT, JournalSuite, end, new_lock, opening

# Short, so that a test need not wait for the real lease.
SHORT = JournalTiming(lease_seconds=0.3, fresh_seconds=0.1)


@pytest.fixture
def brokers():
    return build_brokers()


@pytest.fixture
def journal_factory(brokers):
    return lambda timing=None: open_journal(brokers, timing)


@pytest.fixture
def journal(journal_factory):
    return journal_factory()


@pytest.fixture
def other(journal_factory):
    return journal_factory()


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


class TestKafkaJournal(JournalSuite):
    """The cases that every journal has."""

    rounds = 3
    many = 12


# --- the gate ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["the same lock", "another ID"])
def test_process_that_slept_in_the_gate_opens_nothing_and_fences_nothing(monkeypatch, journal_factory, kind):
    workers = f"workers-{secrets.token_hex(4)}"
    inner = connector_lock("orders", workers=workers)
    mine, theirs = (inner, inner) if kind == "the same lock" else (inner, cluster_lock(workers))
    slow, fast = journal_factory(SHORT), journal_factory(SHORT)
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


def test_process_that_slept_after_its_opening_continues_if_the_change_is_its_own(monkeypatch, journal_factory):
    slow = journal_factory(SHORT)
    after_first_call(monkeypatch, Gate, "write", lambda _: time.sleep(SHORT.fresh_seconds + 0.05))
    writer = slow.begin(opening(new_lock()))
    end(writer)
    assert read_kinds(slow, writer.entries[0].change) == ["open", "close"]


def test_process_that_slept_after_its_opening_does_not_fence_the_new_holder(monkeypatch, journal_factory):
    slow, fast = journal_factory(SHORT), journal_factory(SHORT)
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


def test_process_that_slept_after_its_opening_does_not_open_a_closed_change_again(monkeypatch, journal_factory):
    slow, fast = journal_factory(SHORT), journal_factory(SHORT)
    first = opening(new_lock(), by="slow@host")

    def take_and_close(_):
        end(fast.take_over(first.change, nonce="n2", by="fast@host", at=AT))
        time.sleep(SHORT.fresh_seconds + 0.05)

    after_first_call(monkeypatch, Gate, "write", take_and_close)
    with pytest.raises(FencedError) as caught:
        slow.begin(first)
    assert caught.value.cause == "it was closed"
    assert read_kinds(fast, first.change) == ["open", "taken", "close"]
    end(fast.begin(opening(*first.locks)))


def test_sleep_right_before_the_locks_are_taken_never_forks_the_history(monkeypatch, journal_factory):
    slow, fast = journal_factory(SHORT), journal_factory(SHORT)
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


def test_sleep_right_before_a_takeover_does_not_displace_the_one_that_was_faster(monkeypatch, journal_factory):
    slow, fast = journal_factory(SHORT), journal_factory(SHORT)
    first = opening(new_lock())
    fast.begin(first).release()
    before_first_take(monkeypatch, lambda: fast.take_over(first.change, nonce="n2", by="fast@host", at=AT))
    # The operator decided to displace the holder that the head named, not the one that came since.
    with pytest.raises(LockedError) as caught:
        slow.take_over(first.change, nonce="n3", by="slow@host", at=AT)
    assert "fast@host" in caught.value.cause
    assert read_kinds(fast, first.change) == ["open", "taken"]
    end(fast.take_over(first.change, nonce="n4", by="fast@host", at=AT))


def test_opening_whose_answer_was_lost_is_not_written_twice(monkeypatch, journal):
    original = Gate.write
    monkeypatch.setattr(Gate, "write", lambda self, records: original(self, records) and False)
    writer = journal.begin(opening(new_lock()))
    end(writer)
    assert read_kinds(journal, writer.entries[0].change) == ["open", "close"]


def test_claim_of_a_dead_process_ends_with_its_lease(brokers, journal_factory):
    build_clients(brokers).open_record_writer().write(
        Outgoing(NAMES.heads, key=GATE_KEY, value=build_claim_value("dead", by="dead@host"))
    )
    hasty = journal_factory(JournalTiming(lease_seconds=60, enter_seconds=0.2))
    with pytest.raises(LockedError) as caught:
        hasty.begin(opening(new_lock()))
    assert "dead@host" in caught.value.cause
    end(journal_factory(SHORT).begin(opening(new_lock())))


def test_change_whose_locks_can_not_be_taken_is_closed_again(monkeypatch, journal):
    first = opening(new_lock())

    def deny(_):
        raise AuthorizationError("not allowed to take the transactional id", hint="grant it")

    with monkeypatch.context() as patch:
        patch.setattr(LockHold, "take", deny)
        with pytest.raises(AuthorizationError):
            journal.begin(first)
    assert read_kinds(journal, first.change) == ["open", "close"]
    assert not journal.open_heads()
    end(journal.begin(opening(*first.locks)))


def test_change_is_not_begun_twice(journal, other):
    first = opening(new_lock())
    end(journal.begin(first))
    with pytest.raises(AlreadyExistsError):
        other.begin(first)


# --- locks and fencing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", [0, 1, 2])
def test_loss_of_any_lock_is_noticed_before_the_next_entry(brokers, journal, which):
    first = opening(new_lock(), new_lock(), new_lock())
    writer = journal.begin(first)
    writer.append(EntryKind.NOTE, {"note": "all three are held"})
    lock = sorted_locks(first.change, first.locks)[which]
    build_clients(brokers).open_lock_writer(lock).take()
    for _ in range(2):
        with pytest.raises(FencedError):
            writer.append(EntryKind.INTENT, {"step": 0, "before": 1, "after": 2})
    assert read_kinds(journal, first.change) == ["open", "note"]
    assert journal.open_heads()[0].last_number == 1


def test_writer_writes_nothing_after_a_failed_entry(monkeypatch, journal):
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


def test_change_without_locks_can_be_taken_over(journal, other):
    first = opening()
    writer = journal.begin(first)
    end(other.take_over(first.change, nonce="n2", by="b", at=AT))
    with pytest.raises(FencedError):
        writer.append(EntryKind.NOTE, {})
    assert read_kinds(journal, first.change) == ["open", "taken", "close"]
