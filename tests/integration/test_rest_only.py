"""A context that knows nothing but the workers' URLs: moved, undone, killed and resumed, on two real workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from confluent_kafka import Producer

import seamark
from seamark.context import JournalKind, Verify, open_context
from seamark.errors import RefusedError, UnreachableError
from tests.integration.offset_rig import OffsetRig
from tests.integration.offset_tools import JSON
from tests.integration.waits import wait_for

ROOT = Path(__file__).parents[2]
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
LINES, RECORDS = 100, 20
# The steps of a move: stop 0 · prove 1 · count 2 · write 3 · verify 4 · resume 5.
POINTS = ("after-perform:0", "after-intent:3", "after-perform:3", "after-outcome:4", "after-perform:5")


class RestRig(OffsetRig):
    """Commands in a context of URLs alone; the rig's own one, with brokers, looks at what they did."""

    def __init__(self, stack, folder):
        super().__init__(stack, folder / "seeing")
        self.blind = folder / "blind"
        self.blind.mkdir()
        self.write_context(list(self.endpoint.urls))
        self.env = {
            "SEAMARK_CONFIG": str(self.blind / "seamark.yaml"),
            "XDG_STATE_HOME": str(self.blind / "state"),
            # As always in tests: a request without an answer is settled within seconds.
            "SEAMARK_CONTEXTS__DEV__IN_FLIGHT": "5s",
        }

    def write_context(self, urls):
        text = json.dumps({"contexts": {"dev": {"connect": {"connect": {"urls": urls}}}}})
        (self.blind / "seamark.yaml").write_text(text)

    def run_seamark(self, *words, failpoint=""):
        """The command line in a process of its own."""
        env = {**os.environ, **self.env, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        env |= {"SEAMARK_FAILPOINT": failpoint} if failpoint else {}
        ended = subprocess.run(
            [sys.executable, "-m", "seamark.cli", *words],
            env=env,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        return ended.returncode, ended.stdout, ended.stderr

    def add_source(self):
        """A file source that has read its whole file."""
        name, file = self.name("source"), self.folder / "in.txt"
        file.write_text("".join(f"line {number:04d}\n" for number in range(LINES)))
        topic = self.brokers.make_topic(self.name("lines"), partitions=1, **{"cleanup.policy": "delete"})
        config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": topic, **JSON}
        self.client.create_connector(name, config)
        self.await_held(name, {"position": 10 * LINES})
        return name, topic

    def add_sink(self):
        """A file sink that has read its whole topic."""
        name = self.name("sink")
        topic = self.brokers.make_topic(self.name("events"), partitions=1, **{"cleanup.policy": "delete"})
        producer = Producer({"bootstrap.servers": self.stack.kafka.bootstrap_servers})
        for number in range(RECORDS):
            producer.produce(topic, json.dumps(number).encode())
        assert producer.flush(30) == 0
        out = self.folder / "out.txt"
        self.client.create_connector(
            name, {"connector.class": SINK, "tasks.max": "1", "file": str(out), "topics": topic, **JSON}
        )
        self.await_held(name, {"kafka_offset": RECORDS})
        return name, out

    def await_held(self, name, offset):
        """What every worker says."""
        for url in self.endpoint.urls:
            wait_for(
                lambda url=url: [one.offset for one in self.client.read_offsets(name, url)],
                lambda found: found == [offset],
                f"{name} to hold {offset}, as {url} says",
            )


@pytest.fixture
def rig(stack, tmp_path):
    made = RestRig(stack, tmp_path)
    assert len(made.endpoint.urls) >= 2
    yield made
    made.close()


def test_the_context_has_only_urls_and_says_what_that_means(rig):
    context = open_context(environ=rig.env)
    assert (context.has_brokers, context.verify, context.journal.kind) == (False, Verify.REST, JournalKind.FILE)
    name, _ = rig.add_source()
    code, out, err = rig.run_seamark("offsets", "move", name, "--to", "500", "--dry-run")
    assert code == 0, err
    assert "two workers must agree" in out
    assert "not to the byte" in out
    assert "read again" in out
    # One of two must answer is not enough.
    rig.write_context([rig.endpoint.urls[0], "http://127.0.0.1:9"])
    with seamark.Fleet(open_context(environ=rig.env)) as fleet, pytest.raises(UnreachableError, match="1 of 2 workers"):
        fleet.offsets.move(name, to=500)


class Liar(BaseHTTPRequestHandler):
    """Stands before a worker and passes on what it says, but for the offsets while it `lies`."""

    worker, lies = "", True

    def do_GET(self):
        with urllib.request.urlopen(f"{self.worker}{self.path}", timeout=60) as answer:
            body = answer.read()
        if self.lies and self.path.endswith("/offsets"):
            body = body.replace(f'"position":{10 * LINES}'.encode(), b'"position":7')
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


@pytest.fixture
def liar(rig):
    handler = type("OneLiar", (Liar,), {"worker": rig.endpoint.urls[1]})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield handler, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_two_workers_who_differ_are_asked_again_and_then_refused(rig, liar):
    handler, url = liar
    name, _ = rig.add_source()
    rig.stop(name)
    rig.write_context([rig.endpoint.urls[0], url])
    with seamark.Fleet(open_context(environ=rig.env)) as fleet:
        with pytest.raises(RefusedError, match="two workers say different things") as refused:
            fleet.offsets.move(name, to=500)
        assert url in refused.value.cause
        assert "in.txt" in refused.value.cause
        handler.lies = False
        assert not fleet.offsets.move(name, to=500).is_empty


def test_a_source_and_a_sink_are_moved_and_undone(rig):
    source, _ = rig.add_source()
    sink, _ = rig.add_sink()
    cases = (
        (source, ("--to", "500"), {"position": 500}, {"position": 10 * LINES}),
        (sink, ("--shift", "-3"), {"kafka_offset": RECORDS - 3}, {"kafka_offset": RECORDS}),
    )
    for name in (source, sink):
        rig.stop(name)
    for name, how, after, before in cases:
        raw = rig.read_raw(name)
        code, out, err = rig.run_seamark("offsets", "move", name, *how, "--yes", "-o", "json")
        assert code == 0, err
        rig.await_held(name, after)
        change = json.loads(out)["change"]
        code, _, err = rig.run_seamark("journal", "undo", change, "--yes")
        assert code == 0, err
        rig.await_held(name, before)
        assert rig.read_raw(name) == raw, "the same JSON, and here the same bytes"
        assert rig.client.read_status(name).state == "STOPPED"
    journal = rig.blind / "state" / "seamark" / "journal" / "dev"
    assert journal.is_dir(), "the journal is in files"
    code, out, _ = rig.run_seamark("journal", "list", "-o", "json")
    assert code == 0
    assert len(json.loads(out)["items"]) == 2 * len(cases)


@pytest.mark.parametrize("point", POINTS)
def test_what_was_killed_is_finished_by_resume(rig, point):
    name, topic = rig.add_source()
    code, _, err = rig.run_seamark("offsets", "move", name, "--to", "500", "--yes", failpoint=f"{point}:kill")
    assert code == -signal.SIGKILL, (code, err)
    code, out, err = rig.run_seamark("journal", "list", "--open", "-o", "json")
    assert code == 0, err
    (change,) = json.loads(out)["items"]
    code, _, err = rig.run_seamark("journal", "resume", change["change"], "--yes")
    assert code == 0, err
    # It went on from there, once: half of its lines are in the topic twice.
    wait_for(lambda: rig.client.read_status(name).state, lambda state: state == "RUNNING", f"{name} to run")
    rig.await_held(name, {"position": 10 * LINES})
    wait_for(lambda: len(rig.brokers.read_values(topic)), lambda count: count >= LINES * 3 // 2, "the lines again")
    assert len(rig.brokers.read_values(topic)) == LINES * 3 // 2


def test_a_sink_that_was_killed_before_its_write_is_finished_by_resume(rig):
    name, out_file = rig.add_sink()
    code, _, err = rig.run_seamark("offsets", "move", name, "--to", "5", "--yes", failpoint="after-intent:3:kill")
    assert code == -signal.SIGKILL, (code, err)
    code, out, err = rig.run_seamark("journal", "list", "--open", "-o", "json")
    assert code == 0, err
    (change,) = json.loads(out)["items"]
    code, _, err = rig.run_seamark("journal", "resume", change["change"], "--yes")
    assert code == 0, err
    again = RECORDS + RECORDS - 5
    wait_for(lambda: len(out_file.read_text().split()), lambda count: count >= again, "the records again")
    rig.await_held(name, {"kafka_offset": RECORDS})
    assert len(out_file.read_text().split()) == again
