"""A context that knows nothing but the workers' URLs: moved, undone, killed and resumed, on two real workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from confluent_kafka import Producer

import seamark
from seamark.context import JournalKind, Verify, open_context
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UnreachableError
from seamark.offsets.codec.codec import encode_key
from tests.integration.offset_rig import OffsetRig
from tests.integration.offset_tools import JSON, read_writes
from tests.integration.waits import TRIES, says_hindered, wait_for

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.timeout(600)
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
            "SEAMARK_CONTEXTS__DEV__IN_FLIGHT_TIMEOUT": "5s",
        }

    def write_context(self, urls):
        text = json.dumps({"contexts": {"dev": {"connect": {"connect": {"urls": urls}}}}})
        (self.blind / "seamark.yaml").write_text(text)

    def run_seamark(self, *words, failpoint=""):
        """The command line in a process of its own."""
        env = {**os.environ, **self.env, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        env |= {"SEAMARK_FAILPOINT": failpoint} if failpoint else {}
        ended = subprocess.run(
            [sys.executable, "-m", "tests.fault.cli", *words],
            env=env,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        return ended.returncode, ended.stdout, ended.stderr

    def run_unhindered(self, *words, failpoint=""):
        """The same; again where a rebalance kept it from its work. What it left open is finished before."""
        for _ in range(TRIES):
            ended = self.run_seamark(*words, failpoint=failpoint)
            if ended[0] <= 0 or not says_hindered(ended[1] + ended[2]):
                break
            wait_for(self._finish, lambda opened: opened == [], "nothing to be open")
        return ended

    def _finish(self):
        """Resume what is open; gives what was."""
        opened = self.list_open()
        for change in opened:
            self.run_seamark("journal", "resume", change, "--yes")
        return opened

    def list_open(self):
        code, out, err = self.run_seamark("journal", "list", "--state", "open", "-o", "json")
        assert code == 0, err
        return [row["change"] for row in json.loads(out)["items"]]

    def resume(self, change):
        """`journal resume`, again where a rebalance hinders it."""
        for _ in range(TRIES):
            code, out, err = self.run_seamark("journal", "resume", change, "--yes")
            if code == 0 or not says_hindered(out + err):
                break
        assert code == 0, err

    def count_members(self, sink):
        group = f"connect-{sink}"
        return len(self.brokers._admin.describe_consumer_groups([group])[group].result(60).members)

    def add_source(self):
        """A file source that has read its whole file."""
        name, file = self.name("source"), self.folder / "in.txt"
        file.write_text("".join(f"line {number:04d}\n" for number in range(LINES)))
        topic = self.brokers.make_topic(self.name("lines"), partitions=1, **{"cleanup.policy": "delete"})
        config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": topic, **JSON}
        self.client.create_connector(name, config)
        self.await_held(name, {"position": 10 * LINES})
        return name, topic

    def count_rewinds(self, name):
        """How often the half of its file was stored so far. A task that begins there stores what lies behind it."""
        key = encode_key(name, {"filename": str(self.folder / "in.txt")})
        values = read_writes(self.brokers.bootstrap, self.endpoint.offsets_topic, key)
        return sum(value is not None and json.loads(value) == {"position": 5 * LINES} for value in values)

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

        def read(url):
            # Right behind its create a worker that lags does not know it, and in a rebalance none answers.
            try:
                return [one.offset for one in self.client.read_offsets(name, url)]
            except (NotFoundError, UnreachableError) as error:
                return error

        for url in self.endpoint.urls:
            wait_for(
                lambda url=url: read(url), lambda found: found == [offset], f"{name} to hold {offset}, as {url} says"
            )


@pytest.fixture
def rig(stack, tmp_path):
    made = RestRig(stack, tmp_path)
    assert len(made.endpoint.urls) >= 2
    yield made
    made.close()


def read_error(build):
    """Why a plan can't be made; None where it can."""
    try:
        build()
    except SeamarkError as error:
        return error
    return None


def await_error(build, kind, words):
    """A plan is refused so. In a rebalance there may be another reason for a while."""
    return wait_for(
        lambda: read_error(build), lambda found: isinstance(found, kind) and words in found.message, f"no plan: {words}"
    )


def check_again(found, already, wanted):
    """These came behind those that were there. Where a rebalance ended the task before it had stored its place, Connect
    itself delivers them once more, and all of them."""
    again = found[already:]
    assert list(dict.fromkeys(again)) == wanted
    assert len(again) % len(wanted) == 0, again


