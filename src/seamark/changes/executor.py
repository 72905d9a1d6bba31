"""The loop that applies every change: write the intent to the journal, perform, observe, write the outcome.

The module reads from top to bottom: `apply` opens a change, `run` runs its steps, `_run_step` is the loop's body and
`_act` sends the request. A step acts only after its intent is durable, and only on a resource that is still as the
change expects it. A request with an unknown outcome is repeated only after the time in which it could still take effect
(`OutcomeResolver`). A change is closed only when every step's outcome is known, every `always` step is done, and no
sequence lacks the `insists` steps that it can't do without (`PlanRun`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from seamark.changes.actor import Actor
from seamark.changes.environment import Environment
from seamark.changes.interruption import Interrupt, reach
from seamark.changes.journal import Ending, EntryKind, JournalPort, JournalWriter, Opening, build_mark
from seamark.changes.locks import plan_lock
from seamark.changes.outcome import ChangeResult, Guarded, Progress, SilentProgress
from seamark.changes.plan import Plan, PlannedStep, build_tasks
from seamark.changes.preconditions import (
    OutcomeResolver,
    Settled,
    build_foreign,
    build_moved_on,
    build_unreadable,
    check_preconditions,
)
from seamark.changes.run import BatchingJournalWriter, Lanes, PlanRun, Writers
from seamark.changes.step import Intent, Observed, Outcome, Step
from seamark.changes.timing import ChangeTiming, Pace, await_stable, retry_while
from seamark.changes.without_journal import Spool, WithoutJournal
from seamark.core.time import Deadline, limit_requests
from seamark.errors import DeadlineError, FencedError, JournalError, SeamarkError, UnknownOutcomeError

# If the journal exceeds `begin_seconds` for an entry this often, a further attempt isn't going to be faster.
_CONFIRMATIONS = 3


# Without an intent, no request was sent.
_NOTHING: Settled = (Outcome.DID_NOT_HAPPEN, None)
_BY_OTHERS = "already in the requested state: another process changed it during this change"


@dataclass(frozen=True, slots=True)
class Sent:
    """What a step sent: its outcome if already known, else the facts needed to observe the outcome later."""

    intent: Intent | None = None
    settled: Settled | None = None
    unknown: SeamarkError | None = None
    quiet_at: float = 0.0
    note: str = ""


class Executor:
    """Applies plans to one environment through one journal."""

    def __init__(
        self,
        journal: JournalPort,
        world: Environment,
        *,
        actor: Actor,
        timing: ChangeTiming | None = None,
        progress: Progress | None = None,
        spool: Spool | None = None,
        pace: Pace | None = None,
    ) -> None:
        """Create an executor.

        Without a `spool`, a failing journal leaves everything as it is, and the error lists the remaining steps.
        """
        self.journal = journal
        self.world = world
        self.actor = actor
        self.timing = timing or ChangeTiming()
        self._progress = Guarded(progress or SilentProgress())
        self._spool = spool
        self.pace = pace or Pace()
        self._writers = Writers(self.pace.writers)
        # When each check last succeeded, by step number; only checks of the current run.
        self._looked_at: dict[int, float] = {}
        # Until when the effect of a request that Connect confirmed may still be invisible, by step number.
        self._shows_until: dict[int, float] = {}
        self.settler = OutcomeResolver(world, timing=self.timing, progress=self._progress)

    def apply(
        self,
        plan: Plan,
        steps: Sequence[Step] | None = None,
        *,
        check: Callable[[Plan, str], None] | None = None,
    ) -> ChangeResult:
        """Apply a plan.

        `steps` are its steps with their secrets, if the plan in memory has them. `check` can refuse the plan while its
        lock is held; it gets the ID of the current change.

        Raises:
            StalePlanError: the plan is out of date. No changes were made.
            LockedError: another operator is changing one of the resources. No changes were made.
            JournalError, FencedError: the journal failed, or the change was taken over; the error lists what remains.
        """
        tasks = build_tasks(plan, steps)
        self.pace.refuse_too_many(len(tasks.lanes))
        self._check(plan, [task.step for task in tasks])
        # A resume must keep them. The plan doesn't have them: they are options of the command that applies it.
        limits = self.pace.build_limits(len(tasks.lanes))
        opening = Opening(
            change=self.actor.new_id(),
            title=plan.title,
            by=self.actor.name,
            at=self.actor.timestamp(),
            nonce=self.actor.new_nonce(),
            locks=tuple(sorted({*plan.locks, *((plan_lock(plan.id),) if plan.id else ())})),
            body={
                "plan": plan.to_dict(),
                "actor": {**self.actor.facts, "plan_sha256": plan.sha256},
                **({"limits": limits} if limits else {}),
            },
        )
        writer = self.journal.begin(opening)
        try:
            reach("after-open")
            self._progress.opened(opening.change, steps=len(tasks))
            self._check_again(plan, tasks, writer, check=check)
            return self.run(PlanRun(tasks, plan.preconditions), writer, plan=plan)
        finally:
            writer.release()

    def run(
        self,
        walk: PlanRun,
        writer: JournalWriter,
        *,
        plan: Plan,
        pace: Pace | None = None,
        leaving: bool = False,
        force: bool = False,
    ) -> ChangeResult:
        """Run the steps that have no result yet, and close the change.

        `pace` is that of a resumed change. With `leaving`, no new steps begin: only `always` steps run. With `force`,
        the change is closed even if steps are unsettled.
        """
        pace = (pace or self.pace).slow(plan.pace).limit(plan.most_at_once)
        pen = writer if pace.at_once == 1 else BatchingJournalWriter(writer)
        self._looked_at = {}
        self._shows_until = {}
        with Interrupt() as interrupt:
            lanes = Lanes(
                walk,
                pace=pace,
                run=lambda task: self._run_step(task, walk, pen, force=force),
                is_stopping=lambda: leaving or interrupt.is_set,
                await_stable=lambda clusters: self._await_stable(clusters, lambda: leaving or interrupt.is_set),
            )
            try:
                lanes.go()
            except JournalError as error:
                wind_up = WithoutJournal(self.world, self.settler, timing=self.timing, spool=self._spool)
                raise wind_up.restore(walk, writer.entries[0].change, by=self.actor.name, failure=error) from error
            ending = self._close(walk, writer, leaving=leaving, force=force, unstable=lanes.unstable)
            owed = walk.find_owed(leaving=leaving) if ending is None else []
            return ChangeResult(
                writer.entries[0].change,
                title=plan.title,
                ending=ending,
                steps=walk.results,
                left=tuple(task.step.describe() for task in walk.left),
                owed=tuple(task.step.describe() for task in owed),
                interrupted=interrupt.is_set,
                unstable=lanes.unstable,
            )

    def _await_stable(self, clusters: Sequence[str], is_stopping: Callable[[], bool]) -> None:
        for cluster in clusters:
            await_stable(self.world, cluster, is_stopping=is_stopping, report=self._progress.waiting)

    def _check(self, plan: Plan, steps: Sequence[Step]) -> None:
        """Refuse a plan that is out of date. If a rebalance hides a state, read it again until it can be read."""
        retry_while(
            lambda: check_preconditions(plan, steps, self.world),
            self.world.clock,
            seconds=self.timing.rebalance_seconds,
        )

    def _check_again(
        self,
        plan: Plan,
        tasks: Sequence[PlannedStep],
        writer: JournalWriter,
        *,
        check: Callable[[Plan, str], None] | None,
    ) -> None:
        """Check again while holding the lock, because another operator may have been faster.

        A change that fails here has done nothing.
        """
        steps = [task.step for task in tasks]
        try:
            if check is not None:
                check(plan, writer.entries[0].change)
            self._check(plan, steps)
        except (SeamarkError, KeyboardInterrupt) as error:
            told = error.as_dict() if isinstance(error, SeamarkError) else {"message": "interrupted"}
            writer.append(EntryKind.CLOSE, {"ending": str(Ending.FAILED), "error": told})
            raise

    def _run_step(self, task: PlannedStep, walk: PlanRun, writer: JournalWriter, *, force: bool) -> None:
        self._progress.begun(task.number, task.step.describe())
        reach("before-intent", task.number)
        if not task.step.acts:
            return self._look(task, walk, writer)
        if self._decide_writes(task, walk, writer, force=force):
            return walk.leave(task)
        sent, settled = self._do(task, walk, writer)
        if sent.intent is not None and sent.unknown is not None and self.is_half(task, walk, sent.intent, settled):
            walk.repeat(task, sent.intent)
            sent, settled = self._do(task, walk, writer)
        return self._end(task, walk, writer, settled=settled, intent=sent.intent, note=sent.note)

    def _decide_writes(self, task: PlannedStep, walk: PlanRun, writer: JournalWriter, *, force: bool) -> bool:
        """Read the offsets again before `task` starts their owner; return whether they can't be read.

        A running connector stores offsets, and can return to the offsets it had before the write. So the journal must
        record the outcome of the write before the intent to start the connector: a process that is killed in between
        leaves either a stopped connector or a known outcome. In a soak test, brokers were down while a resume
        determined the outcome; the resume then started the connector, and no later resume could close the change.
        """
        is_held = False
        for write, intent in walk.find_undecided(task):
            unknown = UnknownOutcomeError(f"the answer to '{write.step.describe()}' is missing")
            now = self.world.clock.now()
            quiet_at = max(now, self._shows_until.get(write.number, now))
            outcome, error = self.settler.settle(write.step, intent, unknown=unknown, quiet_at=quiet_at)
            if outcome is Outcome.UNKNOWN and error is unknown:
                # The offsets can be read, and only a part of them is written. Reading them later shows the same.
                continue
            if outcome is Outcome.UNKNOWN and error is not None:
                if force or self._is_met(task, walk):
                    # The change is closed as it is, or another operator has already started the connector.
                    continue
                is_held = True
                error = build_unreadable(write.step, error.message)
            elif outcome is Outcome.DID_NOT_HAPPEN and not self._is_quiesced(write, walk):
                outcome, error = Outcome.UNKNOWN, build_moved_on(write.step)
            # Write the journal first: if that fails, the write stays undecided in memory too, and its owner isn't
            # started.
            write_outcome(writer, write, (outcome, error))
            self._progress.ended(walk.record(write, outcome, intent=intent, error=error))
        return is_held

    def _is_quiesced(self, write: PlannedStep, walk: PlanRun) -> bool:
        """Return whether the owner of the offsets is still as the steps before the write left it."""
        return all(
            walk.is_good(other) and self.settler.check_standing(other.step, intent)[0] is Outcome.DONE
            for other, intent in walk.find_quiescing(write)
        )

    def _is_met(self, task: PlannedStep, walk: PlanRun) -> bool:
        """Return whether a step has nothing to do; False if that can't be read."""
        try:
            return walk.is_met(task, self._intend(task.step))
        except SeamarkError:
            return False

    def _do(self, task: PlannedStep, walk: PlanRun, writer: JournalWriter) -> tuple[Sent, Settled]:
        """Send a step's request and determine its outcome."""
        # A thread that waits for the effect of its request frees its slot, so that other threads can send.
        with self._writers.readying(task.step.subject):
            sent = self._send(task, walk, writer)
        settled = sent.settled
        if settled is None and sent.intent is not None:
            settled = self.settler.settle(
                task.step, sent.intent, unknown=sent.unknown, quiet_at=sent.quiet_at, unsure=walk.is_unsure(task)
            )
            if sent.unknown is None:
                self._shows_until[task.number] = self.world.clock.now() + task.step.settle_seconds
        return sent, settled or _NOTHING

    def is_half(self, task: PlannedStep, walk: PlanRun, intent: Intent, settled: Settled) -> bool:
        """Return whether a write was interrupted partway and may be repeated from its beginning."""
        return settled[0] is Outcome.UNKNOWN and walk.can_repeat(task) and self.settler.is_half(task.step, intent)

    def _look(self, task: PlannedStep, walk: PlanRun, writer: JournalWriter) -> None:
        """Run a step that only checks or waits, and report its note if it returns one."""
        self._looked_at.pop(task.number, None)
        if task.step.writes and (trouble := self._enter_look(task, writer)):
            return self._end(task, walk, writer, settled=(Outcome.DID_NOT_HAPPEN, trouble))
        try:
            note = task.step.perform(self.world, Intent(None, None)) or ""
        except SeamarkError as error:
            return self._end(task, walk, writer, settled=(Outcome.DID_NOT_HAPPEN, error))
        self._looked_at[task.number] = self.world.clock.now()
        return self._end(task, walk, writer, settled=(Outcome.DONE, None), note=note)

    def _enter_look(self, task: PlannedStep, writer: JournalWriter) -> SeamarkError | None:
        """Write the intent of a check that writes; return an error if the check must not begin.

        The intent is confirmed like that of any other step, but it sets no deadline for the check's requests, because a
        topic copy may take hours.
        """
        try:
            intent = self._intend(task.step)
        except SeamarkError as error:
            return error
        entered_at = self.world.clock.now()
        self._write_intent(task, intent, writer)
        try:
            self._confirm(task, writer, entered_at=entered_at)
        except DeadlineError as error:
            return error
        return None

    def _send(self, task: PlannedStep, walk: PlanRun, writer: JournalWriter) -> Sent:
        """Read the current state, write the intent and send the request. The effect still has to be observed."""
        half = walk.find_half(task)
        if half is not None:
            return self._send_again(task, half, walk, writer)
        try:
            intent = self._intend(task.step)
        except SeamarkError as trouble:
            return Sent(settled=(Outcome.DID_NOT_HAPPEN, trouble))
        if walk.is_met(task, intent):
            # The wanted state is reached. But the journal doesn't show who made the change, so a note reports it.
            note = "" if walk.allows(task, intent) else _BY_OTHERS
            return Sent(intent, settled=(Outcome.NOTHING_TO_DO, None), note=note)
        if not walk.allows(task, intent):
            # If the change has modified nothing yet, there is no conflict to resolve: the step is only too late.
            outcome = Outcome.FOREIGN if walk.has_acted(task) else Outcome.DID_NOT_HAPPEN
            return Sent(settled=(outcome, build_foreign(task.step)))
        return self._send_intent(task, intent, walk, writer)

    def _send_again(self, task: PlannedStep, intent: Intent, walk: PlanRun, writer: JournalWriter) -> Sent:
        """Repeat a partial write under a new intent entry, which repeats the first entry's images for undo.

        Whatever prevents the repetition, the partial write stays in effect. So the outcome is never "did not happen".
        """
        seen, trouble = self.settler.look(task.step, intent)
        if seen is Observed.AFTER:
            return Sent(intent, settled=(Outcome.DONE, None))
        if seen is None or seen is Observed.FOREIGN:
            return Sent(intent, settled=(Outcome.UNKNOWN, trouble or build_foreign(task.step)))
        sent = self._send_intent(task, intent, walk, writer)
        return sent if sent.settled is None else replace(sent, settled=(Outcome.UNKNOWN, sent.settled[1]))

    def _send_intent(self, task: PlannedStep, intent: Intent, walk: PlanRun, writer: JournalWriter) -> Sent:
        # Read the clock before the entry gets its timestamp, so that the request can't be later than the timestamp
        # allows.
        entered_at = self.world.clock.now()
        self._write_intent(task, intent, writer)
        return self._act(task, intent, writer, walk=walk, entered_at=entered_at)

    def _write_intent(self, task: PlannedStep, intent: Intent, writer: JournalWriter) -> None:
        writer.append(EntryKind.INTENT, {"step": task.number, **intent.to_dict(), **build_mark(self.actor)})
        reach("after-intent", task.number)

    def _intend(self, step: Step) -> Intent:
        """Read the step's intent; retry retryable errors, such as those during a rebalance."""
        return retry_while(lambda: step.intend(self.world), self.world.clock, seconds=step.settle_seconds)

    def _act(
        self, task: PlannedStep, intent: Intent, writer: JournalWriter, *, walk: PlanRun, entered_at: float
    ) -> Sent:
        unknown: SeamarkError | None = None
        note = ""
        try:
            with self._writers.sending(task.step.subject):
                looked = self._look_again(task, walk, writer)
                # The newest entry must belong to this step.
                deadline = self._confirm(task, writer, entered_at=-math.inf if looked else entered_at)
                with limit_requests(deadline):
                    note = task.step.perform(self.world, intent) or ""
        except (FencedError, JournalError):
            raise
        except UnknownOutcomeError as error:
            unknown = error
        except SeamarkError as error:
            return Sent(intent, settled=(Outcome.DID_NOT_HAPPEN, error))
        finally:
            reach("after-perform", task.number)
        quiet_at = self.world.clock.now() + self.timing.in_flight_seconds
        return Sent(intent, unknown=unknown, quiet_at=quiet_at, note=note)

    def _look_again(self, task: PlannedStep, walk: PlanRun, writer: JournalWriter) -> bool:
        """Repeat the checks that the step relies on if another process made them or this process was suspended."""
        looked = False
        for look in walk.find_looks(task):
            step = look.step
            if step.acts or not step.expires or self._is_fresh(look):
                continue
            self._look(look, walk, writer)
            looked = True
            if walk.is_failed(task.lane) and not task.always:
                raise DeadlineError(f"a check that succeeded before fails now: {step.describe()}; nothing was sent")
        return looked

    def _is_fresh(self, look: PlannedStep) -> bool:
        looked_at = self._looked_at.get(look.number)
        return looked_at is not None and self.world.clock.now() - looked_at <= self.timing.begin_seconds

    def _confirm(self, task: PlannedStep, writer: JournalWriter, *, entered_at: float) -> Deadline:
        """Check that the step's newest entry is recent, and return the deadline of the step's request.

        If this process was suspended for longer, another process may have taken the change over. Writing another entry
        shows whether that happened.
        """
        clock = self.world.clock
        for _ in range(_CONFIRMATIONS):
            now = clock.now()
            if now - entered_at <= self.timing.begin_seconds:
                return Deadline(now + self.timing.send_seconds, clock.now)
            entered_at = clock.now()
            writer.append(EntryKind.NOTE, {"step": task.number, "note": "still running", **build_mark(self.actor)})
        raise DeadlineError(
            "the journal responds too slowly to send a request safely; nothing was sent",
            cause=f"{_CONFIRMATIONS} entries took longer than {self.timing.begin_seconds:g} s each",
        )

    def _end(
        self,
        task: PlannedStep,
        walk: PlanRun,
        writer: JournalWriter,
        *,
        settled: Settled,
        intent: Intent | None = None,
        note: str = "",
    ) -> None:
        outcome, error = settled
        result = walk.record(task, outcome, intent=intent, error=error, note=note)
        write_outcome(writer, task, settled, intent=intent, note=note)
        reach("after-outcome", task.number)
        self._progress.ended(result)

    def _close(
        self, walk: PlanRun, writer: JournalWriter, *, leaving: bool, force: bool, unstable: SeamarkError | None
    ) -> Ending | None:
        """Write the change's end, unless a step is unsettled: then it stays open, to be resumed or undone."""
        unsettled = [task.step.describe() for task in walk.unsettled(leaving=leaving)]
        reach("before-close")
        if unsettled and not force:
            return None
        ending = walk.ending()
        body: dict[str, Any] = {"ending": str(ending), "left": [task.step.describe() for task in walk.left]}
        if unstable is not None:
            body["error"] = unstable.as_dict()
        writer.append(EntryKind.CLOSE, body | ({"unsettled": unsettled} if unsettled else {}))
        reach("after-close")
        return ending


def write_outcome(
    writer: JournalWriter,
    task: PlannedStep,
    settled: Settled,
    *,
    intent: Intent | None = None,
    again: bool = False,
    note: str = "",
) -> None:
    """Write how a step ended. `again` marks a step that runs again as if it had not begun."""
    outcome, error = settled
    body: dict[str, object] = {"step": task.number, "outcome": str(outcome)}
    if error is not None:
        body["error"] = error.as_dict()
    if outcome is Outcome.NOTHING_TO_DO and intent is not None:
        # Such a step has no intent entry; undo and resume need the image that it found.
        body["image"] = intent.after
    if again:
        body["again"] = True
    if note:
        body["note"] = note
    writer.append(EntryKind.OUTCOME, body)
