"""The journal in Kafka, for everybody who changes things of one cluster."""

from seamark.change.kafka_journal.journal import KafkaJournal
from seamark.change.kafka_journal.names import JournalNames
from seamark.change.kafka_journal.timing import JournalTiming
from seamark.change.kafka_journal.topics import (
    Difference,
    NeededAccess,
    build_needed_access,
    build_setup_access,
    build_topics,
    check_topics,
    create_topics,
)
from seamark.change.kafka_journal.writer import KafkaJournalWriter

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
