"""The example fleet of `devstack seed`: created once, with more rows in each further call."""

from __future__ import annotations

import dataclasses
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from seamark.devstack.seed import seed_stack
from tests.unit.devstack.test_stack import STACK

RUNNING = {"connector": {"state": "RUNNING"}, "tasks": [{"id": 0, "state": "RUNNING"}]}


class Worker:
    """A Connect worker that accepts every config, and answers 409 to its first request, as one that rebalances does."""

    def __init__(self):
        self.configs = {}
        self.writes = []
        self.requests = 0
        worker = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                worker.requests += 1
                name = self.path.split("/")[2]
                known = name in worker.configs
                self.answer(409 if worker.requests == 1 else 200 if known else 404, RUNNING)

            def do_PUT(self):
                name = self.path.split("/")[2]
                worker.configs[name] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                worker.writes.append(name)
                self.answer(200, {})

            def answer(self, code, body):
                self.send_response(code)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def worker():
    made = Worker()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join(10)


def test_second_seed_adds_rows_and_leaves_connectors_as_they_are(worker, tmp_path):
    connect = dataclasses.replace(STACK.connect["connect"], urls=(worker.url,), plugins=())
    stack = dataclasses.replace(STACK, folder=str(tmp_path), connect={"connect": connect}, postgres=None, s3=None)
    seed_stack(stack, rows=5, say=lambda _: None)
    assert worker.writes == ["log-purchase", "lake-purchase"]
    changed = {name: {"topic": "game-purchase-6"} for name in worker.configs}
    worker.configs = dict(changed)
    seed_stack(stack, rows=3, say=lambda _: None)
    assert worker.configs == changed
    assert len((tmp_path / "purchase.txt").read_text().splitlines()) == 8
