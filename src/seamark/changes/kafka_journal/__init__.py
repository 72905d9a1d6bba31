"""The journal in Kafka, shared by all users who change resources of one Kafka cluster."""

from seamark.changes.kafka_journal.clients import (
    Difference,
    NeededAccess,
    build_needed_access,
    build_setup_access,
    build_topics,
    check_topics,
    create_topics,
)
from seamark.changes.kafka_journal.entries import KafkaJournalWriter
from seamark.changes.kafka_journal.journal import KafkaJournal
from seamark.changes.kafka_journal.names import JournalNames, JournalTiming

__all__ = [
    "Difference",
    "JournalNames",
    "JournalTiming",
    "KafkaJournal",
    "KafkaJournalWriter",
    "NeededAccess",
    "build_needed_access",
    "build_setup_access",
    "build_topics",
    "check_topics",
    "create_topics",
]
