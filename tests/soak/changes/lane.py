"""One connector and what is done to it again and again: a guarded change, killed or stopped at a random time."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from datetime import datetime

from seamark.devstack.process import wait_until
from tests.fault.history import find_breaks, find_last, read_history
from tests.fault.rig import Rig, kill_quietly
from tests.soak.proxy import write_context

# From its start, a guarded change takes 3 to 7 s on two busy cores; from when it is open, 2 to 4 s.
KILL_SECONDS = (0.5, 7.0)
OPEN_KILL_SECONDS = (0.0, 3.5)
STOP_SECONDS = (0.2, 3.0)
RESUME_SECONDS = (0.4, 12.0)
# What I2 allows until a terminal state.
RECOVERY_SECONDS = 120
DEPTH = 3
# The last part of a request's path for what a step does.
VERBS = {"STOPPED": "stop", "RUNNING": "resume", "PAUSED": "pause"}


class Lane:
    """The connector, its proxies, what was counted and every violation that was seen."""

    def __init__(self, stack, folder, *, journal, seed, proxies):
        folder.mkdir(parents=True)
        self.rig = Rig(stack, folder, journal=journal, topic=f"soak-{folder.name}")
        self.rig.env["SEAMARK_CONFIG"] = str(write_context(stack, folder, proxies))
        self.seed = seed
        self.counts = Counter()
        self.violations = []
        self._proxies = proxies
        self._rng = random.Random(seed)

    def begin(self):
        code, _, err = self.rig.seamark("init", "--yes")
        assert code == 0, err
        self.rig.create()

    def run_until(self, deadline):
        """Cycle after cycle; then the history as a whole."""
        self.begin()
        while time.monotonic() < deadline:
            self.cycle()
        changes = read_history(self.rig)
        for broken in find_breaks(changes):
            self._violate("I7", broken)
        last = find_last(changes)
        if last and last["config"]["config"] | {"name": self.rig.name} != self.rig.config():
            self._violate("I7", "the journal's last image is not what Connect holds")
        self.counts["changes"] = len(changes)
        self.rig.delete()

    def cycle(self):
        """One change, broken off or not; what is open is resumed; then everything is checked."""
        wait_until(self.rig.runs, f"{self.rig.name} ran", seconds=120, every_seconds=0.2)
        known = {change.id for change in read_history(self.rig)}
        before = self.rig.config()
        after = before | {"mark": str(self._rng.getrandbits(30))}
        self.counts["cycles"] += 1
        process = self.rig.start("tests.fault.guarded", self.rig.owner, "mark", after["mark"])
        # Most of the time the clock begins when the change is open: that is where it hurts.
        is_open = self._rng.random() < 0.8 and process.stdout.readline().startswith("opened")
        code = self._disturb(process, OPEN_KILL_SECONDS if is_open else KILL_SECONDS)
        change = self._find_new(known)
        if change is None:
            if code == 0 or self.rig.config() != before:
                self._violate("I8" if code == 0 else "I1", f"exit {code} without a change in the journal")
            return
        if code == 0 and not (change.ending == "done" and self.rig.config() == after):
            self._violate("I8", f"exit 0, and the change ended as {change.ending}", change)
        if self.rig.config() not in (before, after):
            self._violate("I2", "neither the before-image nor the after-image after the kill", change)
        if not change.is_closed:
            self.counts["in mid-change"] += 1
            self._resume(change)
        self._check_end(self._find(change.id), before, after)

    def _disturb(self, process, seconds):
        """Kill it at a random time, or stop and continue it, and then perhaps kill it. Gives its exit code."""
        try:
            self._wait(process, self._rng.uniform(*seconds))
            if self._rng.random() < 0.2 and process.poll() is None:
                process.send_signal(signal.SIGSTOP)
                self.counts["stops"] += 1
                time.sleep(self._rng.uniform(*STOP_SECONDS))
                process.send_signal(signal.SIGCONT)
                self._wait(process, self._rng.choice((60.0, self._rng.uniform(0, 2))))
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=60)
        finally:
            kill_quietly(process)
        self.counts["kills"] += process.returncode == -signal.SIGKILL
        return process.returncode

    def _wait(self, process, seconds):
        """Let it go on for a time, or to its end."""
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            return

    def _resume(self, change):
        """`journal resume`, which may be killed too, until it is let through."""
        arguments = ("tests.fault.cli", "journal", "resume", change.id, "--yes")
        for _ in range(DEPTH - 1):
            if self._rng.random() > 0.25 or self._find(change.id).is_closed:
                break
            self.counts["killed resumes"] += self._disturb(self.rig.start(*arguments), RESUME_SECONDS) < 0
        if self._find(change.id).is_closed:
            return
        begun = time.monotonic()
        code, out, err = self.rig.run(*arguments, timeout=RECOVERY_SECONDS * 2)
        self.counts["resumes"] += 1
        took = time.monotonic() - begun
        if code != 0:
            self._violate("I2", f"resume ended with {code}: {out}{err}", change)
        if took > RECOVERY_SECONDS:
            self._violate("I2", f"resume took {took:.0f} s", change)

    def _check_end(self, change, before, after):
        wanted = after if change.ending == "done" else before
        if not change.is_closed or self.rig.config() != wanted:
            self._violate("I2", f"it ended as {change.ending}, and the config is not that", change)
        if self.rig.state() != "RUNNING":
            self._violate("I6", f"the connector is {self.rig.state()}", change)
        self._check_intents(change)

    def _check_intents(self, change):
        """Every request had its intent in the journal before it, and none was sent twice on the word of one."""
        intents = [
            (datetime.fromisoformat(entry.at).timestamp(), _verb_of(change.steps[entry.body["step"]]))
            for entry in change.entries
            if entry.kind == "intent"
        ]
        opened = min(at for at, _ in intents) if intents else float("inf")
        sent = [request for proxy in self._proxies for request in proxy.requests.pop(self.rig.name, [])]
        # What was answered with 409 did not happen, and is tried again on the same intent.
        mine = [r for r in sent if r.at >= opened and not r.may_be_repeated]
        self.counts["requests"] += len(mine)
        for request in mine:
            if not any(verb == request.verb and at <= request.at for at, verb in intents):
                self._violate("I1", f"a {request.verb} at {request.at} had no intent before it", change)
        for verb, count in Counter(request.verb for request in mine).items():
            if count > sum(wanted == verb for _, wanted in intents):
                self._violate("I1", f"{count} requests to {verb} on fewer intents", change)
        for request in [r for r in sent if r.at < opened and not r.may_be_repeated]:
            self._violate("I1", f"a {request.verb} at {request.at}, before any intent", change)

    def _find(self, wanted):
        return next(change for change in read_history(self.rig) if change.id == wanted)

    def _find_new(self, known):
        new = [change for change in read_history(self.rig) if change.id not in known]
        if len(new) > 1:
            self._violate("I7", "one process began two changes")
        return new[0] if new else None

    def _violate(self, invariant, words, change=None):
        sentence = f"{invariant}: {words} [{self.rig.name}, {self.rig.journal}, cycle {self.counts['cycles']}"
        self.violations.append(f"{sentence}, change {change.id if change else '-'}, seed {self.seed}]")
        print(f"VIOLATION {self.violations[-1]}", flush=True)


def _verb_of(step):
    return "config" if step["kind"] == "put-config" else VERBS[step["arguments"]["state"]]
