"""Four operators change one connector at once, at random, and one of them is stopped in the middle of a change."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections import Counter

import pytest

from seamark.devstack.process import wait_until
from tests.fault.history import find_breaks, find_last, read_history
from tests.fault.rig import kill_quietly, wait_stopped

OPERATORS = 4
SECONDS = 60
STOPPED_SECONDS = 20
# Somebody gives the stopped one up after this long.
PATIENCE_SECONDS = 6


class Operator:
    """One child, and what it said so far."""

    def __init__(self, rig, seed):
        self.process = rig.start("tests.fault.changes.busy", rig.name, str(SECONDS), str(seed))
        self.said = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.said.append(json.loads(line))

    def holds(self):
        """Whether it is in the middle of a change."""
        return bool(self.said) and self.said[-1]["event"] == "opened"

    def end(self, *, seconds):
        """Wait for its end; it must be a good one."""
        self.process.wait(seconds)
        self._reader.join(10)
        errors = self.process.stderr.read()
        assert self.process.returncode == 0, errors
        assert self.said[-1] == {"event": "over"}

    def told(self, event, **values):
        return [said for said in self.said if said["event"] == event and values.items() <= said.items()]


def stop_in_mid_change(operator, rng):
    """SIGSTOP it at a random moment at which it holds its lock; gives the change in its hand."""
    while True:
        wait_until(operator.holds, "the operator had a lock", seconds=SECONDS, every_seconds=0.005)
        time.sleep(rng.uniform(0, 1))
        operator.process.send_signal(signal.SIGSTOP)
        wait_stopped(operator.process)
        if operator.holds():
            return operator.said[-1]["change"]
        operator.process.send_signal(signal.SIGCONT)


@pytest.mark.timeout(600)
def test_four_operators_make_one_history(rig):
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    rng = random.Random(seed)
    operators = [Operator(rig, seed + number) for number in range(OPERATORS)]
    victim = operators[0]
    try:
        time.sleep(rng.uniform(5, 12))
        taken = stop_in_mid_change(victim, rng)
        stopped_at = time.monotonic()
        time.sleep(PATIENCE_SECONDS)
        code, _, err = rig.seamark("journal", "resume", taken, "--yes")
        # It may have stopped between its last entry and the word that it is done.
        was_open = code == 0
        assert was_open or "is closed" in err, err
        time.sleep(max(0.0, STOPPED_SECONDS - (time.monotonic() - stopped_at)))
        victim.process.send_signal(signal.SIGCONT)
        for operator in operators:
            operator.end(seconds=2 * SECONDS + 60)
    finally:
        for operator in operators:
            kill_quietly(operator.process)
    check_what_they_say(operators, rig, taken=taken if was_open else None)


def check_what_they_say(operators, rig, *, taken):
    changes = read_history(rig)
    who = {said["change"]: number for number, one in enumerate(operators) for said in one.told("opened")}
    counts = Counter(said.get("code", said.get("ending")) for one in operators for said in one.said)
    done = [change for change in changes if change.ending == "done"]
    print(f"{rig.journal}: {len(changes)} changes, {len(done)} done, {dict(counts)}")

    assert find_breaks(changes) == []
    assert find_last(changes)["config"]["config"] | {"name": rig.name} == rig.config()
    assert find_last(changes)["state"]["state"] == rig.state()
    # Who said done is right, and every change is somebody's.
    said_done = {said["change"] for one in operators for said in one.told("ended", ending="done") if said["opened"]}
    assert said_done <= {change.id for change in done}
    assert len(done) >= 6
    assert len({who[change.id] for change in done if change.id in who}) >= 2
    # Others are refused, and nobody who has its lock loses it, but the one that was stopped and taken over.
    fenced = [
        (number, said["change"]) for number, one in enumerate(operators) for said in one.told("failed", code="FENCED")
    ]
    assert fenced == ([(0, taken)] if taken else [])
    assert counts["LOCKED"] > 0
    # Connect may be unable to tell in a rebalance, or be too slow: whoever is told so has changed nothing.
    hindered = {"UNREACHABLE", "UNSETTLED", "DEADLINE"}
    assert set(counts) - {None, "done", "failed", "partly", "LOCKED", "STALE_PLAN", "FENCED"} - hindered == set()
