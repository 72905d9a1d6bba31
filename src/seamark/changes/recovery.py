"""Recovery after a crash: resume finishes an open change, abandon closes it as it is."""

from __future__ import annotations

from collections.abc import Iterator

from seamark.changes.executor import Executor, write_outcome
from seamark.changes.history import ChangeHistory, read_past
from seamark.changes.identity import check_identity
from seamark.changes.journal import Entry, EntryKind, JournalWriter, find_latest_write
from seamark.changes.outcome import GOOD, ChangeResult
from seamark.changes.plan import Plan, PlannedStep, PlannedSteps, build_tasks
from seamark.changes.preconditions import Settled, build_moved_on, is_position
from seamark.changes.run import PlanRun
from seamark.changes.step import Outcome
from seamark.changes.timing import Pace
from seamark.errors import TamperedJournalError, UnknownOutcomeError, UsageError


class Recovery:
    """Finishes or closes open changes of one journal, no matter which process began them."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self._journal = executor.journal
        self._world = executor.world
        self._actor = executor.actor
        self._timing = executor.timing

    def resume(self, change: str, *, expected_nonce: str | None = None) -> ChangeResult:
        """Take over an open change and finish it: determine the outcome of the interrupted step, then run the rest."""
        return self._recover(change, expected_nonce=expected_nonce, leaving=False, force=False)

    def abandon(self, change: str, *, expected_nonce: str | None = None, force: bool = False) -> ChangeResult:
        """Take over an open change, settle the interrupted step, run the `always` steps, and close the change as it is.

        What another operator changed in the meantime is kept. The change stays open if an outcome can't be determined
        or a state can't be restored, unless `force` is set: then the `close` entry names those steps. Undo can follow.
        """
        return self._recover(change, expected_nonce=expected_nonce, leaving=True, force=force)

    def _recover(self, change: str, *, expected_nonce: str | None, leaving: bool, force: bool) -> ChangeResult:
        # Refuse entries of another format version, and a change of other clusters, before the current holder is fenced.
        entries = self._journal.read(change)
        past = read_past(entries)
        check_identity(past.plan.identity, self._world)
        self._build_pace(past.plan, entries[0], leaving=leaving)
        writer = self._journal.take_over(
            change,
            nonce=self._actor.new_nonce(),
            by=self._actor.name,
            at=self._actor.timestamp(),
            expected_nonce=expected_nonce,
        )
        taken_at = self._world.clock.now()
        try:
            past = read_past(writer.entries)
            check_identity(past.plan.identity, self._world)
            walk = self._build_walk(past, writer, leaving=leaving, taken_at=taken_at)
            pace = self._build_pace(past.plan, writer.entries[0], leaving=leaving)
            return self.executor.run(walk, writer, plan=past.plan, pace=pace, leaving=leaving, force=force)
        finally:
            writer.release()

    def _build_pace(self, plan: Plan, opened: Entry, *, leaving: bool) -> Pace:
        """Return the pace with the limits with which the change was opened. A change that is closed needs none."""
        if leaving or "limits" not in opened.body:
            return self.executor.pace
        sequences = len({step.lane for step in plan.steps})
        try:
            return self.executor.pace.keep(opened.body["limits"], sequences=sequences)
        except UsageError as error:
            raise TamperedJournalError(
                f"the limits of change {opened.change} can't be read",
                cause=error.cause,
                hint=f"close it as it is: seamark journal undo {opened.change}",
            ) from None

    def _build_walk(self, past: ChangeHistory, writer: JournalWriter, *, leaving: bool, taken_at: float) -> PlanRun:
        """Build the run of a change from its journal entries and from the observed outcome of the interrupted step."""
        tasks = build_tasks(past.plan)
        walk = PlanRun(tasks, past.plan.preconditions)
        fresh: set[str] = set()
        for task in tasks:
            settled = _find_settled(past, tasks, task)
            if settled is None and task.number in past.intents:
                again = not (leaving or _is_passed(past, tasks, task))
                settled = self._settle(past, task, writer, again=again, walk=walk, taken_at=taken_at)
                fresh.add(task.aspect)
            if settled is not None:
                walk.record(task, settled[0], intent=past.intent_of(task.number), error=settled[1])
        if not leaving:
            for task in _find_premises(past, walk):
                if task.aspect not in fresh:
                    self._check_premise(past, task, walk, writer)
        return walk

    def _settle(
        self,
        past: ChangeHistory,
        task: PlannedStep,
        writer: JournalWriter,
        *,
        again: bool,
        walk: PlanRun,
        taken_at: float,
    ) -> Settled | None:
        """Determine the outcome of a step that the journal has no outcome for.

        Returns None if the step is to run again, see `again`.
        """
        intent, entry = past.intents[task.number]
        unsure = walk.is_unsure(task)
        now = self._world.clock.now()
        written_at = find_latest_write(entry, writer, self._actor, taken_at=taken_at, now=now)
        quiet_at = written_at + self._timing.quiet_seconds
        if past.outcomes.get(task.number) is Outcome.UNKNOWN:
            # An earlier process waited and observed no end. The request may have been answered, and its effect only be
            # slow to show.
            quiet_at = max(quiet_at, now + task.step.settle_seconds)
        settled = self.executor.settler.settle(
            task.step,
            intent,
            unknown=UnknownOutcomeError(f"the answer to '{task.step.describe()}' was lost when its process ended"),
            quiet_at=quiet_at,
            unsure=unsure,
        )
        if again and not unsure and self.executor.is_half(task, walk, intent, settled):
            # The first intent stays valid: it holds the state from before any part was written.
            writer.append(EntryKind.NOTE, {"step": task.number, "note": "partly written; all of it is written again"})
            walk.repeat(task, intent)
            return None
        if settled[0] is Outcome.DID_NOT_HAPPEN and not self._is_still_quiesced(past, walk, task):
            settled = Outcome.UNKNOWN, build_moved_on(task.step)
        again = (again or task.always) and (settled[0] is Outcome.DID_NOT_HAPPEN or unsure)
        write_outcome(writer, task, settled, again=again)
        if again:
            return None
        past.outcomes[task.number] = settled[0]
        return settled

    def _is_still_quiesced(self, past: ChangeHistory, walk: PlanRun, task: PlannedStep) -> bool:
        """Return whether an owner whose offsets were to be written is still as the steps before the write left it.

        A restarted owner continues from the written offsets, and can return to the offsets it had before the write. It
        is started without a journal entry if the journal failed after the write (`WithoutJournal`), or by another
        operator.
        """
        return not is_position(task.step) or all(
            self.executor.settler.check_standing(other.step, intent)[0] is Outcome.DONE
            for other, intent in walk.find_quiescing(task)
            if past.outcomes.get(other.number) in GOOD
        )

    def _check_premise(self, past: ChangeHistory, task: PlannedStep, walk: PlanRun, writer: JournalWriter) -> None:
        """Check that what was done before the crash is still in effect. Otherwise the remaining steps must not run."""
        intent = past.intent_of(task.number)
        if intent is None or task.step.drifts or _is_let_go(past, walk.tasks, task):
            return
        if not self._is_still_quiesced(past, walk, task):
            # The connector itself has advanced from the written offsets. That is not a change by another operator.
            return
        outcome, error = self.executor.settler.check_standing(task.step, intent)
        if outcome is Outcome.UNKNOWN and error is not None:
            # The state can't be read now. That doesn't invalidate what was observed earlier.
            raise error
        if outcome not in GOOD:
            walk.record(task, outcome, intent=intent, error=error)
            write_outcome(writer, task, (outcome, error))


def _find_settled(past: ChangeHistory, tasks: PlannedSteps, task: PlannedStep) -> Settled | None:
    """Return how a step ended according to the journal; None if it was not begun or its outcome is unknown."""
    outcome = past.outcomes.get(task.number)
    if outcome is None or (outcome is Outcome.DID_NOT_HAPPEN and (task.always or task.insists)):
        # Every process that takes the change over retries the steps that must be done in any case.
        return None
    known = outcome in GOOD or outcome is Outcome.DID_NOT_HAPPEN or _is_acted_upon(past, tasks, task)
    if known or (task.number not in past.intents and _is_passed(past, tasks, task)):
        return outcome, past.errors.get(task.number)
    return None


def _is_acted_upon(past: ChangeHistory, tasks: PlannedSteps, task: PlannedStep) -> bool:
    """Return whether a later step acted on the same aspect. If so, the present state says nothing about this step."""
    return any(
        other.number > task.number and (other.number in past.intents or past.outcomes.get(other.number) in GOOD)
        for other in tasks.of_aspect(task.aspect)
    )


def _is_passed(past: ChangeHistory, tasks: PlannedSteps, task: PlannedStep) -> bool:
    """Return whether a later step of its sequence was begun. If so, the sequence was wound up without this step.

    An `insists` step that was begun must be finished, also after the `always` steps were tried.
    """
    return any(
        other.number > task.number
        and (other.number in past.outcomes or other.number in past.intents)
        and not (task.insists and other.always)
        for other in tasks.of_lane(task.lane)
    )


def _is_let_go(past: ChangeHistory, tasks: PlannedSteps, task: PlannedStep) -> bool:
    """Return whether a step wrote offsets whose owner may run again. If so, the offsets have advanced automatically."""
    later = (other for other in tasks.of_lane(task.lane) if other.number > task.number)
    return is_position(task.step) and any(other.step.acts and other.number in past.intents for other in later)


def _find_premises(past: ChangeHistory, walk: PlanRun) -> Iterator[PlannedStep]:
    """Yield the newest good step of each aspect that later steps depend on or that the change would report as done."""
    broken = {walk.tasks[result.number].lane for result in walk.results if result.outcome not in GOOD}
    # A rollback step that wasn't needed isn't part of the remaining steps.
    remaining = {task.number for task in walk.remaining() if not task.fallback}
    newest = {task.aspect: task for task in walk.tasks if past.outcomes.get(task.number) in GOOD}
    for task in newest.values():
        if task.lane in broken or past.is_another_since(walk.tasks.of_subject(task.step.subject), task.number):
            continue
        going_on = any(other.number in remaining and not other.always for other in walk.tasks.of_lane(task.lane))
        restored = any(other.number in remaining for other in walk.tasks.of_aspect(task.aspect))
        if going_on or not restored:
            yield task
