"""A real standalone worker: the file it writes is read, and a file that seamark writes starts it at the right place."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from seamark.context import open_context
from seamark.core.files import write_atomically
from seamark.devstack.downloads import connect_jars
from seamark.devstack.java import PluginFolder
from seamark.devstack.process import PortReservation, RunningServer
from seamark.devstack.servers.connect import build_standalone
from seamark.fleet import open_fleet
from seamark.offsets.codec.codec import encode_key, encode_value
from seamark.offsets.codec.java_map import read_java_map, write_java_map
from seamark.offsets.stores.file import FileStore
from tests.integration.offset_tools import Brokers, Connect, new_name, run_connect_offsets

LINES = "one\ntwo\nthree\n"
END = {"position": len(LINES)}
DEADLINE_SECONDS = 90


@pytest.fixture
def brokers(stack):
    made = Brokers(stack.kafka.bootstrap_servers)
    yield made
    made.clean()


@pytest.fixture
def server(stack, tmp_path):
    """A standalone worker on the shared brokers, laid out and not started. Its file is in the test's own folder."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "plugins").mkdir()
    plugins = PluginFolder(tmp_path / "plugins", names=(), missing=(), has_manifests=True)
    return build_standalone(
        version="4.3.1",
        kafka=stack.kafka,
        libs=connect_jars("4.3.1"),
        plugins=plugins,
        folder=tmp_path,
        ports=PortReservation(),
        full_jit=False,
    )


@contextmanager
def started(server):
    running = RunningServer(server)
    try:
        wait_until(lambda: server.is_ready(running), lambda: f"the worker is not ready: {running.log_tail()}")
        yield running
    finally:
        running.end(grace_seconds=30)


def wait_until(is_done, say):
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_done():
        assert time.monotonic() < deadline, say()
        time.sleep(0.2)


def open_standalone(stack, endpoint, folder):
    config = folder / "seamark.yaml"
    config.write_text(
        "contexts:\n  one:\n"
        f"    kafka: {{bootstrap.servers: '{stack.kafka.bootstrap_servers}'}}\n"
        f"    connect: {{alone: {{urls: ['{endpoint.urls[0]}'], worker_config: {endpoint.worker_config}}}}}\n"
    )
    return open_fleet(context=open_context("one", cwd=folder, environ={}))


def test_a_worker_and_seamark_read_each_others_files(stack, brokers, server, tmp_path):
    endpoint, how = server
    offsets_file = Path(endpoint.offsets_file)
    file = tmp_path / "in.txt"
    file.write_text(LINES)
    first, second = new_name("alone-a"), new_name("alone-b")
    brokers.made += [first, second]
    store = FileStore(offsets_file)
    with started(how):
        connect = Connect(endpoint.urls[0])
        connect.put_file_source(first, file, topic=first)
        connect.await_offsets(first, lambda said: said == [END])
        wait_until(lambda: offsets_file.exists() and store.read([first]).offsets, lambda: "the worker wrote no file")
        with open_standalone(stack, endpoint, tmp_path) as fleet:
            owned = fleet.offsets.get(f"alone/{first}")
        assert owned.stores == (f"file {offsets_file}",)
        assert (owned.findings, [found.offset for found in owned.offsets]) == ((), [END])
        assert owned.stored[0].evidence.key == encode_key(first, {"filename": str(file)})
    assert [found.offset for found in store.read().offsets] == [END]

    # KIP-199 on a standalone worker that is down.
    pair = {"partition": {"filename": str(file)}, "offset": END}
    code, text, said = run_connect_offsets("--export", f"--config={endpoint.worker_config}", "--from-beginning")
    assert (code, json.loads(text)) == (0, {first: [pair]})
    assert "has only the newest offsets" in said

    # A second connector is put into the file before it ever ran: it begins with the second line.
    java_map = read_java_map(offsets_file.read_bytes())
    new = (encode_key(second, {"filename": str(file)}), encode_value({"position": 4}))
    write_atomically(write_java_map([*java_map.entries, new]), offsets_file)
    assert {found.key.connector: found.offset for found in store.read().offsets} == {
        first: END,
        second: {"position": 4},
    }
    with started(how):
        connect = Connect(endpoint.urls[0])
        for name in (first, second):
            connect.put_file_source(name, file, topic=name)
        connect.await_offsets(second, lambda said: said == [END])
        connect.await_offsets(first, lambda said: said == [END])
        connect.await_state(first, "RUNNING", tasks=1)
    assert brokers.read_values(second) == ["two", "three"]
    assert brokers.read_values(first) == ["one", "two", "three"]
