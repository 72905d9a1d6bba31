"""A Connect worker seen through a proxy that notes every request that changes something, before it passes it on."""

from __future__ import annotations

import http.client
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

# Connect's own limit is 90 s; nobody shall get an answer from here that Connect did not give.
ANSWER_SECONDS = 100


@dataclass(frozen=True)
class Request:
    """When a request came in, what it was, and what Connect answered; None if nobody heard."""

    at: float
    verb: str
    name: str
    status: int | None


class QuietServer(ThreadingHTTPServer):
    """A server for those who are killed in the middle of a sentence."""

    def handle_error(self, request, client_address):
        """Nothing: that a connection was reset is what the run is about."""


@dataclass
class Proxy:
    """Passes requests on to one worker, and keeps those that change something by the connector's name."""

    target: str
    requests: dict[str, list[Request]] = field(default_factory=dict)

    def __enter__(self):
        self._server = QuietServer(("127.0.0.1", 0), _build_handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_address[1]}"


def _build_handler(proxy):
    where = urlsplit(proxy.target)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            """Nothing."""

        def _pass_on(self):
            came_at = time.time()
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status = None
            try:
                status = self._ask(body)
            except (OSError, http.client.HTTPException):
                # Who asked was killed, or the worker did not answer; either way no answer goes back.
                self.close_connection = True
            finally:
                if self.command != "GET":
                    parts = urlsplit(self.path).path.split("/")
                    request = Request(came_at, verb=parts[-1], name=parts[2], status=status)
                    proxy.requests.setdefault(request.name, []).append(request)

        def _ask(self, body):
            connection = http.client.HTTPConnection(where.hostname, where.port, timeout=ANSWER_SECONDS)
            try:
                headers = {key: value for key, value in self.headers.items() if key.lower() != "host"}
                connection.request(self.command, self.path, body=body or None, headers=headers)
                answer = connection.getresponse()
                data = answer.read()
            finally:
                connection.close()
            status = answer.status
            self.send_response(status)
            for key in ("Content-Type", "Location"):
                if value := answer.getheader(key):
                    self.send_header(key, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            return status

        do_GET = do_PUT = do_POST = do_DELETE = _pass_on  # noqa: N815

    return Handler
