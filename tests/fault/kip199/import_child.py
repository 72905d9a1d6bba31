"""Runs `connect-offsets` again and again, each time in a process of its own that may be killed.

It loads everything once and forks. A line on standard input is JSON: the arguments; after how many seconds the process
is killed, or null; and whether they count from its beginning or from the moment its change is open. The answer is its
exit code, -9 where it was killed, and for how many seconds it lived from the opening of its change.
"""

from __future__ import annotations

import io
import json
import os
import select
import signal
import sys
import time

import seamark.changes.file_journal
import seamark.fleet.worker_fleet
import seamark.kip199.plans  # noqa: F401 - all of them are loaded before the first fork
from seamark.cli.connect_offsets import execute
from seamark.cli.session import Session


class Telling(io.StringIO):
    """Standard error that tells through a pipe when the change is open."""

    def __init__(self, pipe):
        super().__init__()
        self.pipe = pipe

    def write(self, text):
        if text.startswith("Change "):
            os.write(self.pipe, b"!")
        return super().write(text)


def run(argv, err):
    """The program, silent."""
    return execute(argv, session=Session(out=io.StringIO(), err=err, stdin=io.StringIO("{}")))


def run_apart(argv, seconds, from_open):
    """The program in a process of its own, which is this one's child until it is waited for: its pid is its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os._exit(run(argv, Telling(writing)))
    os.close(writing)
    began_at = time.monotonic()
    # It ends where the process does.
    is_open = False
    while from_open and select.select([reading], [], [], 60)[0]:
        is_open, began_at = bool(os.read(reading, 1)), time.monotonic()
        break
    deadline = None if seconds is None else began_at + seconds
    while True:
        done, status = os.waitpid(child, 0 if deadline is None else os.WNOHANG)
        if done:
            os.close(reading)
            return os.waitstatus_to_exitcode(status), time.monotonic() - began_at if is_open else 0.0
        if time.monotonic() >= deadline:
            os.kill(child, signal.SIGKILL)
            deadline = None
        else:
            time.sleep(0.0005)


def main():
    """Serve until standard input ends."""
    # What a first run would still load, before anybody is in a hurry.
    run(["--import", "--config=/nonexistent"], io.StringIO())
    for line in sys.stdin:
        code, lived = run_apart(*json.loads(line))
        os.write(1, f"{json.dumps([code, lived])}\n".encode())


if __name__ == "__main__":
    main()
