"""A look at how large records are: some of them, and never for long."""

from __future__ import annotations

from types import SimpleNamespace

from confluent_kafka import KafkaError

from seamark.kafka.records import read_record_bytes

CONFIG = {"bootstrap.servers": "nowhere:1"}


def message(key, value, error=None):
    return SimpleNamespace(key=lambda: key, value=lambda: value, error=lambda: error)


class Consumer:
    def __init__(self, *batches):
        self.batches, self.assigned, self.is_closed = list(batches), None, False

    def assign(self, spots):
        self.assigned = {spot.partition: spot.offset for spot in spots}

    def consume(self, most, timeout):
        return self.batches.pop(0) if self.batches else []

    def close(self):
        self.is_closed = True


def read(consumer, begins):
    return read_record_bytes(CONFIG, "t", begins=begins, build_consumer=lambda settings: consumer)


def test_average_is_that_of_keys_and_values_rounded_up():
    end = message(None, None, KafkaError(KafkaError._PARTITION_EOF))
    consumer = Consumer([], [message(b"12", b"3456"), end, message(None, b"1"), message(b"1", None)])
    assert read(consumer, {3: 7, 1: 0}) == 3
    assert (consumer.assigned, consumer.is_closed) == ({1: 0, 3: 7}, True)


def test_some_partitions_are_enough():
    consumer = Consumer([message(b"", b"v")] * 500)
    assert read(consumer, dict.fromkeys(range(1000), 0)) == 1
    assert len(consumer.assigned) == 8


def test_topic_without_records_has_no_size(monkeypatch):
    monkeypatch.setattr("seamark.kafka.records._LOOK_SECONDS", 0.05)
    assert read(Consumer(), {0: 0}) == 0
