"""A topic of records in memory, in place of a real one."""

from __future__ import annotations

from seamark.kafka.model import RawRecord, ScanResult
from seamark.kafka.partitioner import choose_partition
from seamark.offsets.codec.codec import encode_key, encode_value


class FakeScan:
    """Records in the order in which they were written. Compaction is not in a hurry here."""

    def __init__(self, topic="connect-offsets", *, partitions=5, held_back=None):
        self.topic = topic
        self.partitions = partitions
        self.held_back = held_back or {}
        self.log = []
        self.reads = 0

    def put(self, key, value, *, partition=None):
        """Write a record: bytes, or a connector with its partition and an offset."""
        if isinstance(key, tuple):
            key = encode_key(*key)
        if isinstance(value, dict):
            value = encode_value(value)
        if partition is None:
            partition = 0 if key is None else choose_partition(key, partitions=self.partitions)
        offset = sum(found.partition == partition for found in self.log)
        self.log.append(RawRecord(partition, offset, 1_700_000_000_000 + 1000 * len(self.log), key, value))
        return self

    def read_newest(self, accept=None):
        self.reads += 1
        newest = {(found.partition, found.key): found for found in self.log if self._is_wanted(found, accept)}
        return ScanResult(self.topic, self.partitions, len(self.log), tuple(newest.values()), self.held_back)

    def read_all(self, accept=None):
        for number in range(self.partitions):
            yield from (found for found in self.log if found.partition == number and self._is_wanted(found, accept))

    def _is_wanted(self, found, accept):
        return accept is None or found.key is None or accept(found.key)
