"""One owner whose offsets are moved and put back again and again, killed, stopped and taken over at random times."""

from __future__ import annotations

import random
import time
import traceback
from collections import Counter

from tests.fault.rig import Rig
from tests.soak.intents import check_intents, read_spooled
from tests.soak.offsets.command import HANG_SECONDS, UNKNOWN, Command, disturb
from tests.soak.offsets.journal_reader import JournalReader
from tests.soak.offsets.offset_history import find_breaks, find_written
from tests.soak.offsets.undecidable import check_forced, check_held, find_advised, find_nonce, find_unknown
from tests.soak.proxy import write_context

# Long enough for what Connect does while servers die, short enough for many changes; Connect's own 90 s has a case of
# its own in the fault tier. The quiet before a write is the product's own 6 s with it.
IN_FLIGHT = "30s"
# What I2 allows until a terminal state, where no server died meanwhile.
RECOVERY_SECONDS = 120
RESUMES = 10
UNDOS = 8
UNDO_SHARE = 0.6
RESUME_SHARE = 0.35


class OffsetLane:
    """The owner, its journal, what was counted and every violation that was seen."""

    def __init__(self, owner, *, journal, seed, proxies, chaos, resume_share=RESUME_SHARE):
        folder = owner.site.folder / owner.name
        folder.mkdir(parents=True)
        self.owner, self.seed = owner, seed
        self.rig = Rig(owner.site.stack, folder, journal=journal, in_flight=IN_FLIGHT, topic=f"journal-{owner.name}")
        self.rig.name = owner.name
        self.rig.env["SEAMARK_CONFIG"] = str(write_context(owner.site.stack, folder, proxies))
        self.counts = Counter()
        self.slowest_seconds = 0.0
        self.violations = []
        # The changes that were closed with --force, because seamark said so.
        self.undecidable = set()
        self.doing = "begins"
        self._proxies, self._chaos, self._resume_share = proxies, chaos, resume_share
        self._journal = JournalReader(self.rig)
        self._rng = random.Random(seed)

    def begin(self):
        """Its journal and the owner itself."""
        command = Command(self.rig, "init", "--yes")
        command.wait(HANG_SECONDS)
        said = command.end()
        assert command.code == 0, said
        self.owner.begin()

    def run_until(self, over):
        """Cycle after cycle until an event is set; then everything as a whole."""
        try:
            while not over.is_set():
                self.cycle()
            self.doing = "is checked as a whole"
            self._check_whole()
        except Exception:  # noqa: BLE001 - a lane that breaks is told with the violations, and the others go on
            self._violate("lane", f"it broke while it {self.doing}: {traceback.format_exc()}")
        self._journal.close()
        self.doing = "is over"

    def cycle(self):
        """One change and its undo, each broken off or not and then finished; then everything is checked."""
        self.counts["cycles"] += 1
        self._prepare()
        before, raw = self.owner.hold(), self.owner.hold_raw()
        wish = self.owner.draw(before)
        begun_at = time.time()
        change, code = self._change(*wish.arguments, "--yes")
        if change is None:
            self.counts[f"without a change: {code}"] += 1
            if code == 0:
                self._violate("I8", f"exit 0 without a change in the journal: {wish.arguments}: {self.last_said}")
            self._check_position(before, raw, None, begun_at=begun_at)
            return
        self._check_end(change, code)
        if change.id in self.undecidable:
            self._check_undecidable(change, before, wish.after)
            return
        is_written = find_written(change)
        self._check_position(
            wish.after if is_written else before, None if is_written else raw, change, begun_at=begun_at
        )
        if is_written:
            self.counts["moves"] += 1
            self._undo(change, before, raw)

    def _prepare(self):
        """Another run state, and more to read."""
        self.doing = "prepares"
        state = self._rng.choice(self.owner.states)
        if state == "RUNNING":
            self.owner.grow()
        self.owner.set_state(state)
        if state == "STOPPED" and self._rng.random() < 0.5:
            self.owner.grow()

    def _change(self, *arguments, share=1.0):
        """A command that makes a change, disturbed, and what it left open finished: the change or None, exit code."""
        self.doing = f"runs {' '.join(arguments)}"
        known = {change.id for change in self._journal.read()}
        command = Command(self.rig, *arguments)
        is_over = disturb(command, self._rng, self.counts, lambda: self._take_over(known), share=share)
        said = self._end(command, is_over=is_over)
        change = self._find_new(known)
        if change is not None and not change.is_closed:
            self.counts["in mid-change"] += 1
            if command.code >= 0 and not is_advised(said, "journal resume", "was taken over by another"):
                self._violate(
                    "I2", f"it ended with {command.code}, open, and nobody was told what to type: {said}", change
                )
            change = self._finish(change)
        self.last_said = said
        return change, command.code

    def _end(self, command, *, is_over):
        said = command.end()
        self.counts["unknown"] += said.count(UNKNOWN)
        self.counts["commands"] += 1
        self.counts["crashes"] += command.is_crashed
        if command.code != 0 and not command.is_killed:
            words, last = " ".join(command.arguments), " / ".join(said.split("\n")[-6:])
            print(f"{time.strftime('%H:%M:%S')} {self.owner.name}: exit {command.code}: {words}: {last}", flush=True)
        if not is_over:
            self._violate("I2", f"{' '.join(command.arguments)} hung: {said}")
        return said

    def _take_over(self, known):
        """Resume what a stopped process has begun, if it has."""
        change = self._find_new(known)
        if change is None or change.is_closed:
            return False
        self._resume(change, share=0.0)
        return True

    def _finish(self, change):
        """`journal resume`, which may be killed too, until the change is closed; `journal unlock` where it says so."""
        for attempt in range(RESUMES):
            said = self._resume(change, share=self._resume_share if attempt < 3 else 0.0)
            if find_advised(said) == change.id:
                self._unlock(change)
            change = self._find(change.id)
            if change.is_closed:
                return change
            self.counts["resumes repeated"] += 1
            time.sleep(2)
        self._violate("I2", f"it is open after {RESUMES} resumes", change)
        return change

    def _resume(self, change, *, share):
        self.doing = f"resumes {change.id}"
        begun, begun_at = time.monotonic(), time.time()
        command = Command(self.rig, "journal", "resume", change.id, "--yes")
        is_over = disturb(command, self._rng, self.counts, lambda: False, share=share)
        took = time.monotonic() - begun
        said = self._end(command, is_over=is_over)
        if command.code < 0:
            self.counts["killed resumes"] += command.is_killed
            return said
        self.counts["resumes"] += 1
        self.slowest_seconds = max(self.slowest_seconds, took)
        if self._find(change.id).is_closed:
            if took > RECOVERY_SECONDS and not self._chaos.died_within(took + 120, begun_at + took):
                self._violate("I2", f"resume took {took:.0f} s", change)
        elif not is_advised(said, "journal resume") and count_holders(self._find(change.id)) > count_holders(change):
            self._violate("I2", f"a resume ended with {command.code}, and nobody was told what to type: {said}", change)
        return said

    def _unlock(self, change):
        """Close an undecidable change with the command that its error and `journal show` print."""
        self.doing = f"unlocks {change.id}"
        shown = self._run("journal", "show", change.id)
        nonce = find_nonce(shown, change.id)
        if nonce is None:
            # The brokers may be down for this command as well; the next resume says the same again.
            self.counts["unlocks without a nonce"] += 1
            return
        self._run("journal", "unlock", change.id, "--holder", nonce, "--force", "--yes")
        change = self._find(change.id)
        # The look that `unlock` takes may have decided it.
        if not change.is_closed or not find_unknown(change):
            return
        if wrong := check_forced(change):
            self._violate("I2", f"it was closed as undecidable: {wrong}", change)
            return
        self.undecidable.add(change.id)
        self.counts["undecidable"] += 1

    def _run(self, *arguments):
        """Run a command to its end, undisturbed. Return what it said."""
        command = Command(self.rig, *arguments)
        return self._end(command, is_over=command.wait(HANG_SECONDS))

    def _undo(self, change, before, raw):
        """`journal undo`, which may be killed too, until it is done; then all is as before."""
        begun_at = time.time()
        for _ in range(UNDOS):
            kills = self.counts["kills"]
            back, code = self._change("journal", "undo", change.id, "--yes", share=UNDO_SHARE)
            self.counts["killed undos"] += self.counts["kills"] > kills
            if back is not None:
                self._check_end(back, code)
                if back.ending == "done":
                    break
            elif code == 0:
                # What runs may have come back to where it stood by itself: then there is nothing to undo.
                break
            self.counts["undos repeated"] += 1
            time.sleep(3)
        else:
            self._violate("I4", f"it could not be undone {UNDOS} times: {self.last_said}", change)
            return
        self.counts["undos"] += 1
        self._check_position(before, raw, back, begun_at=begun_at, invariant="I4")

    def _check_end(self, change, code):
        """It is closed; exit code 0 says so; and what ran runs again."""
        if not change.is_closed:
            self._violate("I2", "it is still open", change)
        if code == 0 and change.ending != "done":
            self._violate("I8", f"exit 0, and it ended as {change.ending}", change)
        if change.ending == "done" and not find_written(change):
            self._violate("I8", "it ended as done, and its write did not happen", change)
        self._check_state(change)

    def _check_state(self, change):
        self.doing = "waits for rest"
        try:
            self.owner.come_to_rest()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is not at rest
            self._violate("I6", f"it is not {self.owner.state} again: {error}", change)
            self.owner.set_state(self.owner.state)

    def _check_position(self, wanted, raw, change, *, begun_at, invariant="I2"):
        """What is held is what is wanted. What runs has read everything by now; there the records show it."""
        self.owner.come_to_rest()
        if self.owner.state != "RUNNING":
            found = self.owner.hold()
            if found != wanted:
                self._violate(invariant, f"{found} is held, and not {wanted}", change)
            # REST spells values its own way: to the byte it is only where nobody wrote, or all of it went by the topic.
            if raw is not None and (self.owner.is_exact or change is None) and self.owner.hold_raw() != raw:
                self._violate(invariant, f"{self.owner.hold_raw()} is held, and not {raw} to the byte", change)
        elif change is not None and find_written(change):
            wrong = self.owner.find_unwritten(wanted, begun_at)
            if wrong:
                self._violate(invariant, wrong, change)

    def _check_undecidable(self, change, before, after):
        """Check what remains of the invariants if nothing can tell whether a change was written.

        Offsets of an owner that runs have moved on: what it delivered is checked at the end, as that of every owner.
        """
        self.owner.come_to_rest()
        if self.owner.state != "RUNNING" and (wrong := check_held(self.owner.hold(), before, after)):
            self._violate("I2", wrong, change)

    def _check_whole(self):
        """The journal as one line, every request, and all that was delivered."""
        self.owner.set_state(self.owner.states[0])
        changes = self._journal.read()
        self.counts["changes"] = len(changes)
        spooled = read_spooled(self.rig.folder)
        self.counts["without the journal"] = len(spooled)
        is_still = len(set(self.owner.states)) == 1
        for broken in find_breaks(
            changes,
            is_still=is_still,
            spooled={change for change, _, _ in spooled},
            undecidable=self.undecidable,
        ):
            self._violate("I7", broken)
        sent = [request for proxy in self._proxies for request in proxy.requests.get(self.owner.name, [])]
        sent.sort(key=lambda request: request.at)
        self.counts["requests"] = len(sent)
        self.counts["spoiled"] = sum(bool(request.spoiled) for request in sent)
        for wrong in check_intents(changes, sent, spooled):
            self._violate("I1", wrong)
        wrong, jumps = self.owner.check_data(changes, self._chaos.deaths)
        self.counts.update({f"jumps: {words}": count for words, count in jumps.items()})
        for words in wrong:
            self._violate("I3", words)
        self.counts.update(self.owner.counts)

    def _find(self, wanted):
        return next(change for change in self._journal.read() if change.id == wanted)

    def _find_new(self, known):
        new = [change for change in self._journal.read() if change.id not in known]
        if len(new) > 1:
            self._violate("I7", "one process began two changes")
        return new[0] if new else None

    def _violate(self, invariant, words, change=None):
        sentence = f"{invariant}: {words} [{self.owner.name}, {self.rig.journal}, cycle {self.counts['cycles']}"
        self.violations.append(f"{sentence}, change {change.id if change else '-'}, seed {self.seed}]")
        print(f"{time.strftime('%H:%M:%S')} VIOLATION {self.violations[-1]}", flush=True)


def is_advised(said, *wanted):
    """Whether a command that left a change open printed what to type next."""
    return any(words in said for words in wanted) or find_advised(said) is not None


def count_holders(change):
    """How many processes have had a change in hand. One that could not take it over is just to be repeated."""
    return sum(entry.kind in ("open", "taken") for entry in change.entries)
