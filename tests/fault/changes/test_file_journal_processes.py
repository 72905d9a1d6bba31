"""The file journal between processes: living, stopped, killed, and many at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from seamark.changes.file_journal import FileJournal
from seamark.changes.file_journal.locks import GATE_WAIT_SECONDS
from seamark.changes.journal import EntryKind
from seamark.errors import LockedError
from tests.fakes.changes.openings import AT, end, new_lock, opening
from tests.fault.changes import journal_child
from tests.fault.changes.journal_child import FENCED
from tests.fault.changes.journal_stage import Stage
from tests.fault.changes.strace import build_environment

# A start of Python under strace takes a second; on a machine that others use too it may take many.
DEADLINE_SECONDS = 60.0
RIVALS = 4
ROUNDS = 10


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("pycache")


@pytest.fixture
def start(cache):
    """Starts children, and ends those that are left."""
    running = []

    def launch(command):
        # A group of its own: a traced program must not outlive its strace, least of all a stopped one.
        child = subprocess.Popen(
            command,
            env=build_environment(cache),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        running.append(child)
        return child

    yield launch
    for child in running:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait(DEADLINE_SECONDS)
        for pipe in (child.stdin, child.stdout):
            with suppress(BrokenPipeError):
                pipe.close()


def child_command(*arguments):
    return [sys.executable, "-S", journal_child.__file__, *map(str, arguments)]


def hear(child, count):
    """The next lines that a child says."""
    return [child.stdout.readline().strip() for _ in range(count)]


def wait_for(condition):
    until = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.01)


def is_stopped(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"


@pytest.fixture
def stage(tmp_path, cache):
    return Stage(tmp_path / "run", "hold", cache=cache)


@pytest.fixture
def holder(start, stage):
    """A process that holds a change and writes an entry for each line it is sent."""
    child = start(child_command("hold", stage.layout.folder, stage.change, stage.lock))
    assert hear(child, 2) == [f"pid {child.pid}", "ack 0"]
    return child


@pytest.fixture
def journal(stage):
    journal = FileJournal(stage.layout.folder)
    yield journal
    journal.close()


def test_refusal_tells_a_living_holder_from_one_that_was_killed(stage, holder, journal):
    with pytest.raises(LockedError) as living:
        journal.begin(opening(stage.lock))
    assert f"its process is running: child@here, process {holder.pid}" in living.value.cause
    assert "resume" not in living.value.hint
    holder.kill()
    holder.wait(DEADLINE_SECONDS)
    with pytest.raises(LockedError) as dead:
        journal.begin(opening(stage.lock))
    assert "its process has ended" in dead.value.cause
    assert dead.value.hint == f"finish it: seamark journal resume {stage.change}"
    end(journal.take_over(stage.change, nonce="nonce-2", by="parent@here", at=AT))
    end(journal.begin(opening(stage.lock)))


def test_stopped_holder_is_taken_over_and_fails_at_its_next_entry(stage, holder, journal):
    os.kill(holder.pid, signal.SIGSTOP)
    wait_for(lambda: is_stopped(holder.pid))
    with pytest.raises(LockedError, match=stage.change):
        journal.begin(opening(stage.lock))
    taker = journal.take_over(stage.change, nonce="nonce-2", by="parent@here", at=AT)
    os.kill(holder.pid, signal.SIGCONT)
    said, _ = holder.communicate("write\n", timeout=DEADLINE_SECONDS)
    assert holder.returncode == FENCED
    assert "parent@here has held it since" in json.loads(said)["cause"]
    with pytest.raises(LockedError) as caught:
        FileJournal(stage.layout.folder).begin(opening(stage.lock))
    assert f"its process is running: parent@here, process {os.getpid()}" in caught.value.cause
    end(taker)
    assert [entry.kind for entry in journal.read(stage.change)] == ["open", "taken", "close"]
    end(journal.begin(opening(stage.lock)))


def test_planted_missing_fence_is_found(start, stage, journal):
    child = start(child_command("hold", stage.layout.folder, stage.change, stage.lock, "no-fence"))
    hear(child, 2)
    end(journal.take_over(stage.change, nonce="nonce-2", by="parent@here", at=AT))
    said, _ = child.communicate("write\n", timeout=DEADLINE_SECONDS)
    assert (child.returncode, said) == (0, "ack 1\n")
    assert [entry.kind for entry in journal.read(stage.change)][1] != EntryKind.NOTE


# Of the holder's own writes to the journal, the 5th and later are entries; of its fsyncs, the 10th to the 14th.
@pytest.mark.parametrize(("calls", "at"), [("write", 5), ("write", 7), ("fsync", 10), ("fsync", 12), ("fsync", 14)])
def test_holder_stopped_within_an_entry_holds_nobody_up_and_spoils_nothing(start, tmp_path, cache, calls, at):
    stage = Stage(tmp_path / "traced", "begin", cache=cache)
    child = start(stage.build_command(fault=f"{calls}:signal=STOP:when={at}", calls="write,fsync"))
    pid = int(hear(child, 1)[0].removeprefix("pid "))
    wait_for(lambda: stage.log.exists() and "stopped by SIGSTOP" in stage.log.read_text())
    journal = FileJournal(stage.layout.folder)
    before = time.monotonic()
    taker = journal.take_over(stage.change, nonce="nonce-2", by="parent@here", at=AT)
    # Shorter than anybody waits for a gate that stays shut; the rest is the disk's, which others use too.
    assert time.monotonic() - before < GATE_WAIT_SECONDS
    os.kill(pid, signal.SIGCONT)
    said, _ = child.communicate(timeout=DEADLINE_SECONDS)
    acknowledged = [int(line.removeprefix("ack ")) for line in said.splitlines() if line.startswith("ack ")]
    assert child.returncode == FENCED
    assert json.loads(said.splitlines()[-1])["code"] == "FENCED"
    end(taker)
    entries = journal.read(stage.change)
    assert entries == taker.entries
    kinds = [entry.kind for entry in entries]
    assert kinds[-2:] == ["taken", "close"]
    # Every acknowledged entry is there, and at most the one in hand besides.
    assert len(entries) - 2 - len(acknowledged) in (0, 1)
    assert acknowledged == list(range(len(acknowledged)))
    end(journal.begin(opening(stage.lock)))


def test_rivals_take_turns_and_nobody_is_fenced(start, tmp_path):
    folder, lock = tmp_path / "journal", new_lock()
    rivals = [start(child_command("rival", folder, ROUNDS, lock)) for _ in range(RIVALS)]
    for rival in rivals:
        said, _ = rival.communicate(timeout=DEADLINE_SECONDS * 3)
        assert (rival.returncode, said.splitlines()[-1]) == (0, f"won {ROUNDS}"), said
    heads = FileJournal(folder).heads()
    assert len(heads) == RIVALS * ROUNDS
    assert {(head.last_number, head.ending) for head in heads} == {(2, "done")}
    assert len({head.by for head in heads}) == RIVALS
