"""A guarded change that is held in the middle, so that something can break under it; and what it must have said."""

from __future__ import annotations

import re
import signal
from contextlib import contextmanager

from seamark.devstack.process import wait_until
from seamark.errors import DevstackError
from tests.fault.rig import SETTLE_SECONDS, kill_quietly, wait_stopped
from tests.integration.waits import TRIES, says_hindered

# The connector is stopped and nothing else was done; the config is about to be put; it was put, and is to be restored.
POINTS = ("after-outcome:0", "after-intent:1", "after-outcome:1")
VALUE = "7"


class Midway:
    """The change in the middle of which a test stands. `go_on` lets it go."""

    def __init__(self, rig, holder):
        self.rig = rig
        self.before = rig.config()
        self.after = self.before | {"mark": VALUE}
        self._holder = holder
        self.code, self.out, self.err = None, "", ""

    def go_on(self, *, seconds=240):
        """Continue it and wait for its end. Connect alone may take 90 s to say that it can't."""
        self._holder.send_signal(signal.SIGCONT)
        self.out, self.err = self._holder.communicate(timeout=seconds)
        self.code = self._holder.returncode

    def told_command(self):
        """The one command that the operator was told to type."""
        told = set(re.findall(r"seamark (journal resume \w{26})", self.err))
        assert len(told) == 1, self.err
        return told.pop().split()

    def check_restored(self):
        """The connector runs again, with the old config or the new one, and nothing is left open."""
        wait_until(self.rig.runs, f"{self.rig.name} ran again", seconds=SETTLE_SECONDS, every_seconds=0.3)
        assert self.rig.config() in (self.before, self.after)
        assert [change["state"] for change in self.rig.list_by_command() if change["state"] == "open"] == []

    def type_what_was_told(self):
        """The operator types it when the fault is over; that must be enough, but for what a rebalance hinders."""
        code, out, err = self.rig.resume(self.told_command()[-1])
        assert code == 0, out + err
        self.check_restored()


def start_held(rig, point):
    """A child that stands at a point; started again where a rebalance kept it from there."""
    for _ in range(TRIES):
        holder = rig.start("tests.fault.guarded", rig.owner, "mark", VALUE, failpoint=f"{point}:stop")
        try:
            wait_stopped(holder)
            return holder
        except AssertionError as error:
            # It has ended, and the error holds what it said.
            if not says_hindered(str(error)):
                raise
        except DevstackError:
            kill_quietly(holder)
            raise
        rig.finish()
        wait_until(rig.runs, f"{rig.name} ran", seconds=SETTLE_SECONDS)
    raise AssertionError(f"{rig.name} was kept from {point} {TRIES} times")


@contextmanager
def hold_midway(rig, point):
    """Begin a guarded change and hold it at a point."""
    wait_until(rig.runs, f"{rig.name} ran", seconds=SETTLE_SECONDS)
    config = rig.config()
    holder = start_held(rig, point)
    try:
        midway = Midway(rig, holder)
        midway.before = config
        midway.after = config | {"mark": VALUE}
        yield midway
    finally:
        kill_quietly(holder)
