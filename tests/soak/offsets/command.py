"""One seamark command as a child process, that can be killed, stopped and taken over at a random time."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import uuid
from collections import Counter

# How a command is disturbed: mostly killed.
WAYS = ("nothing", "nothing", *["kill"] * 6, "stop", "takeover")
# From its start a change of offsets takes 10 to 20 s on two busy cores; from when it is open 8 to 15 s.
KILL_SECONDS = (0.3, 12.0)
OPEN_KILL_SECONDS = (0.0, 8.0)
STOP_SECONDS = (0.5, 6.0)
# Nobody waits longer for one command than the times of all its steps together; a hang is a violation.
HANG_SECONDS = 420
UNKNOWN = "no answer yet"


class Command:
    """A child process whose words go to files, so that one can look at them while it goes on."""

    def __init__(self, rig, *arguments):
        self.arguments = arguments
        self._out = rig.folder / f"{uuid.uuid4().hex}.out"
        self._err = self._out.with_suffix(".err")
        with self._out.open("w") as out, self._err.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.fault.cli", *arguments],
                env=rig.env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    @property
    def said(self):
        """All that it said so far."""
        return self._out.read_text(errors="replace") + self._err.read_text(errors="replace")

    @property
    def code(self):
        return self.process.returncode

    @property
    def is_killed(self):
        return self.code == -signal.SIGKILL

    @property
    def is_crashed(self):
        """Whether a signal that nobody sent ended it: an assertion of librdkafka does."""
        return self.code < 0 and not self.is_killed

    def await_open(self, seconds):
        """Wait until it has opened a change, or its end."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            if "Change 0" in self._err.read_text(errors="replace"):
                return
            time.sleep(0.05)

    def wait(self, seconds):
        """Let it go on for a time, or to its end. Gives whether it has ended."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def send(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)

    def end(self):
        """Make sure that it is gone, and throw its files away. Gives what it said."""
        self.send(signal.SIGCONT)
        self.send(signal.SIGKILL)
        self.process.wait(30)
        said = self.said
        self._out.unlink(missing_ok=True)
        self._err.unlink(missing_ok=True)
        return said


def disturb(command, rng, counts: Counter, take_over, *, share=1.0):
    """Let a command go on and break in at a random time. `take_over` resumes what it has begun while it stands still.

    Gives whether it came to an end within all patience.
    """
    way = rng.choice(WAYS) if rng.random() < share else "nothing"
    if way == "nothing":
        return command.wait(HANG_SECONDS)
    is_timed_from_open = rng.random() < 0.8
    if is_timed_from_open:
        command.await_open(60)
    command.wait(rng.uniform(*(OPEN_KILL_SECONDS if is_timed_from_open else KILL_SECONDS)))
    if command.process.poll() is not None:
        return True
    if way == "kill":
        command.send(signal.SIGKILL)
        command.wait(30)
        counts["kills"] += command.is_killed
        return True
    command.send(signal.SIGSTOP)
    if way == "takeover":
        counts["takeovers"] += bool(take_over())
    else:
        counts["stops"] += 1
        time.sleep(rng.uniform(*STOP_SECONDS))
    command.send(signal.SIGCONT)
    return command.wait(HANG_SECONDS)
