"""The run of a change: results of steps, steps left out, failed step sequences, and concurrency."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from seamark.changes.journal import Ending, Entry, EntryKind, JournalWriter
from seamark.changes.outcome import GOOD, UNSETTLED, StepResult, build_ending
from seamark.changes.plan import PlannedStep, PlannedSteps
from seamark.changes.preconditions import Expectations, is_position
from seamark.changes.step import CanNotUndo, Intent, Outcome, Precondition, Step
from seamark.changes.timing import Pace
from seamark.core.refs import TOPIC, parse_subject
from seamark.errors import (
    SeamarkError,
    UndecidableError,
    UnknownOutcomeError,
)


@dataclass(slots=True)
class _Waiting:
    """An entry that waits to be written, and its result."""

    kind: EntryKind
    body: Mapping[str, Any]
    entry: Entry | None = None
    error: SeamarkError | None = None


@dataclass(slots=True)
class BatchingJournalWriter:
    """A `JournalWriter` for many threads, which writes waiting entries in one batch.

    An entry costs a round trip to brokers or disk. The first waiting thread writes the entries of all that wait
    meanwhile. Each `append` returns when its own entry is durable.
    """

    _writer: JournalWriter
    _queue: list[_Waiting] = field(default_factory=list)
    _gate: threading.Lock = field(default_factory=threading.Lock)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every entry of the change."""
        return self._writer.entries

    def append(self, kind: EntryKind, body: Mapping[str, Any]) -> Entry:
        """Write one entry, alone or in a batch. See `JournalWriter.append`."""
        mine = _Waiting(kind, body)
        with self._gate:
            self._queue.append(mine)
        with self._turn:
            if mine.entry is None and mine.error is None:
                self._write_all()
        if mine.error is not None:
            raise mine.error
        assert mine.entry is not None  # noqa: S101 - one of the two is set for each entry of the queue
        return mine.entry

    def append_all(self, bodies: Sequence[tuple[EntryKind, Mapping[str, Any]]]) -> tuple[Entry, ...]:
        """Write several entries."""
        return self._writer.append_all(bodies)

    def measure_age(self, number: int) -> float:
        """Return how long before the takeover an entry was written. See `JournalWriter.measure_age`."""
        return self._writer.measure_age(number)

    def release(self) -> None:
        """Release the locks."""
        self._writer.release()

    def _write_all(self) -> None:
        with self._gate:
            batch, self._queue = self._queue, []
        try:
            entries = self._writer.append_all([(waiting.kind, waiting.body) for waiting in batch])
        except SeamarkError as error:
            # None of these steps may act, because it is unknown which entries were written.
            for waiting in batch:
                waiting.error = error
            return
        for waiting, entry in zip(batch, entries, strict=True):
            waiting.entry = entry


_ACTED = frozenset({Outcome.DONE, Outcome.UNKNOWN, Outcome.FOREIGN})


