"""FakeConnect: a Connect cluster in threads of this process, for what a real one can't be brought to do."""

from __future__ import annotations

import base64
import socket
import threading
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from seamark.errors import DevstackError
from tests.fakes.connect.exchange import Dropped, Exchange
from tests.fakes.connect.faults import Faults
from tests.fakes.connect.message import Recorded, Reply, Request, split_target
from tests.fakes.connect.plugins import FILE_SOURCE, PluginSpec, default_plugins, find_plugin
from tests.fakes.connect.starting import Starts
from tests.fakes.connect.state import FakeState, Shown
from tests.fakes.connect.worker import Setup

# A test looks at its last requests; a simulation makes millions.
_REQUESTS_KEPT = 10_000


class FakeConnect:
    """A fake Connect cluster of `workers` workers on free ports of this machine. Use it in `with`.

    It answers like the version it is given, texts and statuses included; the contract tests hold it to real ones. What
    a real one can't be brought to do is added by `faults`. The first worker is the leader.
    """

    def __init__(
        self,
        *,
        version: str = "4.3.1",
        workers: int = 1,
        status_lag_seconds: float = 0.0,
        topic_tracking: bool = True,
        clock_skew_seconds: float = 0.0,
        plugins: Sequence[PluginSpec] | None = None,
        username: str | None = None,
        password: str | None = None,
        herder_wait_seconds: float = 10.0,
    ) -> None:
        """Open the ports; `with` starts to answer. `status_lag_seconds` is how far the status topic is behind.

        `herder_wait_seconds` is how long a request waits for the herder's thread of a worker that starts.
        """
        self.faults = Faults()
        self.state = FakeState(status_lag_seconds)
        self.requests: deque[Recorded] = deque(maxlen=_REQUESTS_KEPT)
        self._servers = tuple(_WorkerServer(number) for number in range(workers))
        ids = tuple(f"127.0.0.1:{server.server_port}" for server in self._servers)
        known = tuple(plugins) if plugins is not None else default_plugins(version)
        self.setup = Setup(version, ids, known, topic_tracking=topic_tracking, clock_skew_seconds=clock_skew_seconds)
        self._starts = Starts(herder_wait_seconds)
        credentials = _credentials(username, password)
        exchange = Exchange(self.state, self.setup, self.faults, self.requests, self._starts, credentials)
        for server in self._servers:
            server.exchange = exchange
        self._exchange = exchange
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._threads = [
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
            for server in self._servers
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in range(len(self._servers)):
            self.kill(number)
        if self._exchange.crashes and kind is None:
            crashes = "; ".join(self._exchange.crashes)
            self._exchange.crashes.clear()
            raise DevstackError("FakeConnect is broken", cause=crashes)

    @property
    def urls(self) -> tuple[str, ...]:
        """The workers' URLs, the leader's first."""
        return tuple(f"http://{worker_id}" for worker_id in self.setup.worker_ids)

    def kill(self, worker: int) -> None:
        """End one worker: its port is closed and its connections break. The rest keeps the state."""
        server = self._servers[worker]
        if self._threads and self._threads[worker].is_alive():
            server.shutdown()
            self._threads[worker].join(5)
        server.server_close()
        server.break_connections()

    def restart(self, worker: int = 0, *, known: Collection[str] = ()) -> None:
        """Break a worker's connections and have it start: it has read only the connectors `known` so far."""
        # Under the lock, so that no connection leads to the process before and to the one after the restart.
        with self._exchange.lock:
            self._starts.begin(worker, known)
            self._servers[worker].break_connections()

    def finish_start(self, worker: int = 0) -> None:
        """End the start of a worker: it has read its internal topics and has joined the worker group."""
        self._starts.finish(worker)

    def add_connector(
        self,
        name: str,
        config: Mapping[str, str] | None = None,
        *,
        state: str = "RUNNING",
        tasks: Sequence[str] | None = None,
        trace: str = "",
        task_traces: Sequence[str] = (),
        offsets: Sequence[dict[str, Any]] = (),
    ) -> None:
        """Put a connector there without asking, in any state at all, visible at once.

        `tasks` are the tasks' states; without them they follow from `state` and `tasks.max`. Words that Connect does
        not know are fine: that is what they are for.
        """
        wanted: dict[str, str | None] = {"connector.class": FILE_SOURCE, "topic": name, **(config or {}), "name": name}
        class_name = str(wanted["connector.class"])
        plugin = find_plugin(self.setup.plugins, class_name) or PluginSpec(class_name, "source", "")
        with self._exchange.lock:
            self.state.put(name, wanted, plugin, target=state if state in ("PAUSED", "STOPPED") else "RUNNING")
            connector = self.state.connectors[name]
            shown = connector.pending or Shown(state)
            states = tuple(tasks) if tasks is not None else (state,) * len(shown.tasks)
            connector.task_count = connector.last_task_count = len(states)
            connector.pending = None
            connector.shown = Shown(state, states, trace, tuple(task_traces))
            if offsets:
                self.state.set_offsets(name, offsets)

    def fill(self, count: int, *, config: Mapping[str, str] | None = None, prefix: str = "fill-") -> None:
        """Add `count` running connectors."""
        for number in range(count):
            self.add_connector(f"{prefix}{number:05d}", config)

    def asked(self, pattern: str = "") -> list[str]:
        """What was asked so far, as "METHOD /path", where `pattern` is in it."""
        lines = [f"{recorded.method} {recorded.path}" for recorded in list(self.requests)]
        return [line for line in lines if pattern in line]


def _credentials(username: str | None, password: str | None) -> str:
    if username is None:
        return ""
    return "Basic " + base64.b64encode(f"{username}:{password or ''}".encode()).decode()


class _WorkerServer(ThreadingHTTPServer):
    """One port. Keeps its connections, so that they can be broken."""

    daemon_threads = True
    block_on_close = False
    # A thousand callers at once are a test, not an attack.
    request_queue_size = 128
    exchange: Exchange

    def __init__(self, number: int) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.number = number
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is what faults are for; it is nothing to print."""

    def break_connections(self) -> None:
        """Close every connection that is still open."""
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


class _Connection(BaseHTTPRequestHandler):
    """HTTP on one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    # Long beside any test; a connection that nobody uses must not keep a thread for ever.
    timeout = 300
    server: _WorkerServer

    def _serve(self) -> None:
        segments, query = split_target(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        request = Request(
            worker=self.server.number,
            method=self.command,
            path=self.path,
            segments=segments,
            query=query,
            content_type=self.headers.get("Content-Type") or "",
            body=self.rfile.read(length) if length else b"",
            authorization=self.headers.get("Authorization") or "",
        )
        try:
            reply = self.server.exchange.serve(request)
        except Dropped:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.wfile.write(_render(reply, skew_seconds=self.server.exchange.setup.clock_skew_seconds))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - the names are http.server's

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is http.server's
        """Say nothing; `requests` has it."""


def _render(reply: Reply, *, skew_seconds: float) -> bytes:
    """Status line, headers and body in one piece: two writes would wait for each other on the way."""
    lines = [f"HTTP/1.1 {reply.status} Fake", f"Date: {formatdate(time.time() + skew_seconds, usegmt=True)}"]
    if reply.content_type:
        lines.append(f"Content-Type: {reply.content_type}")
    lines += [f"{key}: {value}" for key, value in reply.headers]
    if reply.status != 204:
        lines.append(f"Content-Length: {len(reply.body)}")
    return "\r\n".join([*lines, "", ""]).encode() + reply.body
