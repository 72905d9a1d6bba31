"""200 imports into a standalone worker's file, 50 of them killed, while somebody reads it 1,000 times a second."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from seamark.changes.file_journal import FileJournal
from seamark.cli.connect_offsets import execute
from seamark.cli.session import Session
from seamark.offsets.codec.java_map import read_java_map, write_java_map
from seamark.offsets.stores.file import FileSwap
from tests.fault.kip199 import import_child

IMPORTS, KILLS = 200, 50
READS_A_SECOND = 1000
# A machine that is busy gives a reader less a second, but the imports are as slow then: so it is counted by import.
READS_AN_IMPORT = 20
# Enough that a plain write of it takes several calls.
OTHERS = 500
KEY = b'["moved",{"filename":"/in"}]'
REST = tuple((b'["other-%d",{"filename":"/in/%d"}]' % (n, n), b'{"position":%d}' % n) for n in range(OTHERS))


def build_file(position):
    return write_java_map([*REST, (KEY, b'{"position":%d}' % position)])


def watch(file, stop, found):
    """Read the file as often as it can, up to 1,000 times a second; tell how often, and what was wrong with it."""
    counts, wrong, seen = 0, [], set()
    began_at = due = time.monotonic()
    while not stop.is_set():
        data = Path(file).read_bytes()
        counts += 1
        if data not in seen:
            try:
                entries = dict(read_java_map(data).entries)
                value = entries.pop(KEY)
                assert entries == dict(REST), "other pairs are not as they were"
                assert re.fullmatch(rb'\{"position":\d+\}', value), value
                seen.add(data)
            except Exception as error:  # noqa: BLE001 - whatever it is, the test tells it
                wrong.append(f"{type(error).__name__}: {error} ({len(data)} bytes)")
        due += 1 / READS_A_SECOND
        time.sleep(max(0.0, due - time.monotonic()))
    found.put((counts, time.monotonic() - began_at, len(seen), wrong[:5]))


class Bench:
    """A standalone worker's properties and file, the program, and a child that runs it to be killed."""

    def __init__(self, folder, monkeypatch):
        monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        (folder / "data").mkdir()
        self.file = folder / "data" / "connect.offsets"
        self.file.write_bytes(build_file(0))
        self.pairs = folder / "pairs.json"
        self.config = folder / "worker.properties"
        self.config.write_text(
            f"offset.storage.file.filename={self.file}\nlisteners=http://127.0.0.1:{self.socket.getsockname()[1]}\n"
        )
        self.journal = folder / "state" / "seamark" / "journal" / "connect-offsets"
        self.child = subprocess.Popen(
            [sys.executable, import_child.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def close(self):
        self.socket.close()
        self.child.stdin.close()
        self.child.wait(60)
        self.child.stdout.close()

    def want(self, position):
        wanted = {"moved": [{"partition": {"filename": "/in"}, "offset": {"position": position}}]}
        self.pairs.write_text(json.dumps(wanted))
        return ["--import", f"--config={self.config}", str(self.pairs)]

    def run(self, *argv):
        out, err = io.StringIO(), io.StringIO()
        code = execute(list(argv), session=Session(out=out, err=err, stdin=io.StringIO()))
        return code, err.getvalue()

    def kill(self, argv, seconds, *, from_open):
        """Run it in a process of its own and kill that after so long; whether it was still there."""
        return self.run_apart(argv, seconds, from_open=from_open)[0] == -signal.SIGKILL

    def run_apart(self, argv, seconds=None, *, from_open=True):
        self.child.stdin.write(f"{json.dumps([argv, seconds, from_open])}\n")
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())

    def time_import(self, position):
        """How long an import takes in a child, here and now: all of it, and from the opening of its change."""
        began_at = time.monotonic()
        code, lived = self.run_apart(self.want(position))
        assert (code, lived > 0) == (0, True)
        return time.monotonic() - began_at, lived

    def held(self):
        return int(json.loads(dict(read_java_map(self.file.read_bytes()).entries)[KEY])["position"])

    def open_changes(self):
        journal = FileJournal(self.journal)
        try:
            return [head.change for head in journal.open_heads()]
        finally:
            journal.close()


@pytest.fixture
def bench(tmp_path, monkeypatch):
    made = Bench(tmp_path, monkeypatch)
    yield made
    made.close()


@pytest.fixture
def end_watch(bench):
    """The file of the bench is read all the time, until this is called: what was seen of it."""
    context = multiprocessing.get_context("fork")
    stop, found = context.Event(), context.Queue()
    reader = context.Process(target=watch, args=(str(bench.file), stop, found))
    reader.start()

    def end():
        stop.set()
        return found.get(timeout=60)

    yield end
    stop.set()
    reader.join(60)


def check_watch(seen):
    """Nothing wrong may have been seen, by somebody who looked often enough."""
    counts, seconds, versions, wrong = seen
    print(f"{counts} reads in {seconds:.1f} s, {counts / seconds:.0f} a second, {versions} contents seen")
    assert wrong == []
    assert counts >= READS_AN_IMPORT * IMPORTS
    assert versions >= IMPORTS / 4


@pytest.mark.timeout(900)
def test_the_file_is_whole_for_every_reader_and_after_every_kill(bench, end_watch):
    chance = random.Random(9)
    kills = set(chance.sample(range(1, IMPORTS + 1), KILLS))
    whole, open_for = sorted(bench.time_import(position) for position in (10_001, 10_002, 10_003))[1]
    became, before, late = Counter(), bench.held(), 0
    for number in range(1, IMPORTS + 1):
        argv = bench.want(number)
        if number not in kills:
            code, said = bench.run(*argv)
            assert code == 0, said
        else:
            # One that was faster than its killer is repeated: 50 shall die.
            # Most of them die while their change is open, the others at any time.
            from_open = chance.random() < 0.8
            while not bench.kill(argv, chance.random() * (open_for if from_open else whole), from_open=from_open):
                late += 1
                whole, open_for = whole * 0.9, open_for * 0.9
                before = bench.held()
                argv = bench.want(number + 1000 * late)
            became[settle(bench, before, json.loads(bench.pairs.read_text()), chance)] += 1
        before = bench.held()
        assert bench.open_changes() == []
    check_watch(end_watch())
    print(f"{KILLS} killed, {late} were faster: {dict(became)}")
    assert became.total() == KILLS
    # They did not all die before anything was begun.
    assert sum(count for how, count in became.items() if "closed" not in how) >= KILLS / 5
    # A draft that was left is taken away by the next import.
    assert sorted(path.name for path in bench.file.parent.iterdir()) == ["connect.offsets"]


def test_a_file_that_is_written_in_place_is_noticed(bench, end_watch, monkeypatch):
    """The planted bug: what the watch is good for."""

    def put(swap, content):
        with swap.path.open("wb") as file:
            file.write(content[: len(content) // 2])
            file.flush()
            time.sleep(0.05)
            file.write(content[len(content) // 2 :])

    monkeypatch.setattr(FileSwap, "_put", put)
    for number in range(1, 6):
        code, said = bench.run(*bench.want(number))
        assert code == 0, said
    _, _, _, wrong = end_watch()
    assert wrong != []
    assert "RefusedError" in wrong[0]


def settle(bench, before, wanted, chance):
    """After a kill: the file is the old or the new one, and the journal finishes it or takes it back."""
    new = wanted["moved"][0]["offset"]["position"]
    assert bench.held() in (before, new)
    assert bench.file.read_bytes() in (build_file(before), build_file(new))
    changes = bench.open_changes()
    if not changes:
        return f"{'new' if bench.held() == new else 'old'}, closed"
    (change,) = changes
    if chance.random() < 0.2:
        code, said = bench.run(*bench.want(5_000_000))
        assert code == 5, said
        assert f"connect-offsets --resume={change}" in said
    was = "new" if bench.held() == new else "old"
    if chance.random() < 0.5:
        code, said = bench.run(f"--resume={change}", f"--config={bench.config}")
        assert (code, bench.held()) == (0, new), said
        return f"{was}, finished"
    code, said = bench.run(f"--undo={change}", f"--config={bench.config}")
    assert (code, bench.held()) == (0, before), said
    return f"{was}, taken back"
