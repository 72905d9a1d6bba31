"""The CPU time of all descendants of a process, those that ended included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    own_ticks: int
    # Of children that ended and were waited for, with theirs.
    ended_ticks: int


def count_ticks(pid: int, *, proc: Path = Path("/proc")) -> int:
    """The ticks of every descendant of a process. It does not fall when one ends: its parent then has its time."""
    processes = list(_list_processes(proc))
    total = sum(process.ended_ticks for process in processes if process.pid == pid)
    parents = {pid}
    while parents:
        children = [process for process in processes if process.parent in parents]
        total += sum(process.own_ticks + process.ended_ticks for process in children)
        parents = {process.pid for process in children}
    return total


def _list_processes(proc: Path) -> Iterator[_Process]:
    for folder in proc.iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            # It ended while we were looking.
            continue
        # After the command in brackets, counted from 0: 1 is the parent, 11 and 12 are user and system ticks, 13 and 14
        # those of ended children (proc(5)).
        fields = text.rpartition(")")[2].split()
        own, ended = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
        yield _Process(int(folder.name), parent=int(fields[1]), own_ticks=own, ended_ticks=ended)
