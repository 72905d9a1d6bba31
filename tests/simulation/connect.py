"""What one process sees of the simulated cluster: its calls, with everything that can go wrong on the way.

Writes go through the real `Caller` of the Connect client, with its attempts, pauses and deadlines. Its network is
simulated, and so is the time of its pauses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from seamark.changes.timing import ChangeTiming
from seamark.connect import requests
from seamark.connect.answers import HttpResponse, Phase, RequestFailure
from seamark.connect.caller import Caller, FailoverUrls, Timing
from seamark.connect.model import Connector, ConnectorStatus
from seamark.connect.requests import Request
from seamark.core.refs import ConnectorType
from seamark.errors import (
    AlreadyExistsError,
    AuthorizationError,
    NotFoundError,
    RejectedError,
    SeamarkError,
    UnreachableError,
)
from tests.simulation.clock import Timeline
from tests.simulation.cluster import Cluster, Config
from tests.simulation.faults import KILLS, Call, Fault, Kind, Process

if TYPE_CHECKING:
    from tests.simulation.ledger import Ledger

_READ_ERRORS: dict[Kind, type[SeamarkError]] = {
    Kind.DENIED: AuthorizationError,
    Kind.UNREACHABLE: UnreachableError,
}
_REFUSALS = {Kind.REJECTED: 400, Kind.DENIED: 403}
_LOST = (Kind.LOST_DONE, Kind.LOST_LATE, Kind.LOST_NEVER)
_STALE = "Cannot complete request momentarily due to stale configuration"
_UNREACHABLE = RequestFailure(Phase.CONNECTING, "simulated: connection refused")


class EvenTiming(Timing):
    """Pauses without chance, so that a seed gives the same run again."""

    def pauses(self) -> Iterator[float]:
        """Pauses that double."""
        pause = self.first_pause_seconds
        while True:
            yield pause
            pause = min(pause * 2, self.longest_pause_seconds)


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
        self._stopped: Fault | None = None

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
                raise _READ_ERRORS[fault.kind](f"simulated: {fault.kind}")
        if self._timeline.now < self._cluster.outage_until:
            raise UnreachableError("simulated: outage")

    # --- writes ------------------------------------------------------------------------------------------------

    def create_connector(self, name: str, config: Mapping[str, str], *, initial_state: str | None = None) -> None:
        """POST /connectors."""
        sent = dict(config)
        request = requests.create(name, sent, initial_state=initial_state)
        self._write(request, lambda: self._cluster.create(name, sent, target=initial_state or "RUNNING"))

    def put_config(self, name: str, config: Mapping[str, str]) -> None:
        """PUT /connectors/NAME/config."""
        sent = dict(config)
        self._write(requests.put_config(name, sent), lambda: self._cluster.put(name, sent))

    def delete_connector(self, name: str) -> None:
        """DELETE /connectors/NAME."""
        self._write(requests.delete(name), lambda: self._cluster.delete(name))

    def pause(self, name: str) -> None:
        """PUT /connectors/NAME/pause."""
        self._write(requests.change_state(name, "pause"), lambda: self._cluster.set_target(name, "PAUSED"))

    def resume(self, name: str) -> None:
        """PUT /connectors/NAME/resume."""
        self._write(requests.change_state(name, "resume"), lambda: self._cluster.set_target(name, "RUNNING"))

    def stop(self, name: str) -> None:
        """PUT /connectors/NAME/stop."""
        self._write(requests.change_state(name, "stop"), lambda: self._cluster.set_target(name, "STOPPED"))

    def restart(self, name: str, *, include_tasks: bool = False, only_failed: bool = False) -> None:
        """POST /connectors/NAME/restart."""
        request = requests.restart(name, include_tasks=include_tasks, only_failed=only_failed)
        self._write(request, lambda: self._cluster.restart(name))

    def _write(self, request: Request, effect: Callable[[], None]) -> None:
        network = _Network(self, request.subject, effect, fault=self._process.call(Call.WRITE))
        timing = EvenTiming(deadline_seconds=self._timing.send_seconds)
        workers = FailoverUrls(("http://sim:8083",), cluster="sim")
        Caller(workers, network, timing=timing, cluster="sim", now=lambda: self._timeline.now, sleep=self._sleep).call(
            request
        )

    def _sleep(self, seconds: float) -> None:
        """A pause between two attempts. The process may be stopped in it, and taken over."""
        stopped, self._stopped = self._stopped, None
        if stopped is not None:
            self._process.play(stopped)
        self._timeline.advance(seconds)


class _Network:
    """The `Transport` of one call: what each attempt meets."""

    def __init__(self, connect: SimConnect, name: str, effect: Callable[[], None], *, fault: Fault | None) -> None:
        self._connect = connect
        self._name = name
        self._effect = effect
        self._fault = fault
        self._attempts = 0
        self._is_sent = False

    def send(
        self, url: str, request: Request, *, may_send: Callable[[], bool] | None = None, **_limits: float
    ) -> HttpResponse | RequestFailure:
        """Send an attempt. The real one asks `may_send` in the same place: right before the first byte."""
        assert may_send is not None, "a request of a change has a deadline"
        if not may_send():
            return RequestFailure(Phase.TOO_LATE, "the deadline passed")
        self._attempts += 1
        fault = self._fault
        # A worker that refuses connections gets no byte.
        if self._is_out() or (fault is not None and fault.kind is Kind.UNREACHABLE):
            return _UNREACHABLE
        self._connect._ledger.sent(
            self._connect._process, f"{request.method} {request.path}", self._name, is_repeated=self._is_sent
        )
        self._is_sent = True
        if fault is None:
            return self._land()
        if fault.kind is Kind.STOPPED_BETWEEN:
            self._fault = None
            self._connect._stopped = fault
            return _build_answer(409, _STALE)
        if fault.kind in _REFUSALS:
            return _build_answer(_REFUSALS[fault.kind], f"simulated: {fault.kind}")
        if self._attempts <= _count_conflicts(fault):
            return _build_answer(409, _STALE)
        return self._strike(fault)

    def _strike(self, fault: Fault) -> HttpResponse | RequestFailure:
        """Send the request, with what goes wrong on the way or on the way back."""
        if fault.kind not in KILLS and fault.kind not in _LOST:
            return self._land_and_stop(fault)
        self._lose(fault)
        if fault.kind in KILLS:
            self._connect._process.kill()
        # The answer is missing at once (a reset), or after the client has waited for it.
        self._connect._timeline.advance(fault.size * 7 % 1 * self._connect._timing.in_flight_seconds)
        return RequestFailure(Phase.SENT, f"simulated: {fault.kind}")

    def _is_out(self) -> bool:
        return self._fault is None and self._connect._timeline.now < self._connect._cluster.outage_until

    def _land(self) -> HttpResponse:
        """Carry the request out, and answer as Connect does."""
        try:
            self._effect()
        except NotFoundError:
            return _build_answer(404, f"Connector {self._name} not found")
        except AlreadyExistsError:
            return _build_answer(409, f"Connector {self._name} already exists")
        return HttpResponse(204)

    def _land_and_stop(self, fault: Fault) -> HttpResponse:
        cluster = self._connect._cluster
        if fault.kind is Kind.SLOW_STATUS:
            cluster.slow_seconds = 50 + fault.size * 50
        answer = self._land()
        cluster.slow_seconds = 0.0
        # Stopped while the answer was on its way. Of the attempts after this one the fault is over.
        self._fault = None
        self._connect._process.play(fault)
        return answer

    def _lose(self, fault: Fault) -> None:
        """Send a request whose answer is lost; it lands now, later, or never."""
        connect, timeline = self._connect, self._connect._timeline
        if fault.kind in (Kind.KILL_LOST, Kind.LOST_NEVER):
            return
        lag = 0.0
        if fault.kind in (Kind.KILL_LATE, Kind.LOST_LATE):
            # It lands as late as it can.
            lag = fault.size * connect._timing.in_flight_seconds
        effect = self._effect
        timeline.at(timeline.now + lag, lambda: _land_late(effect))
        if fault.kind is Kind.KILL_LATE and connect._process.has_spooled:
            timeline.at(timeline.now + lag, lambda: connect._process.report_unjournaled(self._name))
        timeline.advance(0.0)


def _count_conflicts(fault: Fault) -> int:
    """How many attempts get "later" before the fault strikes. The pauses of five attempts fit into the deadline."""
    if fault.kind is Kind.DEADLINE:
        return 1000
    if fault.kind is Kind.LATER:
        return 1 + int(fault.size * 4)
    return int(fault.size * 3 % 1 * 5) if fault.kind in (Kind.KILL_LATE, Kind.LOST_LATE) else 0


def _build_answer(status: int, message: str) -> HttpResponse:
    body = json.dumps({"error_code": status, "message": message}).encode()
    return HttpResponse(status, "application/json", body)


def _land_late(effect: Callable[[], None]) -> None:
    """Carry a late request out; what Connect would have answered is lost."""
    try:
        effect()
    except RejectedError:
        return
