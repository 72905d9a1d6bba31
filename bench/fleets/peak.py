"""Runs a program and says how much memory it had at most, into a file: `python -m bench.fleets.peak FILE PROGRAM…`.

Linux counts what a process was before it became another program: measured by a large bench, a small program looks as
large as the bench. This one is small.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def main(file: str, *command: str) -> int:
    """Run it to its end; gives its exit code."""
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    Path(file).write_text(str(usage.ru_maxrss * 1024))
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
