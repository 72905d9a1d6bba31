"""The Kafka journal on real brokers: the shared cases, and what only Kafka can have."""

from __future__ import annotations

import secrets
import time

import pytest

from seamark.change.kafka_journal import JournalNames, KafkaJournal, create_topics
from seamark.kafka.topics import TopicAdmin
from seamark.model.entry import EntryKind
from tests.unit.change.journal_suite import JournalSuite, end, new_lock, opening


@pytest.fixture
def config(stack):
    return {"bootstrap.servers": stack.kafka.bootstrap_servers}


@pytest.fixture
def names(config):
    """Topics of this test's own, deleted after it."""
    token = secrets.token_hex(4)
    made = JournalNames(journal=f"test-journal-{token}", heads=f"test-heads-{token}")
    with TopicAdmin(config) as admin:
        create_topics(admin, names=made)
        yield made
        admin.delete_topics([made.journal, made.heads])


@pytest.fixture
def journal_factory(config, names):
    made = []

    def make():
        made.append(KafkaJournal(config, names=names))
        return made[-1]

    yield make
    for journal in made:
        journal.close()


class TestKafkaJournal(JournalSuite):
    """The cases that every journal has."""

    rounds = 3
    many = 8


def test_a_change_is_written_within_three_seconds(journal_factory, capsys):
    journal = journal_factory()
    laps = []
    for _ in range(2):
        begun = time.monotonic()
        writer = journal.begin(opening(new_lock()))
        opened = time.monotonic()
        for number in range(5):
            writer.append(EntryKind.NOTE, {"note": number})
        end(writer)
        laps.append((opened - begun, time.monotonic() - opened))
    with capsys.disabled():
        for opened, written in laps:
            print(f"\nbegin {opened:.3f} s, five entries and close {written:.3f} s", end="")
    assert sum(laps[0]) < 3
    assert sum(laps[1]) < 3
