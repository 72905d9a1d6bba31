"""A Connect worker seen through a proxy that notes every request that changes something, before it passes it on.

It can also lose answers: then whoever asked does not know whether it happened.
"""

from __future__ import annotations

import http.client
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

# Connect's own limit is 90 s; nobody shall get an answer from here that Connect did not give.
ANSWER_SECONDS = 100
# What becomes of a request: it is carried out and the answer never comes, breaks off in its midst, or is a 500 of a
# proxy or of Connect; or the request itself never reaches Connect, and nobody or a 500 or a 409 says so.
LOST, CUT, ERROR, GATEWAY, UNHEARD = "lost", "cut", "500 after", "504 after", "unheard"
EARLY, BUSY = "500 before", "409"
# By these words Connect says that nothing was begun, or that the same may be sent again: so seamark does.
NOT_BEGUN = (
    "Cannot complete request",
    "because a rebalance is expected",
    "Connection refused",
    "can be safely retried",
)


@dataclass(frozen=True)
class Request:
    """When a request came in, what it was, and what Connect answered; None if nobody heard."""

    at: float
    verb: str
    name: str
    status: int | None
    said: str = ""
    spoiled: str = ""

    @property
    def may_be_repeated(self):
        """Whether it was answered so that the same may be sent again on the word of the same intent."""
        told = self.status in (404, 409) or (self.status == 500 and any(words in self.said for words in NOT_BEGUN))
        return told and not self.spoiled


class QuietServer(ThreadingHTTPServer):
    """A server for those who are killed in the middle of a sentence."""

    daemon_threads = True
    allow_reuse_address = True
    # Many lanes ask at once.
    request_queue_size = 128

    def handle_error(self, request, client_address):
        """Nothing: that a connection was reset is what the run is about."""


@dataclass
class Proxy:
    """Passes requests on to one worker, and keeps those that change something by the connector's name.

    `spoil` says for a connector and a verb what shall become of the answer; "" leaves it alone.
    """

    target: str
    requests: dict[str, list[Request]] = field(default_factory=dict)
    spoil: Callable[[str, str], str] = lambda _name, _verb: ""

    def __enter__(self):
        self._port = 0
        self.open()
        return self

    def __exit__(self, *_):
        self.close()

    def open(self):
        """Listen; again on the same port if it did before."""
        self._server = QuietServer(("127.0.0.1", self._port), type("Handler", (Handler,), {"proxy": self}))
        self._port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self):
        """Refuse connections, as the port of a dead worker does."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    @property
    def url(self):
        return f"http://127.0.0.1:{self._port}"


class Handler(BaseHTTPRequestHandler):
    """Passes one request on. `proxy` is set by the server's own class of it."""

    protocol_version = "HTTP/1.1"
    proxy = None
    # The connection to the worker lives as long as the one to the client: seamark takes answers over one connection
    # for those of one process.
    _worker = None

    def log_message(self, *_):
        """Nothing."""

    def handle(self):
        self.handle_one_request()
        while not self.close_connection and self._has_next():
            self.handle_one_request()

    def finish(self):
        super().finish()
        if self._worker is not None:
            self._worker.close()

    def _has_next(self):
        """Wait for the next request; False where the worker has ended its connection, as one does that dies."""
        worker = self._worker.sock if self._worker is not None else None
        if worker is None:
            return False
        return select.select([self.connection, worker], [], [], ANSWER_SECONDS)[0] == [self.connection]

    def _pass_on(self):
        came_at = time.time()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parsed = urlsplit(self.path)
        # What a follower forwards to the leader is the same request once more.
        if self.command == "GET" or "forward=" in parsed.query:
            self._answer(*self._ask(body))
            return
        parts = parsed.path.split("/")
        verb, name = parts[-1], parts[2]
        status, said, spoiled = None, b"", self.proxy.spoil(name, verb)
        try:
            status, said, kept = self._ask(body) if spoiled not in (UNHEARD, EARLY, BUSY) else (None, b"", {})
            if spoiled:
                self.close_connection = True
                self._spoil(spoiled, said)
            else:
                self._answer(status, said, kept)
        finally:
            heard = None if spoiled else status
            request = Request(came_at, verb, name, heard, said[:300].decode(errors="replace"), spoiled)
            self.proxy.requests.setdefault(name, []).append(request)

    def _ask(self, body):
        if self._worker is None:
            where = urlsplit(self.proxy.target)
            self._worker = http.client.HTTPConnection(where.hostname, where.port, timeout=ANSWER_SECONDS)
        headers = {key: value for key, value in self.headers.items() if key.lower() != "host"}
        self._worker.request(self.command, self.path, body=body or None, headers=headers)
        answer = self._worker.getresponse()
        data = answer.read()
        self.close_connection |= answer.will_close
        kept = {key: value for key in ("Content-Type", "Location") if (value := answer.getheader(key))}
        return answer.status, data, kept

    def _answer(self, status, data, headers):
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _spoil(self, way, said):
        if way == BUSY:
            told = b'{"error_code":409,"message":"Cannot complete request momentarily due to stale configuration"}'
            self._answer(409, told, {"Content-Type": "application/json"})
        elif way in (ERROR, EARLY):
            told = b'{"error_code":500,"message":"Request timed out. The worker is currently busy"}'
            self._answer(500, told, {"Content-Type": "application/json"})
        elif way == GATEWAY:
            self._answer(504, b"<html>gateway timeout</html>", {"Content-Type": "text/html"})
        else:
            if way == CUT:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n" + said[:20])
                self.wfile.flush()
            # With nothing to linger for, closing resets the connection.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = _pass_on  # noqa: N815


def write_context(stack, folder, proxies):
    """The stack's context, with the proxies in the place of the workers."""
    text = Path(stack.context_file).read_text()
    for proxy in proxies:
        text = text.replace(proxy.target, proxy.url)
    path = folder / "seamark.yaml"
    path.write_text(text)
    return path
