"""The file journal with a disk that fails, or a process that is killed, at every call one after the other."""

from __future__ import annotations

import itertools
import json
import re
import shutil

import pytest

from tests.fault.changes.journal_child import APPENDS, FAILED
from tests.fault.changes.journal_stage import CALLS, Stage
from tests.fault.changes.strace import find_unsynced

# Some seventy starts of Python under strace, on a machine that others use too.
pytestmark = pytest.mark.timeout(900)
# `begin` is the open entry, five entries and the close; `take-over` the note and `taken`, and the same.
ACTS = ("begin", "take-over")
# Opening a file changes nothing that the calls around it do not: it can fail, but to be killed there is nothing new.
KILLS = tuple(calls for calls in CALLS if calls != "openat")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("pycache")


def is_complete(run):
    """Whether every entry was acknowledged."""
    return run.code == 0 and len(run.acknowledged) == APPENDS + 2


def each_fault(folder, act, *, calls, fault, cache):
    """Run with the fault at the first call of a kind, the second, …, until a run meets none. Gives each run it hit."""
    for at in itertools.count(1):
        stage = Stage(folder / f"{act}-{at}", act, cache=cache)
        run = stage.run(fault=f"{calls}:{fault}:when={at}")
        stage.check(run)
        if not run.is_hit:
            assert is_complete(run)
            return
        yield run
        shutil.rmtree(stage.base)


@pytest.mark.parametrize("act", ACTS)
def test_disk_that_fails_at_any_call_loses_nothing_and_says_so(tmp_path, act, cache):
    hits, silent = 0, []
    for calls in CALLS:
        # A full disk shows at the writes, and is the error most met.
        code = "ENOSPC" if calls == "write" else "EIO"
        folder = tmp_path / re.sub(r"\W", "", calls)
        for run in each_fault(folder, act, calls=calls, fault=f"error={code}", cache=cache):
            hits += 1
            if run.code == 0:
                silent.append(calls)
                assert is_complete(run)
                continue
            assert run.code == FAILED
            error = json.loads(run.said[-1])
            assert error["code"] == "JOURNAL"
            assert "; then" in error["hint"]
    # Only what the next begin makes good may fail without a word: to unlist the closed change.
    assert silent == ["/^unlink"]
    print(f"{hits} calls failed")
    assert hits >= 55


@pytest.mark.parametrize("act", ACTS)
def test_process_killed_at_any_call_loses_nothing(tmp_path, act, cache):
    hits = 0
    for calls in KILLS:
        folder = tmp_path / re.sub(r"\W", "", calls)
        for run in each_fault(folder, act, calls=calls, fault="signal=KILL", cache=cache):
            hits += 1
            assert run.code == -9
            assert not is_complete(run) or calls == "/^unlink"
    print(f"{hits} kills")
    assert hits >= 30


@pytest.mark.parametrize("limit", [1, 50, 91, 92, 200, 400, 700, 1111, 2222])
def test_write_that_the_disk_cuts_short_is_a_torn_tail(tmp_path, cache, limit):
    stage = Stage(tmp_path / "run", "begin", cache=cache)
    run = stage.run(f"limit-{limit}")
    assert run.code == FAILED
    assert "df -h" in json.loads(run.said[-1])["hint"]
    file = stage.layout.change_file(stage.change)
    assert bool(run.acknowledged) == file.exists()
    if file.exists():
        assert file.stat().st_size == limit
    stage.check(run)


@pytest.mark.parametrize("act", ACTS)
def test_everything_acknowledged_was_synced_before(tmp_path, cache, act):
    stage = Stage(tmp_path / "run", act, cache=cache)
    # -s 40 shows an acknowledgement whole; without -P, as those go to a pipe.
    run = stage.run(calls="write,fsync,/^rename", is_filtered=False)
    assert is_complete(run)
    assert find_unsynced(run.log) == ([], APPENDS + 2)
