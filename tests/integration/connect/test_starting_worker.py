"""A real worker whose broker hangs while it reads its config topic: its empty list is never an answer."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

import seamark
from seamark.changes.setup import make_setup
from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.connect.caller import Timing
from seamark.connect.client import ConnectClient
from seamark.context import open_context
from seamark.devstack import StackSpec, start_stack
from seamark.devstack.client import ask
from seamark.errors import UnreachableError
from tests.fakes.connect import FILE_SOURCE
from tests.integration.waits import wait_for

pytestmark = pytest.mark.timeout(600)
PAUSE_SECONDS = 20.0
NAMES = ("starting-a", "starting-b")
COMMANDS = (
    ("plan", "-f", "SPEC"),
    ("apply", "-f", "SPEC", "--yes"),
    ("offsets", "orphans", "-o", "name"),
    ("offsets", "purge", "--all", "--yes"),
    ("connectors", "show", NAMES[0]),
    ("connectors", "list", "-o", "name"),
    ("doctor",),
)


class Rig:
    """One broker and one worker with two connectors."""

    def __init__(self, stack, folder):
        self.stack, self.folder = stack, folder
        endpoint = stack.connect["connect"]
        (self.url,) = endpoint.urls
        (self.broker,) = [one for one in stack.servers if one.kind == "broker"]
        (self.worker,) = [one for one in stack.servers if one.kind == "connect"]
        context = {
            "kafka": {"bootstrap.servers": stack.kafka.bootstrap_servers},
            "connect": {
                "connect": {
                    "urls": [self.url],
                    "group_id": endpoint.group_id,
                    "offsets_topic": endpoint.offsets_topic,
                }
            },
            "policy": {"files": [str(folder / "*")]},
            "journal": "file",
            "journal_folder": str(folder / "journal"),
        }
        self.file = folder / "seamark.yaml"
        self.file.write_text(json.dumps({"current": "dev", "contexts": {"dev": context}}))
        (folder / "spec").mkdir()
        with ConnectClient([self.url]) as client:
            for name in NAMES:
                source = folder / f"{name}.txt"
                source.write_text("one\n")
                config = {"connector.class": FILE_SOURCE, "file": str(source), "topic": name, "tasks.max": "1"}
                (folder / "spec" / f"{name}.json").write_text(json.dumps({"name": name, "config": config}))
                client.create_connector(name, config)
            for name in NAMES:
                wait_for(lambda name=name: client.read_offsets(name), bool, f"offsets of {name}")

    def open_fleet(self, _name=None):
        opened = open_context(environ={"SEAMARK_CONFIG": str(self.file)})
        make_setup(opened)
        return seamark.Fleet(opened)

    def run(self, *words):
        out, err = io.StringIO(), io.StringIO()
        session = Session(out=out, err=err, stdin=io.StringIO(), open_fleet=self.open_fleet)
        found = [str(self.folder / "spec") if word == "SPEC" else word for word in words]
        return execute(found, session=session), out.getvalue(), err.getvalue()

    def read_raw(self):
        """What `GET /connectors` says, past the client; None where it does not answer."""
        try:
            with urllib.request.urlopen(f"{self.url}/connectors", timeout=2) as answer:
                return json.load(answer)
        except (OSError, urllib.error.URLError, ValueError):
            return None

    def is_open(self):
        try:
            socket.create_connection(("127.0.0.1", self.worker.port), timeout=1).close()
        except OSError:
            return False
        return True

    @contextmanager
    def start_slowly(self):
        """Restart the worker, and pause its broker for 20 s as soon as the worker's REST port is open."""
        restart = threading.Thread(target=ask, args=(Path(self.stack.folder), "restart", self.worker.name))
        restart.start()
        wait_for(self.is_open, lambda is_open: not is_open, "the worker to end")
        while not self.is_open():
            time.sleep(0.01)
        os.kill(self.broker.pid, signal.SIGSTOP)
        resume = threading.Timer(PAUSE_SECONDS, os.kill, [self.broker.pid, signal.SIGCONT])
        resume.start()
        try:
            yield
        finally:
            resume.cancel()
            os.kill(self.broker.pid, signal.SIGCONT)
            restart.join(180)


@pytest.fixture(scope="module", params=["4.3.1", "3.5.2"])
def rig(request, tmp_path_factory):
    with start_stack(StackSpec(brokers=1, workers=1, connect_versions=(request.param,)), name="starting") as stack:
        yield Rig(stack, tmp_path_factory.mktemp("starting"))


def test_every_answer_is_complete_or_refused(rig):
    found, raw = [], []
    with rig.start_slowly(), ConnectClient([rig.url], timing=Timing(deadline_seconds=2.0)) as client:
        until = time.monotonic() + PAUSE_SECONDS + 10
        while time.monotonic() < until:
            raw.append(rig.read_raw())
            try:
                found.append(sorted(client.read_names()))
                client.read_status(NAMES[0])
            except UnreachableError:
                found.append(None)
    assert [] in raw, "the worker never listed less than it has: this run shows nothing"
    assert None in found
    assert [one for one in found if one not in (None, sorted(NAMES))] == []
    with ConnectClient([rig.url]) as client:
        assert sorted(client.read_names()) == sorted(NAMES)


def test_no_command_acts_on_the_empty_list(rig):
    with ConnectClient([rig.url]) as client:
        before = {name: client.read_offsets(name) for name in NAMES}
    with rig.start_slowly(), ThreadPoolExecutor(max_workers=len(COMMANDS)) as pool:
        ended = dict(zip(COMMANDS, pool.map(lambda words: rig.run(*words), COMMANDS), strict=True))
    for words, (code, out, err) in ended.items():
        assert code in (0, 3, 5, 6) or words == ("doctor",), (words, out, err)
        assert "+ connector/" not in out, (words, out)
        assert "not found" not in err, (words, err)
    assert not ended[COMMANDS[2]][1], "a live connector was listed as an orphan"
    with ConnectClient([rig.url]) as client:
        for name in NAMES:
            # A source that runs again moves forward only.
            assert client.read_offsets(name)[0].offset["position"] >= before[name][0].offset["position"]
