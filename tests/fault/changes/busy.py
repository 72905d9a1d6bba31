"""A child process that changes one connector again and again, at random, as one operator of several.

    python -m tests.fault.changes.busy NAME SECONDS SEED

It tells one JSON object a line: `opened` when it has its lock, then how the change ended. On a busy machine it goes on
for up to twice as long, until two of its changes are done.
"""

from __future__ import annotations

import json
import random
import sys
import time

import seamark
from seamark.changes.outcome import SilentProgress
from seamark.errors import SeamarkError
from tests.fault.guarded import build_planned

# Changes of one operator.
ENOUGH = 2


def say(**told):
    """One line, at once."""
    print(json.dumps(told), flush=True)


class Speaking(SilentProgress):
    """Says when a change has its lock."""

    def __init__(self):
        self.change = ""

    def opened(self, change, *, steps):
        self.change = change
        say(event="opened", change=change, steps=steps)


def plan_one(fleet, name, rng):
    """A random change: of the config, of the run state, or of the config while it is stopped."""
    verb, value = rng.choice(("set", "set", "guarded", "guarded", "pause", "resume", "stop")), str(rng.getrandbits(30))
    if verb == "guarded":
        return build_planned(fleet, f"connect/{name}", key="mark", value=value)
    if verb == "set":
        return fleet.connectors.set(f"connect/{name}", {"mark": value}, wait_seconds=0)
    return getattr(fleet.connectors, verb)(f"connect/{name}")


def change_once(fleet, name, rng):
    """Try one change; say what became of it, and give whether it is done."""
    progress = Speaking()
    try:
        result = fleet.apply(plan_one(fleet, name, rng), progress=progress)
        if result.ending is None:
            # A rebalance kept it from its end: who is told so types `journal resume`, and the lock is free again.
            result = fleet.journal.resume(result.change)
        say(event="ended", change=result.change, ending=result.ending, opened=bool(progress.change))
        return result.ending == "done" and bool(progress.change)
    except SeamarkError as error:
        say(event="failed", change=progress.change, code=error.code, message=error.message, cause=error.cause)
    return False


def main(name, seconds, seed):
    rng = random.Random(int(seed))
    begin, done = time.monotonic(), 0
    with seamark.open() as fleet:
        while time.monotonic() < begin + float(seconds) * (1 if done >= ENOUGH else 2):
            done += change_once(fleet, name, rng)
            time.sleep(rng.uniform(0, 0.5))
    say(event="over")


if __name__ == "__main__":
    main(*sys.argv[1:])
