"""History of a change, read from its journal entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from seamark.changes.journal import Entry, EntryKind, OpenChange
from seamark.changes.outcome import GOOD
from seamark.changes.plan import Plan, PlannedStep, build_tasks
from seamark.changes.preconditions import came_or_went
from seamark.changes.step import STEPS, Intent, Outcome, StepData
from seamark.core.refs import parse_subject
from seamark.errors import RefusedError, SeamarkError, TamperedJournalError, UnknownOutcomeError


@dataclass(frozen=True, slots=True)
class ChangeHistory:
    """A change's plan, with the intent and the outcome of each step.

    Each intent is paired with the newest entry under which the step may have sent its request. A step that had nothing
    to do has no intent; the image it found is in `found`.
    """

    plan: Plan
    is_closed: bool
    intents: dict[int, tuple[Intent, Entry]] = field(default_factory=dict)
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    errors: dict[int, SeamarkError] = field(default_factory=dict)
    found: dict[int, Intent] = field(default_factory=dict)

    def intent_of(self, number: int) -> Intent | None:
        """Return what a step intended, or the image it found if it had nothing to do."""
        return self.intents[number][0] if number in self.intents else self.found.get(number)

    def is_another_since(self, tasks: Sequence[PlannedStep], number: int) -> bool:
        """Return whether a later step created or deleted the subject.

        If so, the image that step `number` left no longer describes the subject.
        """
        later = [task.number for task in tasks if task.number > number and self.outcomes.get(task.number) in GOOD]
        intents = [self.intent_of(after) for after in later]
        return any(intent is not None and came_or_went(intent) for intent in intents)

    def _take_intent(self, entry: Entry) -> None:
        number = entry.body["step"]
        known = STEPS.get(self.plan.steps[number].kind)
        # An unknown kind is refused later, when its step is built.
        if known is not None and not known.acts:
            # A check that writes is repeated after a crash, never undone.
            return
        self._forget(number)
        self.intents[number] = (Intent.from_dict(entry.body), entry)

    def _take_note(self, entry: Entry) -> None:
        number = entry.body.get("step")
        if number in self.intents:
            self.intents[number] = (self.intents[number][0], entry)

    def _take_outcome(self, entry: Entry) -> None:
        number = entry.body["step"]
        if entry.body.get("again"):
            self._forget(number)
            return
        self.outcomes[number] = Outcome(entry.body["outcome"])
        if "image" in entry.body:
            self.found[number] = Intent(before=entry.body["image"], after=entry.body["image"])
        if told := entry.body.get("error"):
            kind = UnknownOutcomeError if told["code"] == "UNKNOWN_OUTCOME" else SeamarkError
            self.errors[number] = kind(told["message"], cause=told["cause"], hint=told["hint"], context=told["context"])

    def _forget(self, number: int) -> None:
        for known in (self.intents, self.outcomes, self.errors, self.found):
            known.pop(number, None)


def read_closed(entries: Sequence[Entry]) -> ChangeHistory:
    """Read the entries of a closed change.

    Raises:
        RefusedError: the change is still open.
    """
    past = read_past(entries)
    if not past.is_closed:
        raise RefusedError(
            f"change {entries[0].change} is still open",
            hint=f"finish it first: seamark journal resume {entries[0].change}",
        )
    return past


def read_open(entries: Sequence[Entry]) -> OpenChange:
    """Read which steps of an open change remain."""
    past, last = read_past(entries), entries[-1]
    hold = [entry for entry in entries if entry.kind in (EntryKind.OPEN, EntryKind.TAKEN)][-1]
    left = [task for task in build_tasks(past.plan) if past.outcomes.get(task.number) not in GOOD and not task.fallback]
    return OpenChange(
        entries[0].change,
        past.plan.title,
        hold.by,
        hold.at,
        str(last.kind),
        last.at,
        past.plan.identity.describe(),
        tuple(action.subject for action in past.plan.actions),
        tuple(task.step.describe() for task in left),
        tuple(task.step.describe() for task in left if task.always),
    )


def read_plan(entries: Sequence[Entry]) -> Plan:
    """Return the plan of a change.

    Raises:
        RefusedError: the entry records a saved plan or a refusal, not a change.
        TamperedJournalError: the stored plan isn't in the format that seamark writes.
    """
    if "plan" not in entries[0].body:
        raise RefusedError(
            f"entry {entries[0].change} of the journal doesn't record a change; there is nothing to undo or to resume",
            cause=str(entries[0].body.get("title", "")),
            hint="list the changes: seamark journal list",
        )
    try:
        return Plan.from_dict(entries[0].body["plan"])
    except SeamarkError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise TamperedJournalError(
            f"the plan of change {entries[0].change} can't be read", cause=f"{type(error).__name__}: {error}"
        ) from None


def read_past(entries: Sequence[Entry]) -> ChangeHistory:
    """Read a change's entries. A resumed step may have two intents; the newest one counts.

    Raises:
        RefusedError: the entry records a saved plan or a refusal, not a change.
    """
    plan = read_plan(entries)
    past = ChangeHistory(plan, is_closed=entries[-1].kind is EntryKind.CLOSE)
    takers = {
        EntryKind.INTENT: past._take_intent,  # noqa: SLF001 - the one function that builds it
        EntryKind.NOTE: past._take_note,  # noqa: SLF001
        EntryKind.OUTCOME: past._take_outcome,  # noqa: SLF001
    }
    for entry in entries:
        if entry.kind in takers:
            takers[entry.kind](entry)
    return past


# A write with an unknown outcome made the connector ours if it happened. A delete counts only if it is known to have
# happened.
_MADE = frozenset({Outcome.DONE, Outcome.UNKNOWN})


def _find_owner(step: StepData) -> str:
    return parse_subject(step.subject).owner


def find_acts(past: ChangeHistory) -> dict[str, list[Intent]]:
    """Return the intents that changed each connector's config and each pipeline, in order."""
    acts: dict[str, list[Intent]] = {}
    for number, step in enumerate(past.plan.steps):
        if not STEPS[step.kind].declares or number not in past.intents:
            continue
        intent, outcome = past.intents[number][0], past.outcomes.get(number)
        if outcome is Outcome.DONE or (intent.after is not None and outcome in _MADE):
            acts.setdefault(_find_owner(step), []).append(intent)
    return acts
