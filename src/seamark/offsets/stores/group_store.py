"""A consumer group: where a sink's offsets live, and those of any other reader."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from seamark.core.offset import OffsetKey
from seamark.core.reading import Reading
from seamark.core.refs import is_pipeline
from seamark.errors import NotFoundError
from seamark.kafka.groups import GroupOffsets
from seamark.kafka.spot import Spot
from seamark.offsets.stored_offset import Evidence, StoredOffset, StoreReading

TOPIC, PARTITION, OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"


class Coordinator(Protocol):
    """What is asked of the brokers. `seamark.kafka.Brokers` is the real one."""

    def read_committed(
        self, groups: Mapping[str, Collection[Spot] | None], *, only_stable: bool = False
    ) -> Reading[GroupOffsets]: ...


class GroupStore:
    """What one group has committed, in the words of Connect's sinks. `owner` is whose offsets they are."""

    def __init__(self, brokers: Coordinator, group: str, *, owner: str) -> None:
        self._brokers = brokers
        self._group = group
        self._owner = owner

    @property
    def name(self) -> str:
        """`group NAME`, or `ledger pipeline/NAME`."""
        return f"ledger {self._group}" if is_pipeline(self._group) else f"group {self._group}"

    def read(self, owners: Collection[str] | None = None) -> StoreReading:
        """Its commits; a group that never committed holds nothing."""
        if owners is not None and self._owner not in owners:
            return StoreReading(self.name)
        # What waits for the end of a transaction is not there yet for a sink either.
        reading = self._brokers.read_committed({self._group: None}, only_stable=True)
        for error in reading.failures.values():
            if isinstance(error, NotFoundError):
                return StoreReading(self.name)
            raise error
        committed = reading.items[0].offsets if reading.items else {}
        stored = []
        for (topic, number), found in sorted(committed.items()):
            offset = {OFFSET: found.offset}
            key = OffsetKey(self._owner, {TOPIC: topic, PARTITION: number})
            stored.append(StoredOffset(key, offset, Evidence(self.name, offset=offset)))
        return StoreReading(self.name, tuple(stored), scanned=len(stored))
