"""An offsets topic: that of the workers, or one of a connector's own, on whichever Kafka cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from seamark.kafka.raw_record import RawRecord, ScanResult
from seamark.kafka.topic_scan import Accept
from seamark.offsets.codec.codec import decode_key
from seamark.offsets.codec.verdicts import DecodedKey
from seamark.offsets.offset_finding import OffsetFinding, OffsetOddity
from seamark.offsets.stored_offset import Evidence, StoreReading
from seamark.offsets.stores.grouping import build_evidence, build_home, build_reading
from seamark.offsets.stores.key_filter import build_key_filter
from seamark.offsets.stores.plain import PlainPair, split_plain


class Scan(Protocol):
    """What is asked of the brokers. `seamark.kafka.topic_scan.TopicScan` is the real one."""

    @property
    def topic(self) -> str: ...
    def read_newest(self, accept: Accept | None = None) -> ScanResult: ...
    def read_all(self, accept: Accept | None = None) -> Iterator[RawRecord]: ...


class TopicStore:
    """One offsets topic.

    The scan decides whether only committed records are read: as a worker with exactly-once does, and one that reads a
    connector's own topic. `knows_partitioner` is false where the writers were given a partitioner of their own.
    """

    def __init__(self, scan: Scan, *, knows_partitioner: bool = True) -> None:
        self._scan = scan
        self._knows_partitioner = knows_partitioner

    @property
    def name(self) -> str:
        """`topic NAME`."""
        return f"topic {self._scan.topic}"

    def read(self, owners: Collection[str] | None = None) -> StoreReading:
        """The newest of every key. Memory grows with the keys that are asked for, not with the records."""
        result = self._scan.read_newest(None if owners is None else build_key_filter(owners))
        return self._build_reading(result, result.records, owners)

    def _build_reading(
        self, result: ScanResult, records: Iterable[RawRecord], owners: Collection[str] | None
    ) -> StoreReading:
        known = result.partitions if self._knows_partitioner else None
        reading = build_reading(records, store=self.name, home=build_home(known), owners=owners, scanned=result.scanned)
        held = tuple(self._build_held_back(number, *where) for number, where in result.held_back.items())
        return replace(reading, findings=(*reading.findings, *held), partitions=known)

    def read_pairs(self, owners: Collection[str] | None = None) -> tuple[list[PlainPair], StoreReading]:
        """The same for whoever wants JSON only: plain pairs as they were written, and a reading of all the rest."""
        result = self._scan.read_newest(None if owners is None else build_key_filter(owners))
        home = build_home(result.partitions if self._knows_partitioner else None)
        pairs, rest = split_plain(result.records, home)
        return pairs, self._build_reading(result, rest, owners)

    def read_history(self, owners: Collection[str] | None = None) -> Iterator[tuple[DecodedKey, Evidence]]:
        """Every record that compaction left, in the order of each partition; also those that were overwritten since."""
        wanted = None if owners is None else frozenset(owners)
        decoded: dict[bytes | None, DecodedKey] = {}
        for record in self._scan.read_all(None if owners is None else build_key_filter(owners)):
            key = decoded.get(record.key)
            if key is None:
                key = decoded[record.key] = decode_key(record.key)
            if wanted is None or key.connector in wanted:
                yield key, build_evidence(record, key, store=self.name)

    def _build_held_back(self, partition: int, reached: int, end: int) -> OffsetFinding:
        message = (
            f"{self._scan.topic}-{partition}: a transaction that nobody ended hides offsets {reached} to {end - 1}; "
            "tasks and REST wait for its end, too"
        )
        return OffsetFinding(OffsetOddity.OPEN_TRANSACTION, "", message)
