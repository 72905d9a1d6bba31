"""Samples of keys: the oldest and the newest of each partition, and no record twice."""

from __future__ import annotations

from collections import Counter

import pytest

from seamark.errors import SeamarkError
from seamark.kafka.records import read_key_samples

CONFIG = {"bootstrap.servers": "b:1"}


class Error:
    def __init__(self, name):
        self._name = name

    def name(self):
        return self._name

    def str(self):
        return self._name

    def fatal(self):
        return False

    def retriable(self):
        return False


class Message:
    def __init__(self, partition, offset, key=None, error=None):
        self._at = (partition, offset, key, error)

    def __len__(self):
        return 10

    def partition(self):
        return self._at[0]

    def offset(self):
        return self._at[1]

    def key(self):
        return self._at[2]

    def error(self):
        return self._at[3]


class FakeConsumer:
    """Partitions with keys by offset. It remembers what is paused, as librdkafka does over an assignment."""

    def __init__(self, logs):
        self.logs, self.at, self.paused, self.closed, self.given = logs, {}, set(), 0, Counter()

    def assign(self, spots):
        self.at = {spot.partition: spot.offset for spot in spots}

    def pause(self, spots):
        self.paused |= {spot.partition for spot in spots}

    def resume(self, spots):
        self.paused -= {spot.partition for spot in spots}

    def consume(self, most, wait):
        found = []
        for partition in self.at.keys() - self.paused:
            offsets = [offset for offset in sorted(self.logs[partition]) if offset >= self.at[partition]][:7]
            found += [Message(partition, offset, self.logs[partition][offset]) for offset in offsets]
            self.given.update((partition, offset) for offset in offsets)
            if offsets:
                self.at[partition] = offsets[-1] + 1
            else:
                found.append(Message(partition, self.at[partition], error=Error("_PARTITION_EOF")))
        return found

    def close(self):
        self.closed += 1


def sample(logs, *, most, ranges=None):
    consumer = FakeConsumer(logs)
    ranges = ranges or {p: (min(log, default=0), max(log, default=-1) + 1) for p, log in logs.items()}
    found = list(read_key_samples(CONFIG, "t", ranges=ranges, most=most, build_consumer=lambda settings: consumer))
    assert consumer.closed == 1
    return found


def log(begin, end, step=1):
    return {offset: str(offset).encode() for offset in range(begin, end, step)}


def test_oldest_and_newest_of_each_partition_are_taken():
    found = sample({0: log(10, 1010), 1: log(0, 500)}, most=20)
    assert Counter(partition for partition, _ in found) == {0: 40, 1: 40}
    assert {int(key) for partition, key in found if partition == 0} == {*range(10, 30), *range(990, 1010)}


def test_small_topic_is_taken_whole_and_once():
    found = sample({0: log(0, 30), 1: log(0, 5), 2: {}}, most=20)
    assert Counter(found).most_common(1)[0][1] == 1
    assert len(found) == 35


def test_gaps_and_ranges_are_kept():
    found = sample({0: log(0, 1000, step=3)}, most=10, ranges={0: (300, 600)})
    keys = {int(key) for _, key in found}
    assert min(keys) == 300
    assert max(keys) < 600
    assert 10 < len(keys) <= 20


def test_error_of_a_partition_is_told():
    class Denied(FakeConsumer):
        def consume(self, most, wait):
            return [Message(0, 0, error=Error("TOPIC_AUTHORIZATION_FAILED"))]

    with pytest.raises(SeamarkError, match="t"):
        list(read_key_samples(CONFIG, "t", ranges={0: (0, 9)}, most=5, build_consumer=lambda settings: Denied({0: {}})))
