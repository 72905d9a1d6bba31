"""The simulated world as one process has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from seamark.changes.timing import ChangeTiming
from seamark.errors import JournalError
from tests.ports import MethodPorts
from tests.simulation.clock import Timeline
from tests.simulation.cluster import Cluster
from tests.simulation.connect import SimConnect
from tests.simulation.faults import Call, Kind, Process
from tests.simulation.ledger import Ledger
from tests.simulation.offsets import SimOffsets

CLUSTER = "sim"
# The secrets of the simulated configs begin with it; no entry may hold it.
CANARY = "hunter2-"

# The real rules with shorter times, so that a wait has fewer looks. `begin` is as long as PutConfig lets a read take.
TIMING = ChangeTiming(
    in_flight_seconds=9.0,
    begin_seconds=5.0,
    send_seconds=2.0,
    shows_seconds=1.0,
    foreign_seconds=1.0,
    look_seconds=0.5,
)


class SimClock:
    """The clock of one process, wrong by `skew`. Sleeping is a call; looking at the clock is none."""

    def __init__(self, process: Process, timeline: Timeline, cluster: Cluster, *, skew: float) -> None:
        self._skew = skew
        self._process = process
        self._timeline = timeline
        self._cluster = cluster

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._timeline.now + self._skew

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        fault = self._process.call(Call.SLEEP)
        if fault is not None and fault.kind is Kind.OUTAGE:
            self._cluster.outage_until = self._timeline.now + fault.size * 4 * TIMING.quiet_seconds
        if fault is not None and fault.kind is Kind.REBALANCE:
            self._cluster.rebalance_until = self._timeline.now + fault.size * 8
        self._timeline.advance(seconds)


class SimWorld(MethodPorts):
    """An `Environment` of one process."""

    def __init__(
        self, process: Process, timeline: Timeline, cluster: Cluster, *, ledger: Ledger, skew: float = 0.0
    ) -> None:
        self.clock = SimClock(process, timeline, cluster, skew=skew)
        self._connect = SimConnect(process, cluster, timeline, timing=TIMING, ledger=ledger)
        self._offsets = SimOffsets(process, cluster, timeline, ledger=ledger, late_seconds=TIMING.in_flight_seconds)

    def connect(self, cluster: str) -> SimConnect:
        """The one cluster."""
        assert cluster == CLUSTER
        return self._connect

    def offsets(self, cluster: str, name: str, *, kept: object = None) -> SimOffsets:
        """What the offsets topic holds; here of one connector."""
        del name, kept
        assert cluster == CLUSTER
        return self._offsets

    def read_status(self, cluster: str, name: str):
        """A connector's status; here everybody reads alone."""
        return self.connect(cluster).read_status(name)

    def reveal(self, reference: str) -> str:
        """The value behind a reference."""
        return f"{CANARY}{reference.rpartition('/')[2]}"

    def seal(self, value: str) -> str:
        """Equal secrets give equal seals, and the canary is not in them."""
        return seal(value)


def seal(value: str) -> str:
    """The simulated seal: quick, and without the canary."""
    return f"seal:{value[::-1]}"


@dataclass(frozen=True, slots=True)
class Spooled:
    """One record of the spool."""

    process: str
    change: str
    number: int
    subject: str
    text: str


class SimSpool:
    """A `Spool` of one process."""

    def __init__(self, process: Process, records: list[Spooled], timeline: Timeline) -> None:
        self._process = process
        self._records = records
        self._timeline = timeline

    def write(self, change: str, number: int, record: Mapping[str, Any]) -> str:
        """Make a record durable."""
        fault = self._process.call(Call.SPOOL)
        if fault is not None and fault.kind is Kind.JOURNAL_FAILS:
            raise JournalError("simulated: the spool can't be written")
        text = json.dumps(record)
        self._records.append(Spooled(self._process.name, change, number, record["subject"], text))
        self._process.has_spooled = True
        if fault is not None and fault.kind is Kind.KILL_AFTER:
            self._process.kill()
        return f"/spool/{change}.{number}.json"
