"""Back from a crash, and back altogether: resume finishes what was begun, undo takes it back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from seamark.change.actor import Actor
from seamark.change.executor import Executor, Task, build_tasks
from seamark.change.image import build_fingerprint
from seamark.change.journal import Journal, JournalWriter
from seamark.change.precondition import BEFORE, aspect_of
from seamark.change.progress import Progress
from seamark.change.result import ChangeResult, StepResult, build_ending
from seamark.change.step import CanNotUndo, Intent, Outcome, Step
from seamark.change.timing import ChangeTiming
from seamark.change.world import World
from seamark.errors import NotFoundError, RefusedError
from seamark.model.entry import Entry, EntryKind
from seamark.model.plan import Plan, Precondition


@dataclass(frozen=True, slots=True)
class Past:
    """What a change's entries tell: its plan, what each step intended, how each ended."""

    plan: Plan
    intents: dict[int, tuple[Intent, Entry]]
    outcomes: dict[int, Outcome]
    is_closed: bool

    @property
    def pending(self) -> int | None:
        """The step that has an intent and no outcome."""
        return next((number for number in sorted(self.intents) if number not in self.outcomes), None)


def read_past(entries: Sequence[Entry]) -> Past:
    """Read a change's entries. The newest intent of a step counts: a resumed step may have two."""
    intents: dict[int, tuple[Intent, Entry]] = {}
    outcomes: dict[int, Outcome] = {}
    for entry in entries:
        if entry.kind is EntryKind.INTENT:
            intents[entry.body["step"]] = (Intent.from_dict(entry.body), entry)
            outcomes.pop(entry.body["step"], None)
        elif entry.kind is EntryKind.OUTCOME:
            outcomes[entry.body["step"]] = Outcome(entry.body["outcome"])
    plan = Plan.from_dict(entries[0].body["plan"])
    return Past(plan, intents=intents, outcomes=outcomes, is_closed=entries[-1].kind is EntryKind.CLOSE)


class Recovery:
    """Finishes and takes back changes of one journal."""

    def __init__(
        self,
        journal: Journal,
        world: World,
        *,
        actor: Actor,
        timing: ChangeTiming | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._journal = journal
        self._world = world
        self._actor = actor
        self._timing = timing or ChangeTiming()
        self._executor = Executor(journal, world, actor=actor, timing=self._timing, progress=progress)

    def resume(self, change: str, *, expected_nonce: str | None = None) -> ChangeResult:
        """Take an open change over and finish it: settle the step in hand, then walk the rest."""
        writer = self._take_over(change, expected_nonce=expected_nonce)
        try:
            past = read_past(writer.entries)
            tasks = build_tasks(past.plan)
            former = self._settle_past(past, tasks, writer)
            return self._executor.run(tasks, writer, title=past.plan.title, former=former)
        finally:
            writer.release()

    def abandon(self, change: str, *, expected_nonce: str | None = None) -> ChangeResult:
        """Take an open change over, settle the step in hand, and close it as it is. Undo can follow."""
        writer = self._take_over(change, expected_nonce=expected_nonce)
        try:
            past = read_past(writer.entries)
            tasks = build_tasks(past.plan)
            former = tuple(self._settle_past(past, tasks, writer))
            left = tuple(task.step.describe() for task in tasks[len(former) :])
            ending = build_ending(former, left)
            if ending is not None:
                writer.append(EntryKind.CLOSE, {"ending": str(ending), "left": list(left)})
            return ChangeResult(writer.entries[0].change, title=past.plan.title, ending=ending, steps=former, left=left)
        finally:
            writer.release()

    def plan_undo(self, change: str) -> Plan:
        """The plan that takes a closed change back, from its before-images."""
        entries = self._journal.read(change)
        past = read_past(entries)
        if not past.is_closed:
            raise RefusedError(
                f"change {entries[0].change} is still open",
                hint=f"seamark journal resume {entries[0].change} finishes it; then it can be undone",
            )
        return build_undo_plan(past, change=entries[0].change, actor=self._actor)

    def _take_over(self, change: str, *, expected_nonce: str | None) -> JournalWriter:
        return self._journal.take_over(
            change,
            nonce=self._actor.new_nonce(),
            by=self._actor.name,
            at=self._actor.timestamp(),
            expected_nonce=expected_nonce,
        )

    def _settle_past(self, past: Past, tasks: Sequence[Task], writer: JournalWriter) -> list[StepResult]:
        """The results of the steps that were begun. One that proves not to have happened is left to be done again."""
        results: list[StepResult] = []
        for task in tasks:
            outcome = past.outcomes.get(task.number)
            if outcome in (Outcome.UNKNOWN, Outcome.FOREIGN) or (outcome is None and task.number in past.intents):
                outcome = self._settle_one(past, task, writer)
                if outcome is Outcome.DID_NOT_HAPPEN:
                    break
            if outcome is None:
                break
            results.append(_result(task, outcome))
        return results

    def _settle_one(self, past: Past, task: Task, writer: JournalWriter) -> Outcome:
        intent, entry = past.intents[task.number]
        written_at = datetime.fromisoformat(entry.at).timestamp()
        outcome, error = self._executor.settle(
            task.step,
            intent,
            unknown=NotFoundError(f"the answer to '{task.step.describe()}' was lost with its process"),
            quiet_at=written_at + self._timing.quiet_seconds,
        )
        body = {"step": task.number, "outcome": str(outcome)}
        writer.append(EntryKind.OUTCOME, body | ({"error": error.as_dict()} if error else {}))
        return outcome


def build_undo_plan(past: Past, *, change: str, actor: Actor) -> Plan:
    """The done steps taken back, the last one first. One that can't be is a refusal that names it."""
    steps: list[Step] = []
    preconditions: dict[str, Precondition] = {}
    can_not: list[str] = []
    for task in reversed(build_tasks(past.plan)):
        if past.outcomes.get(task.number) is not Outcome.DONE:
            continue
        intent, _ = past.intents[task.number]
        back = task.step.undo(intent)
        if isinstance(back, CanNotUndo):
            can_not.append(f"{task.step.describe()}: {back.because}")
        elif back is not None:
            steps.append(back)
            preconditions.setdefault(
                aspect_of(back),
                Precondition(
                    BEFORE,
                    subject=aspect_of(back),
                    expected=build_fingerprint(intent.after),
                    words=f"the {back.aspect} of {back.subject} is as change {change} left it",
                ),
            )
    if can_not:
        raise RefusedError(
            f"change {change} can't be undone",
            cause="; ".join(can_not),
            hint="put it right by hand, with the file's value",
        )
    return Plan(
        title=f"undo {past.plan.title}",
        context=past.plan.context,
        made_at=actor.timestamp(),
        made_by=actor.name,
        steps=tuple(step.to_data() for step in steps),
        locks=past.plan.locks,
        preconditions=tuple(preconditions.values()),
        undoes=change,
    )


def _result(task: Task, outcome: Outcome) -> StepResult:
    step = task.step
    return StepResult(task.number, kind=step.kind, subject=step.subject, words=step.describe(), outcome=outcome)
