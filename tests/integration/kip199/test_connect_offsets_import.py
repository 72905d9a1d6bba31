"""`connect-offsets --import` on real workers: distributed, standalone, up, down and absent."""

from __future__ import annotations

import io
import json
import re
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from seamark.cli.connect_offsets import execute
from seamark.cli.session import Session
from seamark.devstack.downloads import connect_jars
from seamark.devstack.java import PluginFolder
from seamark.devstack.process import PortReservation, RunningServer
from seamark.devstack.servers.connect import build_cluster, build_standalone
from tests.integration.offset_tools import Brokers, Connect, new_name

LINES = "one\ntwo\nthree\n"
END, SECOND = {"position": len(LINES)}, {"position": 4}
DEADLINE_SECONDS = 120


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """A journal of files is the test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def brokers(stack):
    made = Brokers(stack.kafka.bootstrap_servers)
    yield made
    made.clean()


@pytest.fixture
def source(tmp_path):
    file = tmp_path / "in.txt"
    file.write_text(LINES)
    return file


class Tool:
    """The program with one worker's properties."""

    def __init__(self, config):
        self.config = config

    def run(self, *argv, text=""):
        """What it says. It refuses what it can't tell the state of, and a neighbour's rebalance hides that: again."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while " is UNASSIGNED " in (ended := self.run_once(*argv, text=text))[2] and time.monotonic() < deadline:
            time.sleep(0.5)
        return ended

    def run_once(self, *argv, text):
        out, err = io.StringIO(), io.StringIO()
        session = Session(out=out, err=err, stdin=io.StringIO(text))
        code = execute([*argv, f"--config={self.config}"], session=session)
        return code, out.getvalue(), err.getvalue()

    def give(self, name, file, offset, *argv):
        wanted = {name: [{"partition": {"filename": str(file)}, "offset": offset}]}
        return self.run("--import", *argv, text=json.dumps(wanted))

    def held(self, name):
        code, out, _ = self.run("--export", f"--connectors={name}")
        assert code == 0
        return [pair["offset"] for pair in json.loads(out).get(name, [])]


def check_read_on(values, already, lines):
    """It delivered these lines, and none before them. A rebalance may let Connect deliver the same once more."""
    new = values[already:]
    assert new[: len(lines)] == lines, values
    assert set(new) == set(lines), values


def find_change(said):
    return re.search(r"--undo=(\w+)", said)[1]


def wait_until(is_done, say):
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_done():
        assert time.monotonic() < deadline, say()
        time.sleep(0.2)


@contextmanager
def started(server):
    running = RunningServer(server)
    try:
        wait_until(lambda: server.is_ready(running), lambda: f"the worker is not ready: {running.log_tail()}")
        yield running
    finally:
        running.end(grace_seconds=30)


def lay_out(folder):
    (folder / "logs").mkdir()
    (folder / "plugins").mkdir()
    return PluginFolder(folder / "plugins", names=(), missing=(), has_manifests=True)


@pytest.mark.parametrize(("cluster", "way"), [("connect", "through REST"), ("connect-3-5-2", "in its topic")])
def test_a_stopped_connector_goes_on_where_the_import_says(stack, brokers, source, cluster, way):
    endpoint = stack.connect[cluster]
    connect, tool, name = Connect(endpoint.urls[0]), Tool(endpoint.worker_config), new_name("imported")
    brokers.made.append(name)
    try:
        connect.put_file_source(name, source, topic=name)
        connect.await_offsets(name, lambda said: said == [END])
        # It runs: refused, and a dry run says what would be done.
        code, out, said = tool.give(name, source, SECOND)
        assert (code, out) == (5, ""), said
        code, out, _ = tool.give(name, source, SECOND, "--dry-run")
        assert (code, out) == (5, f'set {name} {{"filename":"{source}"}}: {{"position":14}} -> {{"position":4}}\n')
        connect.do(name, "stop")
        connect.await_state(name, "STOPPED", tasks=0)
        code, out, said = tool.give(name, source, SECOND)
        assert (code, out.count("set ")) == (0, 1), said
        assert way in said
        assert tool.held(name) == [SECOND]
        code, _, back = tool.run(f"--undo={find_change(said)}")
        assert code == 0, back
        assert tool.held(name) == [END]
        assert tool.run(f"--undo={find_change(back)}")[0] == 0
        already = len(brokers.read_values(name))
        connect.do(name, "resume")
        connect.await_offsets(name, lambda said: said == [END])
        wait_until(lambda: len(brokers.read_values(name)) >= already + 2, lambda: "the rows did not come again")
        check_read_on(brokers.read_values(name), already, ["two", "three"])
    finally:
        connect.clean()


@pytest.mark.parametrize("cluster", ["connect", "connect-3-5-2"])
def test_an_absent_connector_begins_where_the_import_says(stack, brokers, source, cluster):
    """By the topic: no worker has a say in it, so it goes with every version."""
    endpoint = stack.connect[cluster]
    connect, tool, name = Connect(endpoint.urls[0]), Tool(endpoint.worker_config), new_name("absent")
    brokers.made.append(name)
    try:
        code, _, said = tool.give(name, source, {"position": 8})
        assert code == 0, said
        assert "in the topic" in said
        code, _, again = tool.give(name, source, SECOND)
        assert (code, tool.held(name)) == (0, [SECOND]), again
        code, _, back = tool.run(f"--undo={find_change(again)}")
        assert (code, tool.held(name)) == (0, [{"position": 8}]), back
        assert tool.run(f"--undo={find_change(back)}")[0] == 0
        connect.put_file_source(name, source, topic=name)
        connect.await_offsets(name, lambda said: said == [END])
        check_read_on(brokers.read_values(name), 0, ["two", "three"])
        # Now it is there, and runs.
        connect.await_state(name, "RUNNING", tasks=1)
        code, _, said = tool.give(name, source, SECOND)
        assert (code, tool.held(name)) == (5, [END])
        assert f"{name} is RUNNING with 1 task" in said
    finally:
        connect.clean()
    # It is gone again, and leaves its offset: null takes it away.
    wait_until(lambda: tool.give(name, source, None)[0] == 0, lambda: "a connector that is gone is not absent")
    assert tool.held(name) == []


def test_with_all_workers_down_no_worker_is_needed(stack, brokers, source, tmp_path):
    plugins = lay_out(tmp_path)
    cluster = new_name("down")
    endpoint, (how,) = build_cluster(
        cluster,
        version="4.3.1",
        workers=1,
        kafka=stack.kafka,
        libs=connect_jars("4.3.1"),
        plugins=plugins,
        folder=tmp_path,
        ports=PortReservation(),
        exactly_once=False,
        full_jit=False,
    )
    name = new_name("fs")
    brokers.made += [name, endpoint.offsets_topic, endpoint.config_topic, endpoint.status_topic]
    tool = Tool(endpoint.worker_config)
    with started(how):
        connect = Connect(endpoint.urls[0])
        connect.put_file_source(name, source, topic=name)
        connect.await_offsets(name, lambda said: said == [END])
        assert tool.give(name, source, SECOND)[0] == 5
    # The connector is not stopped: its workers are.
    wait_until(lambda: tool.give(name, source, SECOND)[0] == 0, lambda: "the worker group is not empty")
    assert tool.held(name) == [SECOND]
    with started(how):
        connect.await_state(name, "RUNNING", tasks=1)
        connect.await_offsets(name, lambda said: said == [END])
        wait_until(lambda: len(brokers.read_values(name)) >= 5, lambda: "the rows did not come again")
        connect.delete(name)
    assert brokers.read_values(name) == ["one", "two", "three", "two", "three"]


def test_a_standalone_worker_goes_on_where_the_file_says(stack, brokers, source, tmp_path):
    plugins = lay_out(tmp_path)
    endpoint, how = build_standalone(
        version="4.3.1",
        kafka=stack.kafka,
        libs=connect_jars("4.3.1"),
        plugins=plugins,
        folder=tmp_path,
        ports=PortReservation(),
        full_jit=False,
    )
    tool, file, name, other = Tool(endpoint.worker_config), Path(endpoint.offsets_file), *map(new_name, "ab")
    brokers.made += [name, other]
    connect = Connect(endpoint.urls[0])
    with started(how) as running:
        for each in (name, other):
            connect.put_file_source(each, source, topic=each)
            connect.await_offsets(each, lambda said: said == [END])
        wait_until(lambda: file.exists() and tool.held(name) == [END], lambda: "the worker wrote no file")
        before = file.read_bytes()
        code, out, said = tool.give(name, source, SECOND)
        assert (code, out) == (5, "")
        assert f"process {running.pid} was started with {endpoint.worker_config}" in said
        assert file.read_bytes() == before
        # A connector that is stopped has nobody who writes: the worker itself takes the offset, and writes the file.
        connect.do(name, "stop")
        connect.await_state(name, "STOPPED", tasks=0)
        code, _, said = tool.give(name, source, SECOND)
        assert (code, tool.held(name), tool.held(other)) == (0, [SECOND], [END]), said
        assert "through REST" in said
        code, _, said = tool.run(f"--undo={find_change(said)}")
        assert (code, tool.held(name)) == (0, [END]), said
    at_end = file.read_bytes()
    code, _, said = tool.give(name, source, SECOND)
    assert (code, tool.held(name), tool.held(other)) == (0, [SECOND], [END]), said
    code, _, back = tool.run(f"--undo={find_change(said)}")
    assert (code, file.read_bytes()) == (0, at_end), back
    assert tool.give(name, source, SECOND)[0] == 0
    # The other one forgets, and begins anew.
    assert tool.give(other, source, None)[0] == 0
    with started(how):
        for each in (name, other):
            connect.put_file_source(each, source, topic=each)
            connect.await_offsets(each, lambda said: said == [END])
        for each, lines in ((name, 5), (other, 6)):
            wait_until(
                lambda each=each, lines=lines: len(brokers.read_values(each)) >= lines,
                lambda: "the rows did not come again",
            )
    assert brokers.read_values(name) == ["one", "two", "three", "two", "three"]
    assert brokers.read_values(other) == ["one", "two", "three", "one", "two", "three"]
    assert (tool.held(name), tool.held(other)) == ([END], [END])
