"""The records in the workers' topic that speak of connectors which are gone, as the steps of a change see them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from seamark.model.held_offset import HeldRecord
from seamark.model.stored_offset import StoreReading

if TYPE_CHECKING:
    from seamark.context import Context
    from seamark.fleet.offset_stores import OffsetStores

# As long as a step may send: `ChangeTiming.send_seconds`, which knows, less what the look before it needs.
WRITE_SECONDS = 15.0


class LeftOffsets:
    """A `LeftOffsetsPort` over one cluster's offsets topic."""

    def __init__(self, cluster: str, *, context: Context, stores: OffsetStores) -> None:
        self._cluster = cluster
        self._context = context
        self._stores = stores

    def read(self, owners: Collection[str]) -> tuple[HeldRecord, ...]:
        """Every record that speaks of these connectors: each spelling, on each partition, also tombstones."""
        return tuple(build_records(self._stores.find_topic(self._cluster).read(owners)))

    def write(self, records: Sequence[HeldRecord]) -> None:
        """Write these records, each where it says, in this order."""
        from seamark.kafka.exact_writer import ExactWriter  # noqa: PLC0415
        from seamark.kafka.produce import Outgoing  # noqa: PLC0415

        with ExactWriter(self._context.kafka.client_config(), timeout_seconds=WRITE_SECONDS) as writer:
            writer.write(
                [Outgoing(one.topic, key=one.key, value=one.value, partition=one.partition) for one in records]
            )


def build_records(reading: StoreReading) -> Iterator[HeldRecord]:
    """The records behind a reading of a topic."""
    topic = reading.store.removeprefix("topic ")
    for stored in (*reading.offsets, *reading.forgotten):
        for found in (stored.evidence, *stored.others):
            if found.key is not None and found.partition is not None:
                yield HeldRecord(topic, found.partition, found.key, found.value)
