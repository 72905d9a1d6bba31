"""The records in the workers' topic that speak of connectors which are gone, as the steps of a change see them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from seamark.core.deadline import read_clock
from seamark.kafka.records_held import HeldRecord
from seamark.offsets.stored_offset import StoredOffset, StoreReading
from seamark.offsets.stores.own_records import check_own_records

if TYPE_CHECKING:
    from seamark.context import Context
    from seamark.offsets.stores.stores import OffsetStores

# As long as a step may send: `ChangeTiming.send_seconds`, which knows, less what the look before it needs.
ORPHAN_WRITE_SECONDS = 15.0


class LeftOffsets:
    """A `LeftOffsetsPort` over one cluster's offsets topic."""

    def __init__(self, cluster: str, *, context: Context, stores: OffsetStores) -> None:
        self._cluster = cluster
        self._context = context
        self._stores = stores

    def read(self, owners: Collection[str]) -> tuple[HeldRecord, ...]:
        """Every record that speaks of these connectors: each spelling, on each partition, also tombstones."""
        return tuple(build_records(self.read_stored(owners)))

    def read_stored(self, owners: Collection[str]) -> StoreReading:
        """Return what the topic holds of these connectors, each partition once, with the records behind it."""
        return self._stores.find_topic(self._cluster).read(owners)

    def write(self, owners: Collection[str], records: Sequence[HeldRecord]) -> None:
        """Write these records of the owners, each where it says, in this order."""
        from seamark.kafka.exact_writer import write_records  # noqa: PLC0415

        check_own_records(records, connectors=owners, topics=(self._context.connect[self._cluster].offsets_topic,))
        # As for the offsets of connectors: a process that takes the change over relies on it that nothing lands later.
        until = read_clock() + self._context.journal.in_flight_seconds
        write_records(self._context.kafka.client_config(), records, timeout_seconds=ORPHAN_WRITE_SECONDS, until=until)


def build_records(reading: StoreReading) -> Iterator[HeldRecord]:
    """The records behind a reading of a topic."""
    for stored in (*reading.offsets, *reading.forgotten):
        yield from build_stored_records(stored)


def build_stored_records(stored: StoredOffset) -> Iterator[HeldRecord]:
    """The records of topics behind one offset; files and groups have none."""
    for found in (stored.evidence, *stored.others):
        if found.key is not None and found.partition is not None:
            yield HeldRecord(found.store.removeprefix("topic "), found.partition, found.key, found.value)
