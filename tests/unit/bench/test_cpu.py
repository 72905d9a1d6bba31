"""CPU seconds of other processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.harness.cpu import CpuMeter, build_used
from bench.harness.definition import BenchError
from bench.harness.record import ROOT

TICKS = os.sysconf("SC_CLK_TCK")
WORKING = """
import time
while time.process_time() < 0.2: pass
print(1, flush=True)
input()
"""


def write_stat(
    proc: Path,
    *,
    pid: int,
    user: int,
    system: int,
    start: int,
    command: str = "java",
    parent: int = 0,
    ended: int = 0,
) -> None:
    times = [str(user), str(system), str(ended), "0"]
    fields = ["S", str(parent), *["0"] * 9, *times, *["0"] * 4, str(start), *["0"] * 20]
    (proc / str(pid)).mkdir(exist_ok=True)
    (proc / str(pid) / "stat").write_text(f"{pid} ({command}) {' '.join(fields)}\n")


def test_user_and_system_time_of_a_named_process_count(tmp_path: Path) -> None:
    write_stat(tmp_path, pid=7, user=100, system=50, start=5, command="a) (b 9 9")
    meter = CpuMeter({"worker": 7}, proc=tmp_path)
    before = meter.read()
    write_stat(tmp_path, pid=7, user=100 + TICKS, system=50 + TICKS, start=5, command="a) (b 9 9")
    assert build_used(before, meter.read())["worker"] == 2.0


def test_process_that_ended_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"worker \(pid 7\) is not running"):
        CpuMeter({"worker": 7}, proc=tmp_path)


def test_pid_that_went_to_another_process_is_an_error(tmp_path: Path) -> None:
    write_stat(tmp_path, pid=7, user=1, system=1, start=5)
    meter = CpuMeter({"worker": 7}, proc=tmp_path)
    write_stat(tmp_path, pid=7, user=1, system=1, start=6)
    with pytest.raises(BenchError, match="belongs to another one"):
        meter.read()


def test_a_server_may_not_take_our_own_name(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="can't be called bench"):
        CpuMeter({"bench": 7}, proc=tmp_path)


def test_a_real_child_is_seen_working() -> None:
    command = [sys.executable, "-c", WORKING]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            meter = CpuMeter({"child": child.pid})
            before = meter.read()
            assert child.stdout is not None
            assert child.stdout.readline() == "1\n"
            assert build_used(before, meter.read())["child"] >= 0.05
        finally:
            deadline = time.monotonic() + 10
            child.communicate("\n", timeout=max(0.1, deadline - time.monotonic()))
    assert child.returncode == 0


def write_family(proc: Path) -> None:
    """A JVM, its daemon of Python, two workers of that, and a stranger."""
    write_stat(proc, pid=7, user=1000, system=0, start=5)
    write_stat(proc, pid=8, user=10, system=0, start=5, parent=7)
    write_stat(proc, pid=9, user=200, system=0, start=5, parent=8)
    write_stat(proc, pid=10, user=300, system=0, start=5, parent=8)
    write_stat(proc, pid=11, user=5000, system=0, start=5, parent=1)
    (proc / "self").mkdir(exist_ok=True)


def test_descendants_count_together_and_their_elder_does_not(tmp_path: Path) -> None:
    write_family(tmp_path)
    meter = CpuMeter({"jvm": 7}, families={"python": 7}, proc=tmp_path)
    read = meter.read()
    assert (read["jvm"], read["python"]) == (1000 / TICKS, 510 / TICKS)


def test_time_of_a_descendant_stays_when_it_ends(tmp_path: Path) -> None:
    write_family(tmp_path)
    meter = CpuMeter({}, families={"python": 7}, proc=tmp_path)
    before = meter.read()
    (tmp_path / "10" / "stat").unlink()
    write_stat(tmp_path, pid=8, user=10, system=0, start=5, parent=7, ended=300 + TICKS)
    assert build_used(before, meter.read())["python"] == 1.0


def test_a_family_may_not_take_our_own_name(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="can't be called children"):
        CpuMeter({}, families={"children": 7}, proc=tmp_path)


def test_the_time_of_a_process_that_nobody_waits_for_counts_with_reap():
    burn = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    leave = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {burn!r}])"
    used = {}
    for reaper in ([], [str(ROOT / "bench" / "harness" / "reap.py"), sys.executable]):
        before = os.times()
        subprocess.run([sys.executable, *reaper, "-c", leave], check=True)
        after = os.times()
        used[bool(reaper)] = after.children_user + after.children_system - before.children_user - before.children_system
    assert used[True] > used[False] + 0.2, used


def test_reap_returns_the_exit_code():
    command = [sys.executable, str(ROOT / "bench" / "harness" / "reap.py"), sys.executable, "-c", "raise SystemExit(3)"]
    assert subprocess.run(command, check=False).returncode == 3
