"""The Kafka journal while its brokers die and come back."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from seamark.changes.journal import EntryKind
from seamark.changes.kafka_journal import KafkaJournal, create_topics
from seamark.devstack import StackSpec, start_stack
from seamark.devstack.client import ask
from seamark.errors import JournalError, UnreachableError
from seamark.kafka.topics import TopicAdmin
from tests.fakes.changes.journal_suite import AT, end, new_lock, opening


@pytest.mark.timeout(600)
def test_brokers_die_and_come_back(capfd):
    with start_stack(StackSpec(brokers=3, workers=0), name="journal") as stack:
        folder, config = Path(stack.folder), {"bootstrap.servers": stack.kafka.bootstrap_servers}
        with TopicAdmin(config) as admin:
            create_topics(admin)
        journal, other = KafkaJournal(config), KafkaJournal(config)
        first = opening(new_lock(), new_lock())
        writer = journal.begin(first)

        ask(folder, "kill", "broker-1")
        writer.append(EntryKind.NOTE, {"note": "one broker is dead"})
        end(other.begin(opening(new_lock())))
        ask(folder, "restart", "broker-1")
        assert other.read(first.change) == writer.entries

        ask(folder, "kill", "broker-1")
        ask(folder, "kill", "broker-2")
        begun = time.monotonic()
        with pytest.raises(JournalError) as caught:
            writer.append(EntryKind.INTENT, {"step": 0, "before": 1, "after": 2})
        # It ends, by deadlines of its own: a busy machine only adds to them.
        assert time.monotonic() - begun < 60
        assert f"seamark journal resume {first.change}" in caught.value.hint
        with pytest.raises(JournalError):
            writer.append(EntryKind.NOTE, {})
        begun = time.monotonic()
        # What fails first, the reading or the writing, depends on which broker is left.
        with pytest.raises((UnreachableError, JournalError)):
            other.begin(opening(new_lock()))
        assert time.monotonic() - begun < 80
        writer.release()

        ask(folder, "restart", "broker-1")
        ask(folder, "restart", "broker-2")
        entries = other.read(first.change)
        assert entries[:2] == writer.entries
        taken = other.take_over(first.change, nonce="n2", by="b", at=AT)
        assert taken.entries[: len(entries)] == entries
        end(taken)
        assert other.read(first.change)[-1].kind is EntryKind.CLOSE
        assert not other.open_heads()
        journal.close()
        other.close()
    # librdkafka complains about every lost connection; none of that is the user's.
    assert capfd.readouterr().err == ""
