"""Brokers in memory for the Kafka journal: logs of committed records, and transactional IDs with epochs."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field

from seamark.change.kafka_journal import JournalNames, JournalTiming, KafkaJournal
from seamark.change.kafka_journal.clients import JournalClients
from seamark.errors import FencedError, JournalError
from seamark.kafka.log import LogRecord

CLUSTER_ID = "kafka-1"


class JournalBrokers:
    """What the brokers store. The holder of a transactional ID is fenced when its epoch is not the newest."""

    def __init__(self):
        self.mutex = threading.Lock()
        self.logs = defaultdict(list)
        self.epochs = defaultdict(int)

    def append(self, records):
        """Store records and the marker of their transaction, which takes an offset of its own."""
        for record in records:
            log = self.logs[record.topic]
            offset = log[-1].offset + 2 if log else 0
            stamp = record.timestamp_ms or int(time.time() * 1000)
            log.append(LogRecord(offset, stamp, key=record.key, value=record.value, headers=dict(record.headers)))


class MemoryLog:
    """What `PartitionLog` reads."""

    def __init__(self, brokers, topic):
        self.topic = topic
        self._brokers = brokers

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        pass

    def read_bounds(self):
        records = self._copy()
        return (records[0].offset, records[-1].offset + 2) if records else (0, 0)

    def find_offset(self, at):
        return next((record.offset for record in self._copy() if record.timestamp_ms >= at * 1000), None)

    def read(self, start=None, end=None):
        low, high = self.read_bounds()
        start, end = low if start is None else start, high if end is None else end
        yield from (record for record in self._copy() if start <= record.offset < end)

    def _copy(self):
        with self._brokers.mutex:
            return list(self._brokers.logs[self.topic])


class MemoryWriter:
    """What `TransactionalWriter` writes: whole transactions of the one that holds the ID."""

    def __init__(self, brokers, transactional_id):
        self.transactional_id = transactional_id
        self._brokers = brokers
        self._epoch = None

    def connect(self, topics):
        assert topics

    def take(self):
        with self._brokers.mutex:
            self._brokers.epochs[self.transactional_id] += 1
            self._epoch = self._brokers.epochs[self.transactional_id]

    def write(self, records, *, deadline=None):
        with self._brokers.mutex:
            if self._epoch is None:
                # librdkafka refuses a transaction of a producer that was not initialized.
                raise JournalError("the transactional ID was never taken")
            if self._epoch != self._brokers.epochs[self.transactional_id]:
                raise FencedError("another producer has taken the transactional ID")
            self._brokers.append(records)

    def close(self):
        pass


class MemoryRecordWriter:
    """What `RecordWriter` writes: single records, without a transaction."""

    def __init__(self, brokers):
        self._brokers = brokers

    def write(self, record):
        with self._brokers.mutex:
            self._brokers.append([record])

    def close(self):
        pass


@dataclass(frozen=True, slots=True)
class MemoryClients(JournalClients):
    """The journal's clients, for brokers in memory."""

    brokers: JournalBrokers = field(default_factory=JournalBrokers)

    def open_journal_log(self):
        return MemoryLog(self.brokers, self.names.journal)

    def open_heads_log(self):
        return MemoryLog(self.brokers, self.names.heads)

    def open_record_writer(self):
        return MemoryRecordWriter(self.brokers)

    def _open_writer(self, transactional_id):
        return MemoryWriter(self.brokers, transactional_id)


def open_journal(brokers, timing=None):
    """The Kafka journal as one more process has it. Its topics count as checked."""
    journal = KafkaJournal({})
    journal._clients = MemoryClients(
        {}, JournalNames(), timing=timing or JournalTiming(), cluster_id=CLUSTER_ID, brokers=brokers
    )
    return journal
