"""A connector of one's own, as examples/own-connector tells it: built, put on the plugin path, seen, run."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.connect.client import ConnectClient
from seamark.devstack import StackSpec, start_stack
from seamark.devstack.client import ask

EXAMPLE = Path(__file__).parents[3] / "examples" / "own-connector"
CLASS = "example.counter.CounterSourceConnector"
MANIFEST = "META-INF/services/org.apache.kafka.connect.source.SourceConnector"
DEADLINE_SECONDS = 90


def build(target):
    done = subprocess.run(
        [str(EXAMPLE / "build.sh"), str(target)],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(done.stdout.split()[-1])


def seamark(*argv):
    out, err = io.StringIO(), io.StringIO()
    code = execute(argv, session=Session(out=out, err=err, stdin=io.StringIO()))
    assert code == 0, out.getvalue() + err.getvalue()
    return out.getvalue()


def find_plugin_path(endpoint):
    lines = Path(endpoint.worker_config).read_text().splitlines()
    return Path(next(line.partition("=")[2] for line in lines if line.startswith("plugin.path=")))


def read_numbers(bootstrap, topic, count):
    """The first so many values of a topic, as LongConverter writes them."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "own-connector", "auto.offset.reset": "earliest"})
    numbers = []
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(numbers) < count:
            assert time.monotonic() < deadline, f"{len(numbers)} of {count} records after {DEADLINE_SECONDS} s"
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                numbers.append(int.from_bytes(message.value(), "big"))
        late = consumer.poll(2.0)
        assert late is None or late.error() is not None
    finally:
        consumer.close()
    return numbers


def wait_until(is_done, what):
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_done():
        assert time.monotonic() < deadline, f"waited {DEADLINE_SECONDS} s for {what}"
        time.sleep(0.5)


def read_count():
    offsets = json.loads(seamark("offsets", "show", "counter", "-o", "json"))
    return json.dumps(offsets)


def check_meaning(endpoint, monkeypatch):
    """What the example says of its offsets is so of the real one."""
    monkeypatch.syspath_prepend(EXAMPLE / "meaning")
    from counter_meaning import CounterMeaning  # noqa: PLC0415 - a package of the example's own

    with ConnectClient(endpoint.urls) as client:
        (found,) = client.read_offsets("counter")
        meaning = CounterMeaning(CLASS, client.read_config("counter"))
    assert meaning.check(found.partition, found.offset) == ()
    assert meaning.describe(found.partition, found.offset) == ("counter counted", "counted to 100")
    assert meaning.build_distance(found.partition, None, found.offset).count.count == 100


def test_the_jar_holds_the_classes_and_the_manifest(tmp_path):
    (jar,) = build(tmp_path).glob("*.jar")
    with zipfile.ZipFile(jar) as archive:
        names = archive.namelist()
        assert archive.read(MANIFEST).decode().split() == [CLASS]
    for name in ("CounterConfig", "CounterSourceConnector", "CounterSourceTask"):
        assert f"example/counter/{name}.class" in names


def test_it_is_seen_on_every_worker_and_runs(tmp_path, monkeypatch):
    plugin = build(tmp_path / "built")
    with start_stack(StackSpec(brokers=1, workers=2), name="own-connector") as stack:
        for key in [key for key in os.environ if key.startswith("SEAMARK_")]:
            monkeypatch.delenv(key)
        monkeypatch.setenv("SEAMARK_CONFIG", stack.context_file)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        endpoint = stack.connect["connect"]
        assert CLASS not in seamark("plugins", "list", "-o", "name")

        shutil.copytree(plugin, find_plugin_path(endpoint) / plugin.name)
        ask(Path(stack.folder), "restart", "worker-1")
        (partly,) = json.loads(seamark("plugins", "list", "CounterSourceConnector", "-o", "json"))["items"]
        assert partly["missing"] == [endpoint.urls[1]]
        ask(Path(stack.folder), "restart", "worker-2")
        (found,) = json.loads(seamark("plugins", "list", "CounterSourceConnector", "-o", "json"))["items"]
        assert (found["class"], found["type"], found["version"]) == (CLASS, "source", "1.0.0")
        assert (found["workers"], found["missing"]) == (list(endpoint.urls), [])

        seamark("init", "--yes")
        seamark("apply", "-f", str(EXAMPLE / "counter.yaml"), "--yes")
        assert read_numbers(stack.kafka.bootstrap_servers, "counted", 100) == list(range(1, 101))
        wait_until(lambda: '"count": 100' in read_count(), "the position to be written")
        check_meaning(endpoint, monkeypatch)
        again = seamark("connectors", "list", "-f", str(EXAMPLE / "counter.yaml"), "--state", "healthy", "-o", "name")
        assert again == "connect/counter\n"


@pytest.mark.parametrize("folder", ["src", "resources"])
def test_the_example_is_whole(folder):
    assert any(path.is_file() for path in (EXAMPLE / folder).rglob("*"))
