"""Running a program under strace, which lets its Nth call of a kind fail, or kills or stops it there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
RUN_SECONDS = 60.0


@dataclass(frozen=True)
class Traced:
    """How a traced run ended, what it said, and what strace saw."""

    code: int
    said: tuple[str, ...]
    log: str

    @property
    def is_hit(self) -> bool:
        """Whether the fault struck."""
        return "(INJECTED)" in self.log or "killed by SIGKILL" in self.log

    @property
    def acknowledged(self) -> list[int]:
        """The entries that the program was told are durable."""
        return [int(line.removeprefix("ack ")) for line in self.said if line.startswith("ack ")]


def build_command(program, *arguments, log, calls, paths=(), fault=""):
    """The command line. With `paths`, only calls on these very files and folders are seen and counted.

    --seccomp-bpf saves time, but strace 6.1 does not deliver an injected signal with it.
    """
    command = ["strace", "-f", "-y", "-s", "40", "-o", str(log), "-e", f"trace={calls}"]
    for path in paths:
        command += ["-P", str(path)]
    command += ["-e", f"inject={fault}"] if fault else []
    command += [] if "signal=" in fault else ["--seccomp-bpf"]
    # -S: the program needs no installed package, and hundreds of runs start faster without the search for them.
    return [*command, sys.executable, "-S", str(program), *map(str, arguments)]


def build_environment(cache):
    """The program's environment. Compiled modules go to `cache`: no run compiles anew or writes into the checkout."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    path = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    return environment | {"PYTHONPATH": path, "PYTHONPYCACHEPREFIX": str(cache)}


def run_traced(command, *, log, cache):
    """Run a command of `build_command` to its end."""
    done = subprocess.run(
        command, env=build_environment(cache), capture_output=True, text=True, timeout=RUN_SECONDS, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Traced(done.returncode, said=tuple(done.stdout.splitlines()), log=Path(log).read_text())


def find_unsynced(log):
    """What was acknowledged or renamed before it was on the disk, from a log of writes, fsyncs and renames.

    Written bytes are on the disk after an fsync of their file; a rename after an fsync of the folder it went to.
    Lock files need neither: a lock ends with its process.
    """
    dirty, wrong, acks = set(), [], 0
    for line in log.splitlines():
        if found := re.search(r'\bwrite\(1<.*?>, "ack (\d+)', line):
            acks += 1
            wrong += [f"ack {found[1]} before fsync of {path}" for path in sorted(dirty)]
        elif found := re.search(r"\bwrite\(\d+<(.*?)>", line):
            # Below the journal's folder only: `changes` is a package too, and Python writes its compiled modules.
            is_entry = re.search(r"/journal/(changes|open|drafts)/.*(?<!\.lock)$", found[1])
            dirty |= {found[1]} if is_entry else set()
        elif found := re.search(r"\bfsync\(\d+<(.*?)>\) += 0", line):
            dirty.discard(found[1])
        elif found := re.search(r'\brename\w*\(.*?"(.*?)",.*?"(.*?)"', line):
            wrong += [f"rename before fsync of {found[1]}"] if found[1] in dirty else []
            # Python's own cache of compiled modules is renamed into place too, where it is cold.
            if "/journal/" in found[2] and not found[2].endswith(".lock"):
                dirty.add(found[2].rpartition("/")[0])
            dirty.discard(found[1])
    return wrong, acks
