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

TICKS = os.sysconf("SC_CLK_TCK")
WORKING = """
import time
while time.process_time() < 0.2: pass
print(1, flush=True)
input()
"""


def write_stat(proc: Path, *, pid: int, user: int, system: int, start: int, command: str = "java") -> None:
    fields = ["S", *["0"] * 10, str(user), str(system), *["0"] * 6, str(start), *["0"] * 20]
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