def test_the_context_has_only_urls_and_says_what_that_means(rig):
    context = open_context(environ=rig.env)
    assert (context.has_brokers, context.verify, context.journal.kind) == (False, Verify.REST, JournalKind.FILE)
    name, _ = rig.add_source()
    code, out, err = rig.run_unhindered("offsets", "move", name, "--to", "500", "--dry-run")
    assert code == 0, err
    assert "two workers must agree" in out
    assert "not as bytes" in out
    assert "reprocessed" in out
    # One of two must answer is not enough.
    rig.write_context([rig.endpoint.urls[0], "http://127.0.0.1:9"])
    with seamark.Fleet(open_context(environ=rig.env)) as fleet:
        await_error(lambda: fleet.offsets.move(name, to=500), UnreachableError, "1 of 2 workers")


class Liar(BaseHTTPRequestHandler):
    """Stands before a worker and passes on what it says, but for the offsets while it `lies`."""

    worker, lies = "", True

    def do_GET(self):
        try:
            with urllib.request.urlopen(f"{self.worker}{self.path}", timeout=60) as answer:
                status, body = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            # In a rebalance.
            status, body = error.code, error.read()
        if self.lies and self.path.endswith("/offsets"):
            body = body.replace(f'"position":{10 * LINES}'.encode(), b'"position":7')
        self.send_response(status)
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
        refused = await_error(
            lambda: fleet.offsets.move(name, to=500), RefusedError, "two workers returned different offsets"
        )
        assert url in refused.cause
        assert "in.txt" in refused.cause
        handler.lies = False
        assert not rig.plan(lambda: fleet.offsets.move(name, to=500)).is_empty


def test_a_source_and_a_sink_are_moved_and_undone(rig):
    source, _ = rig.add_source()
    sink, _ = rig.add_sink()
    cases = (
        (source, ("--to", "500"), {"position": 500}, {"position": 10 * LINES}),
        (sink, ("--shift", "-3"), {"kafka_offset": RECORDS - 3}, {"kafka_offset": RECORDS}),
    )
    for name in (source, sink):
        rig.stop(name)
    wait_for(lambda: rig.count_members(sink), lambda count: count == 0, f"the group of {sink} to be empty")
    for name, how, after, before in cases:
        raw = rig.read_raw(name)
        code, out, err = rig.run_unhindered("offsets", "move", name, *how, "--yes", "-o", "json")
        assert code == 0, err
        rig.await_held(name, after)
        change = json.loads(out)["change"]
        code, _, err = rig.run_unhindered("journal", "undo", change, "--yes")
        assert code == 0, err
        rig.await_held(name, before)
        assert rig.read_raw(name) == raw, "the same JSON, and here the same bytes"
        # A neighbour's rebalance shows it UNASSIGNED for a moment.
        wait_for(
            lambda name=name: rig.client.read_status(name).state,
            lambda state: state == "STOPPED",
            f"{name} to be stopped",
        )
    journal = rig.blind / "state" / "seamark" / "journal" / "dev"
    assert journal.is_dir(), "the journal is in files"
    code, out, _ = rig.run_seamark("journal", "list", "-o", "json")
    assert code == 0
    # Beside them may be some that a rebalance hindered.
    assert [row["state"] for row in json.loads(out)["items"]].count("done") == 2 * len(cases)


@pytest.mark.parametrize("point", POINTS)
def test_what_was_killed_is_finished_by_resume(rig, point):
    name, topic = rig.add_source()
    already, rewinds = len(rig.brokers.read_values(topic)), rig.count_rewinds(name)
    code, _, err = rig.run_unhindered("offsets", "move", name, "--to", "500", "--yes", failpoint=f"{point}:kill")
    assert code == -signal.SIGKILL, (code, err)
    (change,) = rig.list_open()
    rig.resume(change)
    # It went on from there, once: half of its lines are in the topic twice.
    wait_for(lambda: rig.client.read_status(name).state, lambda state: state == "RUNNING", f"{name} to run")
    half = LINES // 2
    wait_for(lambda: len(rig.brokers.read_values(topic)), lambda count: count >= already + half, "the lines again")
    rig.await_held(name, {"position": 10 * LINES})
    check_again(rig.brokers.read_values(topic), already, [f"line {number:04d}" for number in range(half, LINES)])
    assert rig.count_rewinds(name) == rewinds + 1


def test_a_sink_that_was_killed_before_its_write_is_finished_by_resume(rig):
    name, out_file = rig.add_sink()
    already = len(out_file.read_text().split())
    code, _, err = rig.run_unhindered("offsets", "move", name, "--to", "5", "--yes", failpoint="after-intent:3:kill")
    assert code == -signal.SIGKILL, (code, err)
    (change,) = rig.list_open()
    rig.resume(change)
    again = RECORDS - 5
    wait_for(lambda: len(out_file.read_text().split()), lambda count: count >= already + again, "the records again")
    rig.await_held(name, {"kafka_offset": RECORDS})
    check_again(out_file.read_text().split(), already, [str(number) for number in range(5, RECORDS)])
