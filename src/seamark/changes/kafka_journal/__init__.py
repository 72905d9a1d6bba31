"""The journal in Kafka, for everybody who changes things of one cluster."""

from seamark.changes.kafka_journal.journal import KafkaJournal
from seamark.changes.kafka_journal.names import JournalNames
from seamark.changes.kafka_journal.timing import JournalTiming
from seamark.changes.kafka_journal.topics import (
    Difference,
    NeededAccess,
    build_needed_access,
    build_setup_access,
    build_topics,
    check_topics,
    create_topics,
)
from seamark.changes.kafka_journal.writer import KafkaJournalWriter

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
