"""Where an import is recorded: in Kafka where the journal is set up, else in files; also after a kill."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys

import pytest

from seamark.changes.file_journal import FileJournal
from seamark.cli.connect_offsets import execute
from seamark.cli.session import Session
from seamark.offsets.codec.java_map import read_java_map, write_java_map
from tests.fault.journal_key import write_journal_key

KEY = b'["moved",{"filename":"/in"}]'


def want(position):
    return json.dumps({"moved": [{"partition": {"filename": "/in"}, "offset": {"position": position}}]})


PROGRAM = "from seamark.cli.connect_offsets import main; main()"


@pytest.fixture
def worker(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    write_journal_key(tmp_path / "state")
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        yield Worker(tmp_path, port.getsockname()[1])


class Worker:
    """A standalone worker that is down."""

    def __init__(self, folder, port):
        self.file = folder / "connect.offsets"
        self.file.write_bytes(write_java_map([(KEY, b'{"position":1}')]))
        self.config = folder / "worker.properties"
        self.port = port
        self.journal = folder / "state" / "seamark" / "journal" / "connect-offsets"

    def configure(self, bootstrap):
        self.config.write_text(
            f"bootstrap.servers={bootstrap}\noffset.storage.file.filename={self.file}\n"
            f"listeners=http://127.0.0.1:{self.port}\n"
        )

    def run(self, *argv, position=7):
        out, err = io.StringIO(), io.StringIO()
        session = Session(out=out, err=err, stdin=io.StringIO(want(position)))
        return execute([*argv, f"--config={self.config}"], session=session), err.getvalue()

    def held(self):
        return dict(read_java_map(self.file.read_bytes()).entries)[KEY]


def find_change(said):
    return said.split("--undo=")[1].split()[0]


def test_the_journal_in_kafka_is_used_where_it_is_set_up(stack, journal_topics, worker):
    worker.configure(stack.kafka.bootstrap_servers)
    code, said = worker.run("--import")
    assert (code, worker.held(), worker.journal.exists()) == (0, b'{"position":7}', False), said
    code, said = worker.run(f"--undo={find_change(said)}")
    assert (code, worker.held(), worker.journal.exists()) == (0, b'{"position":1}', False), said


def test_a_killed_import_is_finished_out_of_kafka(stack, journal_topics, worker):
    worker.configure(stack.kafka.bootstrap_servers)
    killed = subprocess.run(
        [sys.executable, "-c", f"import tests.fault.failpoint; {PROGRAM}", "--import", f"--config={worker.config}"],
        input=want(7),
        text=True,
        env={**os.environ, "SEAMARK_FAILPOINT": "after-perform:0:kill"},
        check=False,
        capture_output=True,
        timeout=120,
    )
    assert killed.returncode == -9, killed.stderr
    # Killed between the rename and the word of it.
    assert worker.held() == b'{"position":7}'
    code, said = worker.run("--import", position=8)
    assert code == 5, said
    change = said.split("--resume=")[1].split()[0]
    code, said = worker.run(f"--resume={change}")
    assert (code, worker.held()) == (0, b'{"position":7}'), said
    code, said = worker.run(f"--undo={change}")
    assert (code, worker.held()) == (0, b'{"position":1}'), said


def test_with_the_brokers_away_it_is_recorded_in_files_and_found_again(stack, journal_topics, worker):
    # Bound and not listening: nobody answers there.
    worker.configure(f"127.0.0.1:{worker.port}")
    code, said = worker.run("--import")
    assert (code, worker.held()) == (0, b'{"position":7}'), said
    assert "the brokers are unreachable: the journal entry is in" in said
    change = find_change(said)
    assert [head.change for head in FileJournal(worker.journal).heads()] == [change]
    # They are back, with a journal that does not know it.
    worker.configure(stack.kafka.bootstrap_servers)
    code, said = worker.run(f"--undo={change}")
    assert (code, worker.held()) == (0, b'{"position":1}'), said
