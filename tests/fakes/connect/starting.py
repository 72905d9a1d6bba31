"""A worker of the fake between the opening of its REST port and the end of its start.

Connect's REST API serves requests while the herder's thread still reads the internal topics. The list of connectors,
a status, the used topics, pause and resume are answered from what was read so far; every other request about a
connector, and `GET /health`, waits for the herder's thread. Taken from `AbstractHerder`, `DistributedHerder.run` and
`RootResource.healthCheck` of Connect 3.5.2 and 4.3.1.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, field

from tests.fakes.connect import texts
from tests.fakes.connect.message import Reply, Request, build_error, build_json
from tests.fakes.connect.state import FakeState

_DIRECT = frozenset({"status", "topics", "pause", "resume"})


@dataclass(slots=True)
class Start:
    """The start of one worker: the connectors that it has read so far, and whether the start is over."""

    names: frozenset[str] = frozenset()
    is_over: threading.Event = field(default_factory=threading.Event)


class Starts:
    """The workers of a fake cluster that have not started yet."""

    def __init__(self, wait_seconds: float) -> None:
        """`wait_seconds` is how long a request waits for the herder's thread: 10 s and 90 s in Connect."""
        self._wait_seconds = wait_seconds
        self._starts: dict[int, Start] = {}

    def begin(self, worker: int, names: Collection[str]) -> None:
        """Mark a worker as starting."""
        self._starts[worker] = Start(frozenset(names))

    def finish(self, worker: int) -> None:
        """Let a worker be ready; requests that wait for it are answered."""
        start = self._starts.pop(worker, None)
        if start is not None:
            start.is_over.set()

    def find_view(self, request: Request, state: FakeState) -> FakeState:
        """Return what a worker knows when it answers: the state of the cluster, or less while it starts."""
        start = self._starts.get(request.worker)
        if start is None or not _is_direct(request):
            return state
        known = {name: connector for name, connector in state.connectors.items() if name in start.names}
        return FakeState(state.status_lag_seconds, connectors=known)

    def wait(self, request: Request) -> Reply | None:
        """Wait for the herder's thread where the request needs it; the reply where the wait was too long."""
        start = self._starts.get(request.worker)
        if start is None or not _is_queued(request) or start.is_over.wait(self._wait_seconds):
            return None
        if request.segments == ("health",):
            return build_json(503, {"status": "starting", "message": texts.STARTING})
        return build_error(500, texts.TIMED_OUT_STARTING)


def _is_direct(request: Request) -> bool:
    segments = request.segments
    is_list = request.method == "GET" and segments == ("connectors",)
    return is_list or (len(segments) == 3 and segments[0] == "connectors" and segments[2] in _DIRECT)


def _is_queued(request: Request) -> bool:
    return request.segments[:1] in (("connectors",), ("health",)) and not _is_direct(request)