class PlanRun:
    """One run through the steps of a plan. A resumed change starts with the results that it already has.

    Step sequences may run concurrently: each thread writes only the results of its own sequence, one key at a time, and
    no method iterates over all results during that time.
    """

    def __init__(self, tasks: Iterable[PlannedStep], preconditions: Iterable[Precondition] = ()) -> None:
        self.tasks = tasks if isinstance(tasks, PlannedSteps) else PlannedSteps(tasks)
        self.left: list[PlannedStep] = []
        self._results: dict[int, StepResult] = {}
        self._half: dict[int, Intent] = {}
        self._intents: dict[int, Intent] = {}
        # The steps whose intent was read while an earlier request on the same aspect had an unknown outcome.
        self._unsure: set[int] = set()
        self._expectations = Expectations(preconditions)

    @property
    def results(self) -> tuple[StepResult, ...]:
        """The results so far, in the order of the plan."""
        return tuple(self._results[number] for number in sorted(self._results))

    def remaining(self) -> Iterator[PlannedStep]:
        """Yield the steps without a result, in order."""
        return (task for task in self.tasks if task.number not in self._results)

    def has_result(self, task: PlannedStep) -> bool:
        """Return whether a step has a result."""
        return task.number in self._results

    def record(
        self,
        task: PlannedStep,
        outcome: Outcome,
        *,
        intent: Intent | None = None,
        error: SeamarkError | None = None,
        note: str = "",
    ) -> StepResult:
        """Record how a step ended.

        `intent` is what the step acted on, or the state it found if it had nothing to do; `note` is what it observed.
        """
        step = task.step
        if intent is not None:
            if task.number not in self._results and self.is_unsure(task):
                self._unsure.add(task.number)
            self._intents[task.number] = intent
            self._expectations.learn(step, intent, outcome, error=error)
        result = StepResult(
            task.number,
            kind=step.kind,
            subject=step.subject,
            words=step.describe(),
            outcome=outcome,
            error=error,
            note=note,
        )
        self._results[task.number] = result
        return result

    def repeat(self, task: PlannedStep, intent: Intent) -> None:
        """Record that a step is partly written and must be written again completely."""
        self._half[task.number] = intent

    def find_half(self, task: PlannedStep) -> Intent | None:
        """Return the intent of a step that must be repeated: its target, and the state before anything was written."""
        return self._half.get(task.number)

    def can_repeat(self, task: PlannedStep) -> bool:
        """Return whether the step or a check proves again, before a repeated write, that nothing else writes."""
        return task.step.proves or any(_is_proof(look) for look in self._find_looks(task, is_repeated=True))

    def leave(self, task: PlannedStep) -> None:
        """Record that a step isn't done. A partly written step gets the outcome UNKNOWN."""
        half = self._half.get(task.number)
        if half is None:
            self.left.append(task)
        else:
            self.record(task, Outcome.UNKNOWN, intent=half, error=build_half(task.step))

    def is_met(self, task: PlannedStep, intent: Intent) -> bool:
        """Return whether a step has nothing to do."""
        return self._expectations.is_met(task.step, intent)

    def is_unsure(self, task: PlannedStep) -> bool:
        """Return whether a step may read a state older than the effect of an earlier step."""
        return self._expectations.is_unsure(task.step)

    def has_acted(self, task: PlannedStep) -> bool:
        """Return whether this change may have changed the step's aspect, and so is responsible for it."""
        others = (
            self._results[other.number] for other in self.tasks.of_aspect(task.aspect) if self._is_other(task, other)
        )
        return any(result.outcome in _ACTED or isinstance(result.error, UnknownOutcomeError) for result in others)

    def allows(self, task: PlannedStep, intent: Intent) -> bool:
        """Return whether a step finds what the plan or the previous steps left."""
        return self._expectations.allow(task.step, intent)

    def is_due(self, task: PlannedStep, *, winding_up: bool) -> bool:
        """Return whether a step is to run now. In a sequence that was begun, the `always` steps run in any case."""
        lane = self.tasks.of_lane(task.lane)
        if task.fallback:
            return self._is_fallen(task, [other for other in lane if other.number < task.number])
        results = [
            self._results[other.number] for other in lane if other.number in self._results and not other.fallback
        ]
        if task.always:
            return bool(results) or not winding_up
        # A sequence with a later result has ended without this step, which then runs only if the change needs it.
        passed = any(other.number > task.number and other.number in self._results for other in lane)
        passed = passed and not self.is_owed(task)
        return not (winding_up or passed or any(result.outcome not in GOOD for result in results))

    def find_looks(self, task: PlannedStep) -> list[PlannedStep]:
        """Return the successful checks that a step relies on: those after the previous request of its sequence.

        A repeated write relies on every earlier proof, because a process that has ended may have made them.
        """
        return self._find_looks(task, is_repeated=task.number in self._half)

    def find_quiescing(self, write: PlannedStep) -> list[tuple[PlannedStep, Intent]]:
        """Return the steps that quiesced the owner of offsets before they were written, with their intents.

        While the effect of these steps lasts, the owner's offsets show whether the write happened.
        """
        return [
            (other, self._intents[other.number])
            for other in self.tasks.of_lane(write.lane)
            if other.number < write.number
            and other.number in self._intents
            and other.step.subject == write.step.subject
            and other.step.acts
            and not is_position(other.step)
        ]

    def find_undecided(self, task: PlannedStep) -> list[tuple[PlannedStep, Intent]]:
        """Return the offset writes with unknown outcomes that can't be determined after `task`, with their intents.

        `task` reverses a step that quiesced their owner: it starts a connector, whose tasks then store offsets.
        """
        return [
            (other, self._intents[other.number])
            for other in self.tasks.of_lane(task.lane)
            if other.number < task.number
            and self._is_undecided(other)
            and any(before.aspect == task.aspect for before, _ in self.find_quiescing(other))
        ]

    def is_good(self, task: PlannedStep) -> bool:
        """Return whether a step ended well."""
        return task.number in self._results and self._results[task.number].outcome in GOOD

    def is_begun(self, lane: str) -> bool:
        """Return whether a step of a sequence has a result."""
        return any(task.number in self._results for task in self.tasks.of_lane(lane))

    def is_failed(self, lane: str) -> bool:
        """Return whether a step of a sequence failed."""
        results = (self._results.get(task.number) for task in self.tasks.of_lane(lane))
        return any(result is not None and result.outcome not in GOOD for result in results)

    def unsettled(self, *, leaving: bool = False) -> list[PlannedStep]:
        """Return the steps that keep the change open.

        With `leaving`, changes by other operators are accepted, and `insists` steps that are not done if an undo can
        reverse their sequence.
        """
        return [task for task in self.tasks if not self._is_settled(task, leaving=leaving)]

    def find_owed(self, *, leaving: bool = False) -> list[PlannedStep]:
        """Return the steps that keep the change open because they must still be done, not because of their outcome."""
        unknown = {result.number for result in self._results.values() if result.outcome in UNSETTLED}
        return [task for task in self.unsettled(leaving=leaving) if task.number not in unknown]

    def is_owed(self, task: PlannedStep) -> bool:
        """Return whether an `insists` step has no result, and its sequence has acted and can't be rolled back.

        That is the case if every step before the first `insists` step is done. If the sequence ended earlier, its
        `insists` steps aren't due, and its `always` steps have restored what it changed.
        """
        if not task.insists or self.has_result(task) or self.is_superseded(task):
            return False
        before = [other for other in self.tasks.of_lane(task.lane) if other.number < task.number]
        main = [other for other in before if not (other.always or other.fallback or other.insists)]
        return all(map(self.is_good, main)) and any(map(self._is_done, before))

    def is_superseded(self, task: PlannedStep) -> bool:
        """Return whether a later step on the same aspect succeeded and so established its state."""
        return any(other.number > task.number and self.is_good(other) for other in self.tasks.of_aspect(task.aspect))

    def ending(self) -> Ending:
        """Return how the change ends if it is closed now."""
        return build_ending(self.results, left=bool(self.left))

    def _find_looks(self, task: PlannedStep, *, is_repeated: bool) -> list[PlannedStep]:
        before = [other for other in self.tasks.of_lane(task.lane) if other.number < task.number]
        looks: list[PlannedStep] = []
        is_near = True
        for other in reversed(before):
            # A rollback step that wasn't needed has sent nothing.
            is_skipped = other.fallback and not self.has_result(other)
            is_near = is_near and (is_skipped or not other.step.acts)
            if self.is_good(other) and (is_near or (is_repeated and _is_proof(other))):
                looks.append(other)
        return looks[::-1]

    def _is_settled(self, task: PlannedStep, *, leaving: bool) -> bool:
        if self.is_good(task) or self.is_superseded(task):
            return True
        if task.number in self._half and task.number not in self._results:
            # No process has repeated the write.
            return False
        outcome = self._results[task.number].outcome if self.has_result(task) else None
        if task.insists and outcome in (None, Outcome.DID_NOT_HAPPEN):
            # A failed step must be repeated, too. But what was done before it can be undone only after the change is
            # closed.
            is_owed = outcome is not None or self.is_owed(task)
            return not is_owed or (leaving and self._can_be_undone(task.lane))
        if outcome is Outcome.DID_NOT_HAPPEN:
            # The change can't end with a connector state that it changed and didn't restore.
            return not (task.always and self.has_acted(task))
        return outcome is None or (leaving and outcome is Outcome.FOREIGN)

    def _is_done(self, task: PlannedStep) -> bool:
        """Return whether this change is known to have changed something with a step."""
        return task.step.acts and task.number in self._results and self._results[task.number].outcome is Outcome.DONE

    def _can_be_undone(self, lane: str) -> bool:
        """Return whether an undo can reverse what a sequence has done."""
        done = [task for task in self.tasks.of_lane(lane) if self._is_done(task) and task.number in self._intents]
        return not any(isinstance(task.step.undo(self._intents[task.number]), CanNotUndo) for task in done)

    def _is_other(self, task: PlannedStep, other: PlannedStep) -> bool:
        return other.number != task.number and other.number in self._results

    def _is_fallen(self, task: PlannedStep, before: Sequence[PlannedStep]) -> bool:
        """Return whether a sequence changed something, then definitely failed, and its rollback has worked so far."""
        main = {
            other.number: self._results[other.number].outcome
            for other in before
            if not other.fallback and other.number in self._results
        }
        failed = any(outcome not in GOOD for outcome in main.values())
        # An unknown outcome, or a change by another operator, is not rolled back automatically.
        is_ours = Outcome.DONE in main.values() and not any(outcome in UNSETTLED for outcome in main.values())
        if not failed or not is_ours or self._is_by_others(task, main):
            return False
        back = [other for other in before if other.fallback and not self._is_by_others(other, main)]
        return all(self.is_good(other) for other in back)

    def _is_by_others(self, back: PlannedStep, main: Mapping[int, Outcome]) -> bool:
        """Return whether another process made the change that a rollback step would reverse, before this change did."""
        same = {main[other.number] for other in self.tasks.of_aspect(back.aspect) if other.number in main}
        return Outcome.NOTHING_TO_DO in same and Outcome.DONE not in same

    def _is_undecided(self, task: PlannedStep) -> bool:
        result = self._results.get(task.number)
        if result is None or result.outcome is not Outcome.UNKNOWN or task.number not in self._intents:
            return False
        is_final = isinstance(result.error, UndecidableError) or task.number in self._unsure
        return is_position(task.step) and not is_final


