"""The offsets topic of the simulated cluster: records that are written one after the other, each a call of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from seamark.core.offsets import OffsetMap
from seamark.core.time import check_deadline
from seamark.errors import UnknownOutcomeError, UnreachableError
from seamark.kafka.model import HeldRecord
from seamark.offsets.model import CurrentOffset
from tests.simulation.faults import KILLS, Call, Kind, Process

if TYPE_CHECKING:
    from tests.simulation.clock import Timeline
    from tests.simulation.cluster import Cluster
    from tests.simulation.ledger import Ledger

_LOST = (Kind.LOST_DONE, Kind.LOST_LATE, Kind.LOST_NEVER)
_NEVER = (Kind.KILL_LOST, Kind.LOST_NEVER)
_LATE = (Kind.KILL_LATE, Kind.LOST_LATE)


class SimOffsets:
    """An `OffsetPort` of one process: what the offsets topic holds, written to the byte."""

    def __init__(
        self, process: Process, cluster: Cluster, timeline: Timeline, *, ledger: Ledger, late_seconds: float
    ) -> None:
        self._process = process
        self._cluster = cluster
        self._held = cluster.positions
        self._timeline = timeline
        self._ledger = ledger
        self._late_seconds = late_seconds

    def read(self, partitions: Sequence[OffsetMap]) -> tuple[CurrentOffset, ...]:
        """What is held; here the first partition has all records."""
        fault = self._process.call(Call.READ)
        if (fault is not None and fault.kind is Kind.UNREACHABLE) or self._timeline.now < self._cluster.brokers_back_at:
            raise UnreachableError("simulated: no broker answers")
        records = tuple(self._held.values())
        return tuple(
            CurrentOffset(partition, None, () if number else records) for number, partition in enumerate(partitions)
        )

    def write(self, records: Sequence[HeldRecord]) -> None:
        """Write one record after the other. Somebody may be killed, or stopped, between two of them."""
        until = self._timeline.now + self._late_seconds
        for number, record in enumerate(records):
            if self._timeline.now > until:
                # As the real one: who slept may have been taken over.
                raise UnknownOutcomeError("simulated: there was no time for the rest")
            fault = self._process.call(Call.WRITE)
            if number == 0:
                check_deadline("write the first record")
                self._ledger.sent(self._process, "write", record.key.decode())
            kind = None if fault is None else fault.kind
            if kind not in _NEVER:
                late = fault.size * self._late_seconds if fault is not None and kind in _LATE else 0.0
                self._timeline.at(self._timeline.now + late, self._land(record))
                self._timeline.advance(0.0)
            if kind in KILLS:
                self._process.kill()
            self._process.play(fault)
            if kind in _LOST:
                raise UnknownOutcomeError(f"simulated: {kind}")

    def read_members(self) -> None:
        """A source has no group."""

    def find_silent(self, workers: Sequence[str]) -> tuple[str, ...]:
        """All workers can be reached."""
        del workers
        return ()

    def _land(self, record: HeldRecord) -> Callable[[], None]:
        return lambda: self._held.update({record.place: record})
