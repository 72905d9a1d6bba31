"""Run a command and wait for all of its descendants: `python reap.py COMMAND…`.

PySpark starts its JVM and does not wait for it. The kernel counts the CPU time of a process for its parent only if the
parent waits for it, so the JVM's would be missing from what the command has used. This program is the reaper of all
descendants (PR_SET_CHILD_SUBREAPER), and ends when the last one has ended.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

_PR_SET_CHILD_SUBREAPER = 36


def main(command: list[str]) -> int:
    """Run the command, and return its exit code."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl failed")
    with subprocess.Popen(command) as process:
        code = process.wait()
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