def build_half(step: Step) -> SeamarkError:
    """Build the error for a write that is partly done."""
    return UnknownOutcomeError(
        f"only a part of '{step.describe()}' is done",
        hint="check the resource, then undo the change: seamark journal undo",
    )


def _is_proof(task: PlannedStep) -> bool:
    return not task.step.acts and task.step.proves


# Per sending thread. Reading the state and writing the intent take about as long as three requests that don't wait.
_READY = 4


class Lanes:
    """Runs the step sequences of a plan. A failed sequence doesn't affect the others; too many failures stop new ones.

    `run` executes one step. `is_stopping` returns whether the change is to end early. `await_stable` waits for the
    workers of Connect clusters, if the pace says so.
    """

    def __init__(
        self,
        walk: PlanRun,
        *,
        pace: Pace,
        run: Callable[[PlannedStep], None],
        is_stopping: Callable[[], bool],
        await_stable: Callable[[Sequence[str]], None],
    ) -> None:
        self._await_stable = await_stable
        # Why no further group of sequences began.
        self.unstable: SeamarkError | None = None
        self._walk = walk
        self._pace = pace
        self._run = run
        self._is_stopping = is_stopping
        # Of a resumed change, also those that failed before.
        self._failed = {lane for lane in walk.tasks.lanes if walk.is_failed(lane)}
        # Of a resumed change, those that were canaries before.
        self._canary = frozenset([lane for lane in walk.tasks.lanes if not _is_topic(lane)][: pace.canary])
        self._cut_canaries: set[str] = set()
        self._is_held_back = False
        self._is_broken_off = False

    def go(self) -> None:
        """Run every sequence to its end. If `run` raises, no further step begins, and then the error is raised."""
        remaining = {task.lane for task in self._walk.remaining()}
        for is_topic, phase in self._split(list(self._walk.tasks.lanes)):
            lanes = [lane for lane in phase if lane in remaining]
            self._go_through([lane for lane in lanes if lane in self._canary])
            self._go_through([lane for lane in lanes if lane not in self._canary])
            # Later sequences need the topics: a sink that runs without its topic would create another one.
            self._is_held_back |= is_topic and any(map(self._walk.is_failed, phase))

    def _split(self, lanes: list[str]) -> list[tuple[bool, list[str]]]:
        """Split the sequences into phases, so that topics and other resources never run at the same time."""
        return [(is_topic, list(phase)) for is_topic, phase in groupby(lanes, key=_is_topic)]

    def _go_through(self, lanes: Sequence[str]) -> None:
        if not self._pace.wait_stable or all(map(_is_topic, lanes)):
            self._go_at_once(lanes)
            return
        for start in range(0, len(lanes), self._pace.at_once):
            group = lanes[start : start + self._pace.at_once]
            self._wait_before(group)
            self._go_at_once(group)

    def _wait_before(self, group: Sequence[str]) -> None:
        """Wait until the workers that a group of sequences changes are stable. If they aren't, none of it begins.

        A sequence that an interrupted run has begun isn't held back: its connector may be stopped.
        """
        if all(self._is_winding_up(lane) for lane in group):
            return
        steps = (task.step for lane in group for task in self._walk.tasks.of_lane(lane))
        try:
            self._await_stable(sorted({cluster for step in steps for cluster in step.find_clusters()}))
        except SeamarkError as error:
            self.unstable = error

    def _go_at_once(self, lanes: Sequence[str]) -> None:
        if self._pace.at_once == 1 or len(lanes) <= 1:
            # One after the other, though their steps may alternate in the plan.
            for lane in lanes:
                self._go_lane(lane)
            return
        # The end of the block waits for the running steps, so that no request is left without its outcome.
        with ThreadPoolExecutor(min(self._pace.at_once, len(lanes)), thread_name_prefix="seamark-lane") as pool:
            jobs = [pool.submit(self._go_lane, lane) for lane in lanes]
            try:
                _, going_on = wait(jobs, return_when=FIRST_EXCEPTION)
                self._is_broken_off = bool(going_on)
            except BaseException:
                self._is_broken_off = True
                raise
        for job in jobs:
            job.result()

    def _go_lane(self, lane: str) -> None:
        for task in self._walk.tasks.of_lane(lane):
            if self._is_broken_off:
                return
            if not self._walk.has_result(task):
                self._go_one(task)

    def _go_one(self, task: PlannedStep) -> None:
        if self._walk.is_due(task, winding_up=self._is_winding_up(task.lane)):
            self._run(task)
            if self._walk.is_failed(task.lane):
                self._failed.add(task.lane)
        elif not task.fallback:
            self._walk.leave(task)
            if task.lane in self._canary:
                self._cut_canaries.add(task.lane)

    def _is_winding_up(self, lane: str) -> bool:
        if self._is_stopping() or self._is_held_back:
            return True
        if self._walk.is_begun(lane):
            # What a sequence has changed is checked, and restored if it doesn't work, whatever fails elsewhere.
            return False
        if self.unstable is not None:
            return True
        # One failed canary is enough to stop the other canaries, too. One that was ended early proves nothing.
        if self._cut_canaries or not self._canary.isdisjoint(self._failed):
            return True
        return self._pace.max_failures is not None and len(self._failed) > self._pace.max_failures


