"""Running a program under strace, which lets its Nth call of a kind fail, or kills or stops it there."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUN_SECONDS = 20.0


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
