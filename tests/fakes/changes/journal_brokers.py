"""The Kafka journal on brokers in memory, for tests that need no servers."""

from __future__ import annotations

from seamark.changes.kafka_journal import JournalNames, JournalTiming, KafkaJournal
from seamark.changes.kafka_journal.clients import JournalClients
from tests.fakes.kafka.brokers import Line, MemoryBrokers

CLUSTER_ID = "kafka-1"
NAMES = JournalNames()


def build_brokers():
    """Brokers with the journal's topics."""
    return MemoryBrokers(append_time=(NAMES.heads,))


def build_clients(brokers, timing=None, *, names=NAMES):
    """The journal's clients of one more process."""
    line = Line()
    return JournalClients(
        {"bootstrap.servers": "memory:9092"},
        names,
        timing=timing or JournalTiming(),
        cluster_id=CLUSTER_ID,
        build_producer=brokers.build_producer(line),
        build_consumer=brokers.build_consumer(line),
    )


def open_journal(brokers, timing=None):
    """The Kafka journal as one more process has it. Its topics count as checked."""
    journal = KafkaJournal({})
    journal._clients = build_clients(brokers, timing)
    return journal
