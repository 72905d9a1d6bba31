"""The Kafka journal's locks, gate and fencing, on brokers in memory.

`tests/integration/changes/test_kafka_journal.py` runs the same cases on real brokers. These run in the unit tier, so
that a line of the protocol that goes missing is detected without servers (`tools/mutants`).
"""

from __future__ import annotations

import pytest

from seamark.changes.kafka_journal import JournalNames, JournalTiming
from seamark.changes.kafka_journal.locks import Gate
from seamark.changes.kafka_journal.names import KEY_KEY
from seamark.errors import LockedError, NotFoundError, RefusedError
from tests.fakes.changes.gate_suite import GateSuite, after_first_call
from tests.fakes.changes.journal_brokers import build_brokers, build_clients, open_journal
from tests.fakes.changes.journal_suite import JournalSuite
from tests.fakes.changes.key_cases import NEW, OLD, opening_of, record_of
from tests.fakes.changes.openings import end

NAMES = JournalNames()


@pytest.fixture
def brokers():
    return build_brokers()


@pytest.fixture
def clients(brokers):
    return build_clients(brokers)


@pytest.fixture
def journal_factory(brokers):
    return lambda timing=None: open_journal(brokers, timing)


@pytest.fixture
def journal(journal_factory):
    return journal_factory()


@pytest.fixture
def other(journal_factory):
    return journal_factory()


class TestKafkaJournal(JournalSuite):
    """The cases that every journal has."""

    rounds = 3
    many = 12


class TestGate(GateSuite):
    """The cases that real brokers have too."""

    short = JournalTiming(lease_seconds=0.3, fresh_seconds=0.1)


# --- the key ----------------------------------------------------------------------------------------------------------


def test_key_that_is_rotated_right_before_the_gate_is_refused_there(monkeypatch, journal_factory):
    slow, fast = journal_factory(), journal_factory()
    fast.record_key(record_of(OLD))
    # The slow process has read the old key and enters the gate now.
    after_first_call(monkeypatch, Gate, "prepare", lambda _: fast.record_key(record_of(NEW, previous=OLD)))
    late = opening_of(OLD)
    with pytest.raises(RefusedError, match="another key"):
        slow.begin(late)
    with pytest.raises(NotFoundError):
        fast.read(late.change)


def test_change_that_begins_right_before_the_gate_of_a_rotation_keeps_the_key(monkeypatch, journal_factory):
    slow, fast = journal_factory(), journal_factory()
    fast.record_key(record_of(OLD))
    begun = []
    # The slow process has found no open change and enters the gate now.
    after_first_call(monkeypatch, Gate, "prepare", lambda _: begun.append(fast.begin(opening_of(OLD))))
    with pytest.raises(LockedError, match="while a change is open"):
        slow.record_key(record_of(NEW, previous=OLD))
    assert fast.read_key() == record_of(OLD)
    end(begun[0])


def test_record_of_a_key_whose_answer_was_lost_is_not_written_twice(monkeypatch, brokers, journal):
    original = Gate.write
    monkeypatch.setattr(Gate, "write", lambda self, records: original(self, records) and False)
    journal.record_key(record_of(OLD))
    assert [record.key() for record in brokers.logs[NAMES.heads]].count(KEY_KEY) == 1
