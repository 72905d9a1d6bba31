"""`connect-offsets --import` in each of its ways: a standalone worker's file, and a topic of distributed workers."""

from __future__ import annotations

import io
import json
import socket
import time

from seamark.changes.file_journal import FileJournal
from seamark.cli.connect_offsets import execute
from seamark.cli.session import Session
from seamark.context import JournalKind, JournalSettings
from seamark.fleet.environment import LiveEnvironment, SystemClock
from seamark.fleet.fleet import Fleet
from seamark.kip199.worker import build_worker_context
from seamark.offsets.codec.java_map import read_java_map, write_java_map
from seamark.offsets.read.connector import OrphanedOffsets
from tests.unit.changes.brokers import FakeBrokers
from tests.unit.cli.stubs import Outcome
from tests.unit.fleet.builders import StubKafka
from tests.unit.fleet.living import SOURCE_CONFIG
from tests.unit.offsets.moving import MovingConnect
from tests.unit.offsets.scans import FakeScan

HELD = (
    (b'["orders",{"filename":"/o"}]', b'{"position":20}'),
    (b'["orders",{"filename":"/p"}]', b'{"position":70}'),
    (b'["customers",{"filename":"/c"}]', b'{"position":50}'),
)


def pair(file, position):
    return {"partition": {"filename": file}, "offset": None if position is None else {"position": position}}


class Tool:
    """The program on one worker. `held` is what its store holds: value by key, to the byte."""

    def __init__(self, folder):
        self.folder = folder
        self.config = folder / "worker.properties"

    def run(self, *argv, text="", open_fleet=None):
        out, err = io.StringIO(), io.StringIO()
        session = Session(out=out, err=err, stdin=io.StringIO(text))
        code = execute([str(word) for word in argv], session=session, open_fleet=open_fleet or self.open_fleet)
        return Outcome(code, out.getvalue(), err.getvalue())

    def give(self, wanted, *argv):
        """An import from standard input."""
        text = wanted if isinstance(wanted, str) else json.dumps(wanted)
        return self.run("--import", f"--config={self.config}", *argv, text=text)

    def change(self, ended):
        """The id of the change that a run made."""
        return ended.err.split("--undo=")[1].split()[0]

    def undo(self, change, *argv):
        return self.run(f"--undo={change}", f"--config={self.config}", *argv)


class FileTool(Tool):
    """A standalone worker that is down, its journal in files."""

    open_fleet = None

    def __init__(self, folder, monkeypatch):
        super().__init__(folder)
        monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
        # Bound and not listening: nobody else gets this port, and nobody answers on it.
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        (folder / "data").mkdir()
        self.file = folder / "data" / "connect.offsets"
        self.file.write_bytes(write_java_map(HELD))
        self.config.write_text(
            f"offset.storage.file.filename=data/connect.offsets\nlisteners=http://127.0.0.1:{self.port}\n"
        )

    @property
    def held(self):
        return dict(read_java_map(self.file.read_bytes()).entries)


class TopicTool(Tool):
    """Distributed workers. The connectors are absent, stopped, or all workers are down."""

    def __init__(self, folder, monkeypatch, way):
        super().__init__(folder)
        self.config.write_text("bootstrap.servers=b:1\ngroup.id=g\noffset.storage.topic=offsets\n")
        self.scan, self.brokers = FakeScan("offsets"), FakeBrokers()
        self.connect = MovingConnect(self.scan, self.brokers, cluster="g")
        self.urls = () if way == "down" else ("http://w1:8083",)
        for key, value in HELD:
            self.scan.put(key, value)
        if way == "stopped":
            for name in ("orders", "customers", "new"):
                self.connect.add(name, SOURCE_CONFIG, state="STOPPED")
        if way == "down":
            self.connect.failing = {("read_names", ""): AssertionError("nobody is there to be asked")}
        # The real ones ask brokers, and wait for them.
        monkeypatch.setattr(LiveEnvironment, "worker_urls", lambda _, __: self.urls)
        monkeypatch.setattr(OrphanedOffsets, "write", lambda _, owners, records: self.write(records))
        monkeypatch.setattr(SystemClock, "sleep", lambda _, seconds: time.sleep(min(seconds, 0.005)))

    def write(self, records):
        for record in records:
            self.scan.put(record.key, record.value, partition=record.partition)

    def open_fleet(self, config, change):
        del change
        journal = JournalSettings(
            "connect-offsets",
            kind=JournalKind.FILE,
            own_folder=self.folder / "journal",
            in_flight_seconds=0.1,
            find_state_dir=lambda: self.folder / "state",
        )
        built = build_worker_context(config)
        context = type(built)(built.name, built.kafka, built.connect, own_journal=journal, insecure=True)
        return Fleet(
            context,
            build_connect=lambda settings: self.connect,
            build_kafka=lambda settings: StubKafka(),
            build_brokers=lambda context: self.brokers,
            open_journal=lambda opened: FileJournal(opened.journal.folder),
            open_scan=lambda config, topic, committed: self.scan,
        )

    @property
    def held(self):
        return {found.key: found.value for found in self.scan.read_newest().records}