def _is_topic(lane: str) -> bool:
    # A sequence is named after its subject.
    return parse_subject(lane).kind == TOPIC


class Writers:
    """Limits how many sequences send requests to one Connect cluster at once, and how many more are ready to send.

    Connect processes all waiting requests between two rebalances. A step that only then begins to read the state and to
    write its intent misses that interval. A ready step doesn't, and the age of the state it read is at most the
    duration of one request.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._mutex = threading.Lock()
        self._gates: dict[str, threading.Semaphore] = {}

    @contextmanager
    def readying(self, subject: str) -> Iterator[None]:
        """Wait until the step may read the state and write its intent, because its turn to send is near."""
        with self._gate(f"ready {_find_place(subject)}", limit=_READY * self._limit):
            yield

    @contextmanager
    def sending(self, subject: str) -> Iterator[None]:
        """Wait for a turn to send."""
        with self._gate(f"send {_find_place(subject)}", limit=self._limit):
            yield

    def _gate(self, name: str, *, limit: int) -> threading.Semaphore:
        with self._mutex:
            return self._gates.setdefault(name, threading.Semaphore(limit))


def _find_place(subject: str) -> str:
    """Return the kind and the Connect cluster of a subject."""
    ref = parse_subject(subject)
    return f"{ref.kind} {ref.cluster}"
