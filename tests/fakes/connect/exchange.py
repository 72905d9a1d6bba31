"""One request against the state, with the fault that was asked for."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from dataclasses import dataclass, field, replace

from tests.fakes.connect import routes
from tests.fakes.connect.faults import Answer, Change, Delay, Drop, Faults, Page, Raw, Redirect
from tests.fakes.connect.message import Recorded, Reply, Request
from tests.fakes.connect.starting import Starts
from tests.fakes.connect.state import FakeState
from tests.fakes.connect.worker import Setup


class Dropped(Exception):  # noqa: N818 - it is what was asked for
    """The connection shall break now."""


@dataclass(slots=True)
class Exchange:
    """What every connection of every worker goes through. One request at a time touches the state."""

    state: FakeState
    setup: Setup
    faults: Faults
    requests: deque[Recorded]
    starts: Starts
    credentials: str = ""
    lock: threading.RLock = field(default_factory=threading.RLock)
    # What went wrong in the fake itself, which no test may take for an answer of Connect.
    crashes: list[str] = field(default_factory=list)

    def serve(self, request: Request) -> Reply:
        """The reply to a request.

        Raises:
            Dropped: a fault breaks the connection instead.
        """
        try:
            reply = self._serve(request)
        except Dropped:
            self._record(request, 0)
            raise
        except Exception as error:
            self.crashes.append(f"{request.method} {request.path}: {error!r}")
            raise
        self._record(request, reply.status)
        return reply

    def _serve(self, request: Request) -> Reply:
        if self.credentials and request.authorization != self.credentials:
            return Reply(401, b"User cannot access the resource.", "text/plain")
        match self.faults.take(request):
            case None:
                return self._answer(request)
            case Delay(seconds):
                time.sleep(seconds)
                return self._answer(request)
            case Drop(applied):
                if applied:
                    self._answer(request)
                raise Dropped
            case Change(change):
                reply = self._answer(request)
                return replace(reply, body=json.dumps(change(json.loads(reply.body))).encode())
            case Answer() | Raw() as action:
                if action.applied:
                    self._answer(request)
                return action.reply()
            case Page() | Redirect() as action:
                return action.reply()

    def _answer(self, request: Request) -> Reply:
        # Outside the lock: other workers go on while a request waits for one that starts.
        late = self.starts.wait(request) if routes.has_route(request, self.setup) else None
        if late is not None:
            return late
        with self.lock:
            return routes.answer(request, state=self.starts.find_view(request, self.state), setup=self.setup)

    def _record(self, request: Request, status: int) -> None:
        self.requests.append(Recorded(request.worker, request.method, request.path, request.body, status))
