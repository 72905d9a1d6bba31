"""CPU seconds by process: this one, its ended children, servers named by their pid, and families of processes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from bench.harness.definition import BenchError
from bench.harness.family import count_ticks

SELF = "bench"
CHILDREN = "children"
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class CpuMeter:
    """Reads how much CPU time each watched process has used since it began.

    Linux counts it in ticks of 10 ms, so a leg should last a second or so.
    """

    def __init__(
        self, pids: Mapping[str, int], *, families: Mapping[str, int] | None = None, proc: Path = Path("/proc")
    ) -> None:
        self._families = dict(families or {})
        if taken := {SELF, CHILDREN} & {*pids, *self._families}:
            raise BenchError(f"a watched process can't be called {', '.join(sorted(taken))}")
        self._proc = proc
        self._pids = dict(pids)
        # A pid may be given to a new process after its owner died; the start time tells them apart.
        self._starts = {name: self._read_stat(name)[1] for name in self._pids}

    def read(self) -> dict[str, float]:
        """CPU seconds so far, by process name."""
        times = os.times()
        seconds = {SELF: times.user + times.system, CHILDREN: times.children_user + times.children_system}
        for name in self._pids:
            ticks, start = self._read_stat(name)
            if start != self._starts[name]:
                raise BenchError(f"process {name} ended and its pid {self._pids[name]} belongs to another one")
            seconds[name] = ticks / _TICKS_PER_SECOND
        for name, pid in self._families.items():
            seconds[name] = count_ticks(pid, proc=self._proc) / _TICKS_PER_SECOND
        return seconds

    def _read_stat(self, name: str) -> tuple[int, int]:
        pid = self._pids[name]
        try:
            text = (self._proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            raise BenchError(f"process {name} (pid {pid}) is not running") from None
        # The second field is the command in brackets and may itself hold blanks and brackets. After it,
        # counted from 0: 11 and 12 are user and system ticks, 19 is the start time (proc(5)).
        fields = text.rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12]), int(fields[19])


def build_used(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """What was used between two readings."""
    return {name: after[name] - before[name] for name in after}
