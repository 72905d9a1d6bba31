"""What one process sees of the simulated cluster: its calls, with everything that can go wrong on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from seamark.change.timing import ChangeTiming
from seamark.errors import (
    AuthorizationError,
    DeadlineError,
    RejectedError,
    SeamarkError,
    UnknownOutcomeError,
    UnreachableError,
)
from seamark.model.connector import Connector, ConnectorStatus, ConnectorType
from tests.simulation.clock import Timeline
from tests.simulation.cluster import Cluster, Config
from tests.simulation.faults import KILLS, Call, Fault, Kind, Process

if TYPE_CHECKING:
    from tests.simulation.ledger import Ledger

_CLEAR_ERRORS: dict[Kind, type[SeamarkError]] = {
    Kind.REJECTED: RejectedError,
    Kind.DENIED: AuthorizationError,
    Kind.DEADLINE: DeadlineError,
    Kind.UNREACHABLE: UnreachableError,
}


class SimConnect:
    """A `ConnectPort` of one process."""

    def __init__(
        self, process: Process, cluster: Cluster, timeline: Timeline, *, timing: ChangeTiming, ledger: Ledger
    ) -> None:
        self._process = process
        self._cluster = cluster
        self._timeline = timeline
        self._timing = timing
        self._ledger = ledger

    # --- reads -------------------------------------------------------------------------------------------------

    def read_connector(self, name: str) -> Connector:
        """Config and status."""
        return Connector(name, "sim", ConnectorType.SOURCE, self.read_config(name), self.read_status(name))

    def read_config(self, name: str) -> Config:
        """GET /connectors/NAME/config."""
        self._read()
        return self._cluster.show_config(name)

    def read_status(self, name: str) -> ConnectorStatus:
        """GET /connectors/NAME/status."""
        self._read()
        return self._cluster.show_status(name)

    def _read(self) -> None:
        fault = self._process.call(Call.READ)
        if fault is not None:
            if fault.kind is Kind.OUTAGE:
                self._cluster.outage_until = self._timeline.now + fault.size * 4 * self._timing.quiet_seconds
            elif fault.kind is Kind.REBALANCE:
                self._cluster.rebalance_until = self._timeline.now + fault.size * 8
            else:
                raise _CLEAR_ERRORS[fault.kind](f"simulated: {fault.kind}")
        if self._timeline.now < self._cluster.outage_until:
            raise UnreachableError("simulated: outage")

    # --- writes ------------------------------------------------------------------------------------------------

    def create_connector(self, name: str, config: Mapping[str, str], *, initial_state: str | None = None) -> None:
        """POST /connectors."""
        sent = dict(config)
        self._write("create", name, lambda: self._cluster.create(name, sent, target=initial_state or "RUNNING"))

    def put_config(self, name: str, config: Mapping[str, str]) -> None:
        """PUT /connectors/NAME/config."""
        sent = dict(config)
        self._write("put", name, lambda: self._cluster.put(name, sent))

    def delete_connector(self, name: str) -> None:
        """DELETE /connectors/NAME."""
        self._write("delete", name, lambda: self._cluster.delete(name))

    def pause(self, name: str) -> None:
        """PUT /connectors/NAME/pause."""
        self._write("pause", name, lambda: self._cluster.set_target(name, "PAUSED"))

    def resume(self, name: str) -> None:
        """PUT /connectors/NAME/resume."""
        self._write("resume", name, lambda: self._cluster.set_target(name, "RUNNING"))

    def stop(self, name: str) -> None:
        """PUT /connectors/NAME/stop."""
        self._write("stop", name, lambda: self._cluster.set_target(name, "STOPPED"))

    def restart(self, name: str, *, include_tasks: bool = False, only_failed: bool = False) -> None:
        """POST /connectors/NAME/restart."""
        assert include_tasks
        assert only_failed
        self._write("restart", name, lambda: self._cluster.restart(name))

    def _write(self, verb: str, name: str, effect: Callable[[], None]) -> None:
        fault = self._process.call(Call.WRITE)
        self._ledger.sent(self._process, verb, name)
        if fault is None:
            if self._timeline.now < self._cluster.outage_until:
                raise UnreachableError("simulated: outage")
            effect()
        elif fault.kind in _CLEAR_ERRORS:
            if fault.kind is Kind.DEADLINE:
                self._timeline.advance(self._timing.send_seconds)
            raise _CLEAR_ERRORS[fault.kind](f"simulated: {fault.kind}")
        elif fault.kind in KILLS:
            self._send(fault, effect)
            self._process.kill()
        elif fault.kind in (Kind.LOST_DONE, Kind.LOST_LATE, Kind.LOST_NEVER):
            self._send(fault, effect)
            # The answer is missing at once (a reset), or after the client has waited for it.
            self._timeline.advance(fault.size * 7 % 1 * self._timing.in_flight_seconds)
            raise UnknownOutcomeError(f"simulated: {fault.kind}")
        else:
            self._write_in_time(fault, effect)

    def _write_in_time(self, fault: Fault, effect: Callable[[], None]) -> None:
        if fault.kind is Kind.LATER:
            self._timeline.advance(fault.size * self._timing.send_seconds)
        if fault.kind is Kind.SLOW_STATUS:
            self._cluster.slow_seconds = 50 + fault.size * 50
        try:
            effect()
        finally:
            self._cluster.slow_seconds = 0.0
        # Stopped while the answer was on its way. Between the last look at the clock and the first byte of the request
        # are microseconds that no program can close; nobody is stopped there.
        self._process.play(fault)

    def _send(self, fault: Fault, effect: Callable[[], None]) -> None:
        """Send a request whose answer nobody will see; it lands now, later, or never."""
        if fault.kind in (Kind.KILL_LOST, Kind.LOST_NEVER):
            return
        lag = 0.0
        if fault.kind in (Kind.KILL_LATE, Kind.LOST_LATE):
            # The client had begun to send late, because it was told to wait; it lands as late as it can.
            self._timeline.advance(fault.size * 3 % 1 * self._timing.send_seconds)
            lag = fault.size * self._timing.in_flight_seconds
        if fault.kind is Kind.KILL_LATE and self._process.has_spooled:
            # Two failures at once, which seamark does not claim to survive: the journal fails, and whoever restores
            # without it is killed with its request still in flight. Nobody can know of that request.
            lag = 0.0
        self._timeline.at(self._timeline.now + lag, lambda: _land(effect))
        self._timeline.advance(0.0)


def _land(effect: Callable[[], None]) -> None:
    """Carry a late request out; what Connect would have answered, nobody hears."""
    try:
        effect()
    except RejectedError:
        return
