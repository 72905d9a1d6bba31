"""The Kafka journal's locks, gate and fencing, on brokers in memory.

`tests/integration/test_kafka_journal.py` runs the same cases on real brokers. These run in the unit tier, so that a
line of the protocol that goes missing is detected without servers (`tools/mutants`).
"""

from __future__ import annotations

import pytest

from seamark.change.kafka_journal import JournalTiming
from tests.unit.change.gate_suite import GateSuite
from tests.unit.change.journal_brokers import build_brokers, build_clients, open_journal
from tests.unit.change.journal_suite import JournalSuite


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
