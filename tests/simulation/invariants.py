"""What must hold, whatever goes wrong: I1, I2, I6, I7, I8 of the design, and that no secret is in the journal.

I1 is checked by the ledger at each request. Here the journal is read as an operator would read it, and what it claims
is held against the truth: the newest outcome of each step on each side of each connector says what that side must be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from seamark.changes.history import ChangeHistory, read_past
from seamark.changes.images import is_sealed
from seamark.changes.journal import Ending, Entry, EntryKind, JournalPort, check_chain
from seamark.changes.locks import conflicts
from seamark.changes.outcome import GOOD, ChangeResult
from seamark.changes.plan import PlannedStep, build_tasks
from seamark.changes.step import Intent, Outcome
from seamark.connectors.run_state import SetRunState
from seamark.connectors.steps import CreateConnector
from seamark.errors import JournalError, TamperedJournalError
from tests.simulation.cluster import Cluster
from tests.simulation.faults import HARMLESS, Kind, Violation
from tests.simulation.journal import Store, Stored
from tests.simulation.scenario import Scenario, Secrets, Way
from tests.simulation.world import CANARY, CLUSTER, Spooled, seal

UNSURE = "unsure"
# Config images are compared with every value sealed: which ones a step seals depends on what it knows to be secret.
Image = Any


def canonical(image: Any) -> Image:
    """An image in a form in which images of different steps can be compared."""
    if image is None or "config" not in image:
        return image
    return {
        "config": {key: value["sealed"] if is_sealed(value) else seal(value) for key, value in image["config"].items()}
    }


class Invariants:
    """The checks of one run. `touched` are the sides that somebody without seamark changed."""

    def __init__(self, store: Store, cluster: Cluster, spooled: Sequence[Spooled]) -> None:
        self.touched: set[str] = set()
        self._foreign: dict[str, list[Image]] = {}
        self._store = store
        self._cluster = cluster
        self._spooled = spooled
        self._names: tuple[str, ...] = ()
        self._start: dict[str, Image] = {}
        self._read: dict[str, tuple[int, ChangeHistory | None, list[PlannedStep] | None]] = {}

    def begin(self, names: Iterable[str]) -> None:
        """Remember how everything was."""
        self._names = tuple(names)
        self._start = self._read_truth()

    def touch(self, name: str, side: str, image: Any) -> None:
        """Somebody else changed something. If a connector goes, all of it does."""
        aspect = f"connector/{CLUSTER}/{name}#{side}"
        self.touched.add(aspect)
        wrapped = {"config": image} if side == "config" and image is not None else image
        self._foreign.setdefault(aspect, []).append(canonical(wrapped))

    # --- at one moment -------------------------------------------------------------------------------------------

    def check_result(self, result: ChangeResult) -> None:
        """I8: what an operator is told is what the journal says."""
        stored = self._store.changes[result.change]
        ending = stored.entries[-1].body.get("ending") if not stored.is_open else None
        if ending != (None if result.ending is None else str(result.ending)):
            raise Violation(f"I8: the result says {result.ending}, and the journal says {ending}")

    def check_entry(self, stored: Stored) -> None:
        """I8: a change that is closed as done has a running system that is as its plan says, at that moment."""
        if self.is_done(stored.change):
            self._check_claims({stored.change}, "I8", truth=self._read_truth(), only_of=stored.change)

    def check_wound_up(self, error: JournalError, *, process: str) -> str:
        """I6 without a journal: if the error does not say that something was not restored, everything is."""
        if not error.hint.startswith("once the journal can be written again"):
            return ""
        if "not done" in error.message:
            return "journal failed, and what is left was told"
        stored = self._store.changes[error.context["change"]]
        if stored.writers[-1] != process:
            return "journal failed, and somebody took the change over"
        past, tasks = self._read_change(stored)
        truth = self._read_truth()
        for task in tasks:
            if not task.always or not isinstance(task.step, SetRunState) or task.aspect in self.touched:
                continue
            acted = any(other.aspect == task.aspect and other.number in past.intents for other in tasks)
            if acted and truth[task.aspect] != {"state": task.step.state}:
                raise Violation(f"I6: the journal failed, and {task.aspect} is {truth[task.aspect]}")
        return "journal failed, and everything was restored"

    def check_now(self) -> None:
        """I2 in the middle of a run."""
        self._check_claims(set(self._store.changes), "I2", truth=self._read_truth())

    def check_reached(self, change: str, scenario: Scenario, *, hit: set[Kind]) -> None:
        """What a crash interrupts, resume finishes: kills and stops alone never make a change fail."""
        stored = self._store.changes[change]
        if stored.is_open:
            return
        begun = any(entry.kind is EntryKind.INTENT for entry in stored.entries)
        # Without the secrets, which died with the process, a step can't be done again.
        forgetful = any(lane.secrets in (Secrets.LITERAL, Secrets.CHANGED) for lane in scenario.lanes)
        too_slow = any(lane.secrets is Secrets.KEPT for lane in scenario.lanes)
        resumed = all(turn.way is Way.RESUME for turn in scenario.rounds)
        impossible = any(entry.body.get("error", {}).get("code") == "REFUSED" for entry in stored.entries)
        if begun and resumed and not forgetful and not too_slow and not impossible and hit <= HARMLESS:
            ending = stored.entries[-1].body["ending"]
            if ending != Ending.DONE:
                raise Violation(f"a change met only {sorted(hit)} and ended as {ending}")

    def is_done(self, change: str) -> bool:
        """Whether a change is closed and done."""
        last = self._store.changes[change].entries[-1]
        return last.kind is EntryKind.CLOSE and last.body["ending"] == Ending.DONE

    def check_undone(self, change: str) -> None:
        """Undo leaves everything that the change touched as it was before it."""
        if self._store.changes[next(reversed(self._store.changes))].entries[0].body["title"] != "undo first":
            return
        truth = self._read_truth()
        past, tasks = self._read_change(self._store.changes[change])
        first: dict[str, Intent] = {}
        made: set[str] = set()
        for task in tasks:
            intent = past.intent_of(task.number)
            acted = past.outcomes.get(task.number) in (Outcome.DONE, Outcome.UNKNOWN)
            if not acted or intent is None or task.step.drifts:
                continue
            # What was done to a connector that the change itself had made goes with it.
            if task.step.subject not in made:
                first.setdefault(task.aspect, intent)
            if intent.before is None:
                made.add(task.step.subject)
        for aspect, intent in first.items():
            if aspect not in self.touched and truth[aspect] != canonical(intent.before):
                raise Violation(f"undo: {aspect} is {truth[aspect]}, and was {canonical(intent.before)}")

    # --- at the end ----------------------------------------------------------------------------------------------

    def check_end(self) -> None:
        """Everything that can be said when nothing is in flight any more."""
        self._check_secrets()
        self._check_chains()
        self._check_claims(set(self._store.changes), "I2", truth=self._read_truth())
        for stored in self._store.changes.values():
            self._check_restored(stored)
            self._check_no_overwrite(stored)

    def check_read(self, journal: JournalPort) -> None:
        """I8: whoever reads the journal now gets what is durable, and sees the changes that are open."""
        for stored in self._store.changes.values():
            if list(journal.read(stored.change)) != stored.entries:
                raise Violation(f"I8: change {stored.change} is read otherwise than it was written")
        found = {head.change: (head.last_number, head.last_hash, head.nonce) for head in journal.open_heads()}
        expected = {
            stored.change: (len(stored.entries) - 1, stored.hashes[-1], stored.nonce)
            for stored in self._store.open_changes()
        }
        if found != expected:
            raise Violation(f"I8: the heads {found} are not those of the open changes {expected}")

    def _check_secrets(self) -> None:
        texts = [data for stored in self._store.changes.values() for data in stored.data]
        if any(CANARY.encode() in data for data in texts) or any(CANARY in record.text for record in self._spooled):
            raise Violation("I9: a secret is in the journal")

    def _check_chains(self) -> None:
        """I7: one linear history for each lock."""
        opened: list[Stored] = []
        seen: dict[str, int] = {}
        for change, number in self._store.log:
            stored = self._store.changes[change]
            if number != seen.get(change, -1) + 1:
                raise Violation(f"I7: entry {number} of {change} follows entry {seen.get(change)}")
            seen[change] = number
            kind = stored.entries[number].kind
            if kind is EntryKind.OPEN:
                if any(conflicts(a, b) for other in opened for a in other.locks for b in stored.locks):
                    raise Violation(f"I7: {change} was opened under somebody else's lock")
                opened.append(stored)
            elif stored not in opened:
                raise Violation(f"I7: {change} goes on after its end")
            elif kind is EntryKind.CLOSE:
                opened.remove(stored)
        for stored in self._store.changes.values():
            if any(entry.previous != stored.hashes[number] for number, entry in enumerate(stored.entries[1:])):
                raise Violation(f"I7: an entry of {stored.change} doesn't contain the hash of the previous entry")
            if EntryKind.TAKEN in {entry.kind for entry in stored.entries}:
                self._check_chain(stored)

    def _check_chain(self, stored: Stored) -> None:
        """The same with the real check, which hashes every entry again, and with what a reader would get."""
        try:
            check_chain(Entry.from_bytes(data) for data in stored.data)
        except TamperedJournalError as error:
            raise Violation(f"I7: {error.message}") from None

    def _check_claims(
        self, changes: set[str], invariant: str, *, truth: Mapping[str, Image], only_of: str | None = None
    ) -> None:
        """What the journal says each side is must be what it is, and each step found what the one before it left."""
        claims: dict[str, Image] = {} if only_of else dict(self._start)
        for stored in self._store.changes.values():
            if stored.change in changes:
                self._fold(stored, claims, invariant)
        for aspect, claim in claims.items():
            if aspect in self.touched or claim == UNSURE:
                continue
            if truth[aspect] != claim:
                raise Violation(f"{invariant}: {aspect} is {truth[aspect]}, and the journal says {claim}")

    def _fold(self, stored: Stored, claims: dict[str, Image], invariant: str) -> None:
        past, tasks = self._read_change(stored)
        for task in tasks:
            if task.step.drifts:
                continue
            intent = past.intent_of(task.number)
            outcome = past.outcomes.get(task.number)
            if outcome in GOOD and intent is not None:
                self._fold_good(task, intent, outcome, claims, invariant)
            elif outcome in (Outcome.UNKNOWN, Outcome.FOREIGN) or (outcome is None and intent is not None):
                if outcome is Outcome.FOREIGN and not self.touched and not self._is_spooled(stored, task):
                    raise Violation(f"I2: {task.aspect} is said to be changed by somebody else, and nobody did")
                claims[task.aspect] = UNSURE
                if intent is not None and (intent.before is None) != (intent.after is None):
                    claims[f"{task.step.subject}#state"] = UNSURE
        for record in self._spooled:
            if record.change == stored.change and stored.is_open:
                claims[f"{record.subject}#state"] = UNSURE

    def _fold_good(
        self, task: PlannedStep, intent: Intent, outcome: Outcome | None, claims: dict[str, Image], invariant: str
    ) -> None:
        known = claims.get(task.aspect, UNSURE)
        before = canonical(intent.before)
        is_free = task.aspect in self.touched or known == UNSURE or self._is_spooled_aspect(task.aspect)
        if outcome is Outcome.DONE and not is_free and known != before:
            raise Violation(f"I7: {task.aspect} was left as {known}, and the next step found {before}")
        claims[task.aspect] = canonical(intent.after)
        if task.step.aspect == "config" and (intent.before is None) != (intent.after is None):
            state = {"state": task.step.state} if isinstance(task.step, CreateConnector) else None
            claims[f"{task.step.subject}#state"] = state

    def _check_restored(self, stored: Stored) -> None:
        """I6: a closed change whose lanes were begun has restored every run state that it had to."""
        if stored.is_open or "unsettled" in stored.entries[-1].body:
            return
        past, tasks = self._read_change(stored)
        for task in tasks:
            if not task.always or not isinstance(task.step, SetRunState) or task.aspect in self.touched:
                continue
            acted = (Outcome.DONE, Outcome.UNKNOWN, Outcome.FOREIGN)
            begun = any(other.aspect == task.aspect and past.outcomes.get(other.number) in acted for other in tasks)
            config = f"{task.step.subject}#config"
            if begun and past.outcomes.get(task.number) not in GOOD and config not in self.touched:
                raise Violation(f"I6: {stored.change} is closed, and '{task.step.describe()}' was not done")

    def _check_no_overwrite(self, stored: Stored) -> None:
        """A step never sets out from what somebody else made of it."""
        past, tasks = self._read_change(stored)
        if stored.entries[0].body["title"] != "first":
            return
        for task in tasks:
            intent = past.intent_of(task.number)
            if intent is None or past.outcomes.get(task.number) is not Outcome.DONE or task.step.aspect != "config":
                continue
            found = canonical(intent.before)
            if found is not None and found in self._foreign.get(task.aspect, []):
                raise Violation(f"{task.aspect}: somebody else's change was overwritten knowingly")

    # --- reading -------------------------------------------------------------------------------------------------

    def _is_spooled(self, stored: Stored, task: PlannedStep) -> bool:
        return any(record.change == stored.change and record.subject == task.step.subject for record in self._spooled)

    def _is_spooled_aspect(self, aspect: str) -> bool:
        return any(aspect == f"{record.subject}#state" for record in self._spooled)

    def _read_change(self, stored: Stored) -> tuple[ChangeHistory, list[PlannedStep]]:
        length, past, tasks = self._read.get(stored.change, (0, None, None))
        if length != len(stored.entries) or past is None or tasks is None:
            past = read_past(stored.entries)
            tasks = tasks or build_tasks(past.plan)
            self._read[stored.change] = (len(stored.entries), past, tasks)
        return past, tasks

    def _read_truth(self) -> dict[str, Image]:
        truth: dict[str, Image] = {}
        for name in self._names:
            found = self._cluster.connectors.get(name)
            subject = f"connector/{CLUSTER}/{name}"
            truth[f"{subject}#config"] = None if found is None else canonical({"config": found.config})
            truth[f"{subject}#state"] = None if found is None else {"state": found.target}
            if held := [one for one in self._cluster.positions.values() if one.key == name.encode()]:
                truth[f"{subject}#position"] = {"offsets": {one.place: one.to_dict()["value"] for one in held}}
        return truth
