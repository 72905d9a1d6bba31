"""What the offsets topic and the topic of groups hold, read by the soak itself record by record."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition

from tests.soak.offsets.brokers import PATIENCE_SECONDS
from tests.soak.offsets.commits import Commit, parse_key, parse_value


@dataclass(frozen=True)
class Written:
    """One record of the offsets topic."""

    at: float
    key: bytes
    value: bytes | None
    place: tuple[int, int]

    @property
    def offset(self):
        """The offset as JSON; None where it is forgotten."""
        return None if self.value is None else json.loads(self.value)


class Ledger:
    """Every record of an offsets topic since its beginning, by the connector that its key names."""

    def __init__(self, stack, brokers, topic):
        self._brokers = brokers
        self._topic = topic
        config = {
            "bootstrap.servers": stack.kafka.bootstrap_servers,
            "group.id": f"soak-ledger-{topic}",
            "log_level": 0,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        self._consumer = Consumer(config)
        count = brokers.count_partitions(topic)
        self._partitions = [TopicPartition(topic, number, 0) for number in range(count)]
        self._next = dict.fromkeys(range(count), 0)
        self._records = defaultdict(list)
        self._news = threading.Condition()
        self._over = threading.Event()

    def __enter__(self):
        self._consumer.assign(self._partitions)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join(30)
        self._consumer.close()

    def names(self):
        """Everybody who ever wrote an offset."""
        self._catch_up()
        with self._news:
            return set(self._records)

    def read(self, name):
        """Every record of a connector up to now, in the order of their partitions' logs."""
        self._catch_up()
        with self._news:
            return list(self._records[name])

    def read_newest(self, name):
        """The newest record of each key."""
        return {record.key: record for record in self.read(name)}

    def _catch_up(self):
        ends = self._brokers.read_ends(self._topic, len(self._partitions))
        deadline = time.monotonic() + PATIENCE_SECONDS
        with self._news:
            while any(self._next[number] < end for number, end in ends.items()):
                if time.monotonic() > deadline:
                    raise AssertionError(f"{self._topic} could not be read to its end: {self._next} of {ends}")
                self._news.wait(1)

    def _follow(self):
        while not self._over.is_set():
            records = [record for record in self._consumer.consume(500, 0.1) if record.error() is None]
            if not records:
                continue
            with self._news:
                for record in records:
                    self._add(record)
                    self._next[record.partition()] = record.offset() + 1
                self._news.notify_all()

    def _add(self, record):
        name = json.loads(record.key())[0]
        place = (record.partition(), record.offset())
        written = Written(record.timestamp()[1] / 1000, record.key(), record.value(), place)
        self._records[name].append(written)


class CommitLedger(Ledger):
    """Every record of `__consumer_offsets` since its beginning, by the group that its key names."""

    def read_partition(self, group, spot):
        """Return the commits of a group for `topic:0` up to now, in their order."""
        return [commit for where, commit in self.read(group) if where == spot]

    def _add(self, record):
        parsed = parse_key(record.key())
        if parsed is not None:
            group, spot = parsed
            commit = Commit(record.timestamp()[1] / 1000, parse_value(record.value()))
            self._records[group].append((spot, commit))
