"""heal, rename, plugins and loggers through the real client, on FakeConnect."""

from __future__ import annotations

import io
import json
import time

import pytest

from seamark.changes.file_journal import FileJournal
from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.connect.client import ConnectClient
from seamark.fleet.fleet import Fleet
from tests.fakes.connect import FILE_SOURCE, FakeConnect
from tests.unit.cli.stubs import Outcome as Ended
from tests.unit.fleet.builders import EmptyScan, StubKafka
from tests.unit.fleet.living import living_context

CONFIG = {"connector.class": FILE_SOURCE, "topic": "t", "tasks.max": "1"}


@pytest.fixture
def fake():
    with FakeConnect(workers=2) as started:
        yield started


@pytest.fixture
def run(fake, tmp_path):
    context = living_context(tmp_path, urls=fake.urls)

    def open_fleet(name=None):
        return Fleet(
            context,
            build_kafka=lambda settings: StubKafka(),
            open_scan=lambda config, topic, committed: EmptyScan(topic),
            open_journal=lambda opened: FileJournal(opened.journal.folder),
        )

    def run(*argv):
        out, err = io.StringIO(), io.StringIO()
        session = Session(out=out, err=err, stdin=io.StringIO(), open_fleet=open_fleet)
        return Ended(execute(argv, session=session), out.getvalue(), err.getvalue())

    return run


def test_heal_brings_failed_tasks_back(fake, run):
    fake.add_connector("well", CONFIG)
    fake.add_connector("sick", CONFIG, tasks=["FAILED"], task_traces=["java.io.IOException: gone\n\tat a.B"])
    began_at = time.monotonic()
    ended = run("connectors", "heal", "--once", "--backoff", "1s", "--yes", "-o", "json")
    assert ended.code == 0, ended.err
    (item,) = json.loads(ended.out)["items"]
    assert (item["owner"], item["outcome"], item["why"]) == ("game/sick", "runs", "task 0: java.io.IOException: gone")
    assert len(fake.asked("/restart?")) == 1
    assert time.monotonic() - began_at < 30


def test_rename_is_one_change_and_undone(fake, run):
    fake.add_connector("old", CONFIG)
    ended = run("connectors", "rename", "old", "new", "--yes")
    assert ended.code == 0, ended.err
    assert run("connectors", "list", "-o", "name").out == "game/new\n"
    change = run("journal", "list", "-o", "name").out.split()[0]
    assert run("journal", "undo", change, "--yes").code == 0
    assert run("connectors", "list", "-o", "name").out == "game/old\n"


def test_plugins_are_read_from_every_worker(fake, run):
    items = json.loads(run("plugins", "list", "-o", "json").out)["items"]
    # The fake has a converter besides the plugins that it is given.
    assert [item["workers"] for item in items] == [list(fake.urls)] * (len(fake.setup.plugins) + 1)
    assert items[-1]["type"] == "converter"
    assert run("plugins", "list", "--type", "converter", "-o", "name").out == f"{items[-1]['class']}\n"
    assert run("plugins", "list", "--type", "transform").err == "no plugins\n"
    fake.kill(1)
    assert run("plugins", "list").code == 3


def test_levels_are_set_for_the_cluster_and_put_back(fake, run):
    ended = run("loggers", "set", "org.apache", "TRACE", "--all-workers", "--yes")
    assert ended.code == 0, ended.err
    assert "PUT /admin/loggers/org.apache?scope=cluster" in fake.asked("admin/loggers")
    assert "TRACE" in run("loggers", "list", "org.apache").out
    change = run("journal", "list", "-o", "name").out.split()[0]
    assert run("journal", "undo", change, "--yes").code == 0
    assert "INFO" in run("loggers", "list", "org.apache").out


def test_one_logger_is_read_by_name(fake):
    with ConnectClient(fake.urls) as client:
        assert client.read_logger("root") == "INFO"
        assert client.read_logger("nobody.knows", url=fake.urls[1]) is None
