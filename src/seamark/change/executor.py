"""The one loop that changes anything: intent into the journal, perform, observe, outcome.

It reads from top to bottom: `apply` opens a change, `run` walks its steps, `_run_step` is the loop's body and `_act`
its one dangerous moment. No step acts before its intent is durable, or on anything that is not as it was left. No
unknown act is repeated before the time in which a late request could still land has passed (`settle.py`). A change ends
only when every step's outcome is known and what must always be done is done (`walk.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from seamark.change.actor import Actor
from seamark.change.failpoint import reach
from seamark.change.interrupt import Interrupt
from seamark.change.journal import Journal, JournalWriter, Opening
from seamark.change.precondition import check_preconditions
from seamark.change.progress import Guarded, Progress, Silent
from seamark.change.result import ChangeResult
from seamark.change.settle import Settled, Settler, build_foreign
from seamark.change.spool import Spool
from seamark.change.step import Intent, Outcome, Step
from seamark.change.task import Task, build_tasks
from seamark.change.timing import ChangeTiming
from seamark.change.walk import Walk
from seamark.change.without_journal import WithoutJournal
from seamark.change.world import World
from seamark.errors import DeadlineError, FencedError, JournalError, SeamarkError, UnknownOutcomeError
from seamark.model.entry import Ending, EntryKind
from seamark.model.plan import Plan

# A journal that needs longer than `begin_seconds` for an entry this often will not be fast enough the next time either.
_CONFIRMATIONS = 3


class Executor:
    """Applies plans to one world through one journal."""

    def __init__(
        self,
        journal: Journal,
        world: World,
        *,
        actor: Actor,
        timing: ChangeTiming | None = None,
        progress: Progress | None = None,
        spool: Spool | None = None,
    ) -> None:
        """Without a `spool`, a journal that fails leaves everything as it is, and the error says what is left."""
        self._journal = journal
        self._world = world
        self._actor = actor
        self._timing = timing or ChangeTiming()
        self._progress = Guarded(progress or Silent())
        self._spool = spool
        self.settler = Settler(world, timing=self._timing, progress=self._progress)

    def apply(self, plan: Plan, steps: Sequence[Step] | None = None) -> ChangeResult:
        """Apply a plan. `steps` are its steps with their secrets, where the plan in memory has them.

        Raises:
            StalePlanError: the world has moved since the plan was made. Nothing was changed.
            LockedError: somebody else is changing one of the things. Nothing was changed.
            JournalError, FencedError: the journal failed, or the change was taken over; the error says what is left.
        """
        tasks = build_tasks(plan, steps)
        check_preconditions(plan, [task.step for task in tasks], self._world)
        opening = Opening(
            change=self._actor.new_id(),
            title=plan.title,
            by=self._actor.name,
            at=self._actor.timestamp(),
            nonce=self._actor.new_nonce(),
            locks=tuple(sorted(plan.locks)),
            body={"plan": plan.to_dict()},
        )
        writer = self._journal.begin(opening)
        try:
            reach("after-open")
            self._progress.opened(opening.change, steps=len(tasks))
            self._check_again(plan, tasks, writer)
            return self.run(Walk(tasks, plan.preconditions), writer, title=plan.title)
        finally:
            writer.release()

    def run(
        self, walk: Walk, writer: JournalWriter, *, title: str, leaving: bool = False, force: bool = False
    ) -> ChangeResult:
        """Walk the steps that have no result yet, and close the change.

        `leaving` begins nothing new: only what must always be done is. `force` closes whatever is unsettled.
        """
        with Interrupt() as interrupt:
            try:
                for task in walk.remaining():
                    if walk.is_due(task, winding_up=leaving or interrupt.is_set):
                        self._run_step(task, walk, writer)
                    else:
                        walk.left.append(task)
            except JournalError as error:
                wind_up = WithoutJournal(self._world, self.settler, timing=self._timing, spool=self._spool)
                raise wind_up.restore(walk, writer.entries[0].change, by=self._actor.name, failure=error) from error
            ending = self._close(walk, writer, leaving=leaving, force=force)
            return ChangeResult(
                writer.entries[0].change,
                title=title,
                ending=ending,
                steps=walk.results,
                left=tuple(task.step.describe() for task in walk.left),
                interrupted=interrupt.is_set,
            )

    def _check_again(self, plan: Plan, tasks: Sequence[Task], writer: JournalWriter) -> None:
        """Look once more under the lock: somebody may have been faster. A change that fails here has done nothing."""
        try:
            check_preconditions(plan, [task.step for task in tasks], self._world)
        except (SeamarkError, KeyboardInterrupt) as error:
            told = error.as_dict() if isinstance(error, SeamarkError) else {"message": "interrupted"}
            writer.append(EntryKind.CLOSE, {"ending": str(Ending.FAILED), "error": told})
            raise

    def _run_step(self, task: Task, walk: Walk, writer: JournalWriter) -> None:
        self._progress.begun(task.number, task.step.describe())
        reach("before-intent", task.number)
        try:
            intent = self._intend(task.step)
        except SeamarkError as trouble:
            return self._end(task, walk, writer, settled=(Outcome.DID_NOT_HAPPEN, trouble))
        if walk.is_met(task, intent):
            return self._end(task, walk, writer, settled=(Outcome.NOTHING_TO_DO, None), intent=intent)
        if not walk.allows(task, intent):
            # Where the change has done nothing yet, it has nothing to answer for: the step is only too late.
            outcome = Outcome.FOREIGN if walk.has_acted(task) else Outcome.DID_NOT_HAPPEN
            return self._end(task, walk, writer, settled=(outcome, build_foreign(task.step)))
        # The clock is read before the entry gets its time, so that nobody can think the act older than it is.
        entered_at = self._world.clock.now()
        writer.append(EntryKind.INTENT, {"step": task.number, **intent.to_dict()})
        reach("after-intent", task.number)
        settled = self._act(task, intent, writer, entered_at=entered_at, unsure=walk.is_unsure(task))
        return self._end(task, walk, writer, settled=settled, intent=intent)

    def _intend(self, step: Step) -> Intent:
        """What the step finds. A worker that can't tell just now is asked again for a while."""
        clock = self._world.clock
        deadline = clock.now() + step.settle_seconds
        while True:
            try:
                return step.intend(self._world)
            except SeamarkError as error:
                if not error.retryable or clock.now() >= deadline:
                    raise
            clock.sleep(self._timing.look_seconds)

    def _act(self, task: Task, intent: Intent, writer: JournalWriter, *, entered_at: float, unsure: bool) -> Settled:
        unknown: SeamarkError | None = None
        try:
            self._confirm(task, writer, entered_at=entered_at)
            task.step.perform(self._world, intent)
        except (FencedError, JournalError):
            raise
        except UnknownOutcomeError as error:
            unknown = error
        except SeamarkError as error:
            return Outcome.DID_NOT_HAPPEN, error
        finally:
            reach("after-perform", task.number)
        quiet_at = self._world.clock.now() + self._timing.in_flight_seconds
        return self.settler.settle(task.step, intent, unknown=unknown, quiet_at=quiet_at, unsure=unsure)

    def _confirm(self, task: Task, writer: JournalWriter, *, entered_at: float) -> None:
        """Make sure that the step's newest entry is fresh: who slept may have been taken over, and writing tells."""
        for _ in range(_CONFIRMATIONS):
            if self._world.clock.now() - entered_at <= self._timing.begin_seconds:
                return
            entered_at = self._world.clock.now()
            writer.append(EntryKind.NOTE, {"step": task.number, "note": "still here"})
        raise DeadlineError(
            "the journal is too slow to act on its word; nothing was sent",
            cause=f"{_CONFIRMATIONS} entries took longer than {self._timing.begin_seconds:g} s each",
        )

    def _end(
        self, task: Task, walk: Walk, writer: JournalWriter, *, settled: Settled, intent: Intent | None = None
    ) -> None:
        outcome, error = settled
        result = walk.record(task, outcome, intent=intent, error=error)
        write_outcome(writer, task, settled, intent=intent)
        reach("after-outcome", task.number)
        self._progress.ended(result)

    def _close(self, walk: Walk, writer: JournalWriter, *, leaving: bool, force: bool) -> Ending | None:
        """Write the change's end, unless something of it is unsettled: then it stays open, to be resumed or undone."""
        unsettled = [task.step.describe() for task in walk.unsettled(leaving=leaving)]
        reach("before-close")
        if unsettled and not force:
            return None
        ending = walk.ending()
        body = {"ending": str(ending), "left": [task.step.describe() for task in walk.left]}
        writer.append(EntryKind.CLOSE, body | ({"unsettled": unsettled} if unsettled else {}))
        reach("after-close")
        return ending


def write_outcome(
    writer: JournalWriter, task: Task, settled: Settled, *, intent: Intent | None = None, again: bool = False
) -> None:
    """Write how a step ended. `again` says that it will be done anew, as if it had not been begun."""
    outcome, error = settled
    body: dict[str, object] = {"step": task.number, "outcome": str(outcome)}
    if error is not None:
        body["error"] = error.as_dict()
    if outcome is Outcome.NOTHING_TO_DO and intent is not None:
        # It has no intent of its own; undo and resume need to know what was found.
        body["image"] = intent.after
    if again:
        body["again"] = True
    writer.append(EntryKind.OUTCOME, body)
