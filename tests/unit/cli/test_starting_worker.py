"""Commands on a Connect cluster whose only worker has just started: they wait or refuse, and act on nothing."""

from __future__ import annotations

import io
import json
import threading
from dataclasses import dataclass, field

import pytest

from seamark.changes.file_journal import FileJournal
from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.connect.caller import Timing
from seamark.connect.client import ConnectClient
from seamark.fleet.fleet import Fleet
from seamark.offsets.read.connector import OrphanedOffsets
from seamark.offsets.service import find_config_reader
from tests.fakes.connect import FILE_SOURCE, FakeConnect
from tests.unit.changes.brokers import FakeBrokers
from tests.unit.cli.stubs import Outcome as Ended
from tests.unit.fleet.builders import StubKafka
from tests.unit.fleet.living import living_context
from tests.unit.offsets.scans import FakeScan

CONFIG = {"connector.class": FILE_SOURCE, "topic": "t", "file": "/in", "tasks.max": "1"}
NAMES = ("orders", "players")
# By name: the version, and the worker facts of the context.
CLUSTERS = {
    "health": ("4.3.1", {}),
    "config topic": ("3.5.2", {"config_topic": "configs"}),
    "neither": ("3.5.2", {}),
}
COMMANDS = {
    "plan": ("plan", "-f", "SPEC"),
    "apply": ("apply", "-f", "SPEC", "--yes"),
    "destroy": ("destroy", "-f", "SPEC", "--yes"),
    "purge": ("offsets", "purge", "--all", "--yes"),
    "purge one": ("offsets", "purge", "orders", "--yes"),
    "orphans": ("offsets", "orphans"),
    "show": ("connectors", "show", "orders"),
    "show in cluster": ("connectors", "show", "game/orders"),
    "list": ("connectors", "list"),
    "status": ("status",),
    "pause": ("connectors", "pause", "orders", "--yes"),
}


@dataclass
class Desk:
    """A fleet of two connectors with offsets, and what commands did to it."""

    fake: FakeConnect
    folder: object
    facts: dict
    seconds: float = 0.5
    written: list = field(default_factory=list)

    def open_scan(self, _config, topic, _committed):
        scan = FakeScan(topic)
        for name in NAMES:
            if topic == "configs":
                scan.put(f"connector-{name}".encode(), {})
            else:
                scan.put((name, {"filename": "/in"}), {"position": 100})
        return scan

    def open_fleet(self, _name=None):
        context = living_context(self.folder, urls=self.fake.urls, **self.facts)
        timing = Timing(deadline_seconds=self.seconds, first_pause_seconds=0.02, longest_pause_seconds=0.1)
        return Fleet(
            context,
            build_connect=lambda settings: ConnectClient(
                settings.urls,
                cluster=settings.name,
                timing=timing,
                read_config_names=find_config_reader(context, settings, self.open_scan),
            ),
            build_kafka=lambda settings: StubKafka(),
            build_brokers=lambda opened: FakeBrokers(),
            open_journal=lambda opened: FileJournal(opened.journal.folder),
            open_scan=self.open_scan,
        )

    def run(self, *argv):
        out, err = io.StringIO(), io.StringIO()
        session = Session(out=out, err=err, stdin=io.StringIO(), open_fleet=self.open_fleet)
        found = [str(self.folder / "spec") if word == "SPEC" else word for word in argv]
        return Ended(execute(found, session=session), out.getvalue(), err.getvalue())

    def changes(self):
        """What was sent that changes something, validation apart."""
        sent = [line for line in self.fake.asked() if not line.startswith("GET ") and "/validate" not in line]
        return sent + self.written


@pytest.fixture(params=CLUSTERS)
def desk(request, tmp_path, monkeypatch):
    version, facts = CLUSTERS[request.param]
    (tmp_path / "spec").mkdir()
    for name in NAMES:
        (tmp_path / "spec" / f"{name}.json").write_text(json.dumps({"name": name, "config": CONFIG}))
    with FakeConnect(version=version, herder_wait_seconds=0.1) as fake:
        for name in NAMES:
            fake.add_connector(name, CONFIG)
        made = Desk(fake, tmp_path, facts)
        # The client has waited already.
        monkeypatch.setattr("seamark.changes.timing.PLAN_SECONDS", 0.1)
        monkeypatch.setattr(OrphanedOffsets, "write", lambda _, records: made.written.extend(records))
        yield made


@pytest.mark.parametrize("known", [(), ("players",)], ids=["empty", "partial"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_refuses_while_the_worker_starts(desk, command, known):
    desk.fake.restart(known=known)
    ended = desk.run(*COMMANDS[command])
    assert ended.code in (5, 6), ended
    assert "orders" not in ended.out
    assert "not found" not in ended.err
    # An apply that never began leaves no change behind.
    assert [line for line in desk.changes() if "/pause" not in line] == []
    assert desk.fake.state.connectors["orders"].target == "RUNNING"


@pytest.mark.parametrize("command", ["plan", "orphans", "show", "list", "purge"])
def test_a_command_waits_for_the_end_of_the_start(desk, command):
    desk.seconds = 20.0
    desk.fake.restart(known=["players"])
    timer = threading.Timer(0.6, desk.fake.finish_start)
    timer.start()
    ended = desk.run(*COMMANDS[command])
    timer.join()
    assert ended.code == 0, ended
    assert desk.changes() == []
    assert ("orders" in ended.out) is (command in ("show", "list"))


def test_doctor_reports_that_it_can_not_examine_the_connectors(desk):
    desk.fake.restart()
    ended = desk.run("doctor", "-o", "json")
    findings = json.loads(ended.out)["items"]
    assert any("has read its config topic" in json.dumps(one) for one in findings)
    assert not any(one["severity"] == "ok" and "orphan" in one["check"] for one in findings)
    assert desk.changes() == []


def test_a_purge_that_was_planned_before_a_restart_writes_nothing(desk, tmp_path):
    """The worker restarts after the plan. `orders` was created again meanwhile."""
    desk.fake.state.connectors.pop("orders")
    file = str(tmp_path / "purge.json")
    assert desk.run("offsets", "purge", "orders", "--out", file).code == 0
    desk.fake.add_connector("orders", CONFIG)
    desk.fake.restart()
    ended = desk.run("apply", file, "--yes")
    assert ended.code in (1, 3, 5, 6), ended
    assert desk.written == []
