"""Where a change stands while it goes on: results, what was left, which lanes are broken."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from seamark.changes.environment import Environment
from seamark.changes.journal import Ending, Entry, EntryKind, JournalWriter
from seamark.changes.outcome import GOOD, UNSETTLED, Progress, StepResult, build_ending
from seamark.changes.plan import PlannedStep, PlannedSteps
from seamark.changes.preconditions import Expectations, is_position
from seamark.changes.step import Intent, Observed, Outcome, Precondition, Step
from seamark.changes.timing import ChangeTiming, Pace
from seamark.core.refs import TOPIC, parse_subject
from seamark.errors import (
    DeadlineError,
    RefusedError,
    SeamarkError,
    UndecidableError,
    UnknownOutcomeError,
    UnreadableOutcomeError,
)


@dataclass(slots=True)
class _Waiting:
    """What a lane wants to have written, and what became of it."""

    kind: EntryKind
    body: Mapping[str, Any]
    entry: Entry | None = None
    error: SeamarkError | None = None


@dataclass(slots=True)
class BatchingJournalWriter:
    """A `JournalWriter` for many threads. An entry costs a round trip to brokers or disk; so those that wait share one.

    Whoever comes first writes for all that came meanwhile. Each `append` returns when its own entry is durable.
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
        """Write one entry, alone or with others. See `JournalWriter.append`."""
        mine = _Waiting(kind, body)
        with self._gate:
            self._queue.append(mine)
        with self._turn:
            if mine.entry is None and mine.error is None:
                self._write_all()
        if mine.error is not None:
            raise mine.error
        assert mine.entry is not None  # noqa: S101 - one of the two is set for everybody in the queue
        return mine.entry

    def append_all(self, bodies: Sequence[tuple[EntryKind, Mapping[str, Any]]]) -> tuple[Entry, ...]:
        """Write several entries."""
        return self._writer.append_all(bodies)

    def measure_age(self, number: int) -> float:
        """Return how long before the takeover an entry was written. See `JournalWriter.measure_age`."""
        return self._writer.measure_age(number)

    def release(self) -> None:
        """Give the locks back."""
        self._writer.release()

    def _write_all(self) -> None:
        with self._gate:
            batch, self._queue = self._queue, []
        try:
            entries = self._writer.append_all([(waiting.kind, waiting.body) for waiting in batch])
        except SeamarkError as error:
            # None of them may act: nobody knows which ones are written.
            for waiting in batch:
                waiting.error = error
            return
        for waiting, entry in zip(batch, entries, strict=True):
            waiting.entry = entry


Settled = tuple[Outcome, SeamarkError | None]
_DECIDE = "look at it, then decide: seamark journal resume or seamark journal undo"


class OutcomeResolver:
    """Looks at what a step did until its outcome is known, or the time for it is over."""

    def __init__(self, world: Environment, *, timing: ChangeTiming, progress: Progress) -> None:
        self._world = world
        self._timing = timing
        self._progress = progress

    def settle(
        self, step: Step, intent: Intent, *, unknown: SeamarkError | None, quiet_at: float, unsure: bool = False
    ) -> Settled:
        """Look until the outcome is a fact or the time is over.

        After an answer the effect must show within the step's own time. After none (`unknown`), "as before" is believed
        only when no late request can land any more, at `quiet_at`, and what landed then would show. A state that is
        neither is believed when it lasts: a worker that lags may show one that is older than "before". Where the step
        was `unsure` what it found, all but "after" is as before, and without an answer nothing that is seen is proof.
        """
        clock = self._world.clock
        deadline = quiet_at + self._timing.shows_seconds if unknown else clock.now() + step.settle_seconds
        # A rebalance shows neither, or nothing can be read during it. It passes within the step's own time.
        last_look = deadline if unsure else max(deadline, clock.now() + step.settle_seconds)
        if unknown and not step.lands_late:
            # Who could still do it has ended, and what is seen is so.
            deadline = last_look = clock.now()
        if unknown:
            self._progress.waiting(f"an answer is missing: looking for up to {max(0.0, deadline - clock.now()):.0f} s")
        foreign_since: float | None = None
        while True:
            looked_at = clock.now()
            observed, trouble = self.look(step, intent)
            if unsure and observed is not None:
                observed = self._doubt(observed, answered=unknown is None)
            if observed is Observed.AFTER:
                return Outcome.DONE, None
            if observed is not Observed.FOREIGN:
                foreign_since = None
                may_pass = observed is Observed.BETWEEN or (trouble is not None and trouble.retryable)
                if looked_at >= (last_look if may_pass else deadline):
                    return self._give_up(step, observed, trouble=trouble, unknown=unknown)
            else:
                foreign_since = looked_at if foreign_since is None else foreign_since
                lasted = looked_at - foreign_since >= self._timing.foreign_seconds
                if lasted and (unknown is None or looked_at >= deadline):
                    return Outcome.DID_NOT_HAPPEN if step.drifts else Outcome.FOREIGN, build_foreign(step)
            clock.sleep(self._timing.look_seconds)

    def is_half(self, step: Step, intent: Intent) -> bool:
        """Whether a part of a write is done, and all of it may be written again.

        To be asked only when nothing of it can land any more: where `settle` found no end of it.
        """
        return step.repeats and self.look(step, intent)[0] is Observed.BETWEEN

    def look(self, step: Step, intent: Intent) -> tuple[Observed | None, SeamarkError | None]:
        """What is seen now, or why nothing can be seen."""
        try:
            return step.observe(self._world, intent), None
        except SeamarkError as error:
            return None, error

    def check_standing(self, step: Step, intent: Intent) -> Settled:
        """Whether what was done some time ago still stands: DONE if so, FOREIGN if not, UNKNOWN if nobody can tell."""
        clock = self._world.clock
        deadline = clock.now() + self._timing.shows_seconds + self._timing.foreign_seconds
        while True:
            looked_at = clock.now()
            observed, trouble = self.look(step, intent)
            if observed is Observed.AFTER:
                return Outcome.DONE, None
            if looked_at >= deadline:
                break
            clock.sleep(self._timing.look_seconds)
        if observed in (None, Observed.BETWEEN):
            return Outcome.UNKNOWN, trouble or build_too_slow(step, observed)
        return Outcome.FOREIGN, build_foreign(step)

    def _doubt(self, observed: Observed, *, answered: bool) -> Observed:
        if observed is Observed.AFTER:
            return Observed.AFTER if answered else Observed.BETWEEN
        return Observed.BEFORE if answered else Observed.BETWEEN

    def _give_up(
        self, step: Step, observed: Observed | None, *, trouble: SeamarkError | None, unknown: SeamarkError | None
    ) -> Settled:
        error = trouble or unknown or build_too_slow(step, observed)
        if observed is not None and step.drifts:
            # It changes by itself, so there is nothing to be in between of: the act was of no use, and may be repeated.
            return Outcome.DID_NOT_HAPPEN, error
        if observed is Observed.BEFORE and unknown:
            return Outcome.DID_NOT_HAPPEN, unknown
        return Outcome.UNKNOWN, error


def build_foreign(step: Step) -> SeamarkError:
    """What to say when somebody else changed the thing."""
    return RefusedError(
        f"the {step.aspect} of {step.subject} is not as this change left it: somebody else changed it", hint=_DECIDE
    )


def build_too_slow(step: Step, observed: Observed | None) -> SeamarkError:
    """What to say when the effect does not show."""
    return DeadlineError(
        f"{step.subject} did not show the change within {step.settle_seconds:.0f} s",
        cause=f"it is seen {observed or 'not at all'}",
        hint=_DECIDE,
    )


def build_moved_on(step: Step) -> SeamarkError:
    """Return the error for a write of offsets that no look can decide, because the owner runs again."""
    return UndecidableError(
        f"can't tell whether this was carried out: {step.describe()}",
        cause=f"{step.subject} was started again and reads on, so its offsets now say nothing about the write",
    )


def build_unreadable(step: Step, cause: str) -> SeamarkError:
    """Return the error for a write of offsets that a later look can decide, if the owner isn't started before."""
    return UnreadableOutcomeError(
        f"{step.subject} was not started again, because its offsets can't be read",
        cause=f"{cause}; once it runs, its offsets no longer show whether they were written",
    )


_ACTED = frozenset({Outcome.DONE, Outcome.UNKNOWN, Outcome.FOREIGN})


class PlanRun:
    """One run through the steps of a plan. A resumed change begins with the results that it already has.

    Lanes may be walked at the same time: each thread writes the results of its own lane only, one key at a time, and
    nothing here goes through all results while that is going on.
    """

    def __init__(self, tasks: Iterable[PlannedStep], preconditions: Iterable[Precondition] = ()) -> None:
        self.tasks = tasks if isinstance(tasks, PlannedSteps) else PlannedSteps(tasks)
        self.left: list[PlannedStep] = []
        self._results: dict[int, StepResult] = {}
        self._half: dict[int, Intent] = {}
        self._intents: dict[int, Intent] = {}
        # The tasks whose intent was read while an earlier act on the same aspect had no known outcome.
        self._unsure: set[int] = set()
        self._expectations = Expectations(preconditions)

    @property
    def results(self) -> tuple[StepResult, ...]:
        """What is known, in the order of the plan."""
        return tuple(self._results[number] for number in sorted(self._results))

    def remaining(self) -> Iterator[PlannedStep]:
        """The tasks without a result, in order."""
        return (task for task in self.tasks if task.number not in self._results)

    def has_result(self, task: PlannedStep) -> bool:
        """Whether it is known how a task ended."""
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
        """Take in how a task ended. `intent` is what it acted on, or found to be so already; `note` what it saw."""
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
        """Take in that a part of what a task writes is written, and all of it shall be written again."""
        self._half[task.number] = intent

    def find_half(self, task: PlannedStep) -> Intent | None:
        """What a task that is to be written again wanted, and found before it wrote anything."""
        return self._half.get(task.number)

    def can_repeat(self, task: PlannedStep) -> bool:
        """Whether it is made sure anew, before a task writes again, that nobody else does: by itself, or by a look."""
        return task.step.proves or any(_is_proof(look) for look in self._find_looks(task, is_repeated=True))

    def leave(self, task: PlannedStep) -> None:
        """Take in that a task is not done. Of one that is half written, nobody can say that nothing happened."""
        half = self._half.get(task.number)
        if half is None:
            self.left.append(task)
        else:
            self.record(task, Outcome.UNKNOWN, intent=half, error=build_half(task.step))

    def is_met(self, task: PlannedStep, intent: Intent) -> bool:
        """Whether a task has nothing to do."""
        return self._expectations.is_met(task.step, intent)

    def is_unsure(self, task: PlannedStep) -> bool:
        """Whether what a task finds may be older than what an earlier one did."""
        return self._expectations.is_unsure(task.step)

    def has_acted(self, task: PlannedStep) -> bool:
        """Whether the change may have changed what this task is about: then it is answerable for it."""
        others = (
            self._results[other.number] for other in self.tasks.of_aspect(task.aspect) if self._is_other(task, other)
        )
        return any(result.outcome in _ACTED or isinstance(result.error, UnknownOutcomeError) for result in others)

    def allows(self, task: PlannedStep, intent: Intent) -> bool:
        """Whether a task finds what the plan or the steps before it left."""
        return self._expectations.allow(task.step, intent)

    def is_due(self, task: PlannedStep, *, winding_up: bool) -> bool:
        """Whether a task is to be done now. Of a lane that was begun, the `always` ones are done in any case."""
        lane = self.tasks.of_lane(task.lane)
        if task.fallback:
            return self._is_fallen([other for other in lane if other.number < task.number])
        results = [
            self._results[other.number] for other in lane if other.number in self._results and not other.fallback
        ]
        if task.always:
            return bool(results) or not winding_up
        # Where something behind it was done already, the lane was wound up: its own place in it has passed.
        passed = any(other.number > task.number and other.number in self._results for other in lane)
        return not (winding_up or passed or any(result.outcome not in GOOD for result in results))

    def find_looks(self, task: PlannedStep) -> list[PlannedStep]:
        """The good looks that a task relies on: those between the act before it in its lane and itself.

        One that writes again relies on every proof before it: it may be of a process that is long gone.
        """
        return self._find_looks(task, is_repeated=task.number in self._half)

    def find_quiescing(self, write: PlannedStep) -> list[tuple[PlannedStep, Intent]]:
        """Return the acts that quiesced the owner of offsets before they were written, with their intents.

        While these acts stand, the owner's offsets show whether the write was carried out.
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
        """Return the writes of offsets with unknown outcomes that no look can decide after `task`, with their intents.

        `task` reverses an act that quiesced their owner: it starts a connector, whose tasks then store offsets.
        """
        return [
            (other, self._intents[other.number])
            for other in self.tasks.of_lane(task.lane)
            if other.number < task.number
            and self._is_undecided(other)
            and any(before.aspect == task.aspect for before, _ in self.find_quiescing(other))
        ]

    def is_good(self, task: PlannedStep) -> bool:
        """Whether a task ended well."""
        return task.number in self._results and self._results[task.number].outcome in GOOD

    def is_failed(self, lane: str) -> bool:
        """Whether something in a lane was not done."""
        results = (self._results.get(task.number) for task in self.tasks.of_lane(lane))
        return any(result is not None and result.outcome not in GOOD for result in results)

    def unsettled(self, *, leaving: bool = False) -> list[PlannedStep]:
        """The tasks that keep the change open. Whoever leaves it as it is accepts what somebody else did."""
        known = (task for task in self.tasks if task.number in self._results or task.number in self._half)
        return [task for task in known if not self._is_settled(task, leaving=leaving)]

    def is_superseded(self, task: PlannedStep) -> bool:
        """Whether a later task of the same aspect made sure what it looks like now."""
        return any(other.number > task.number and self.is_good(other) for other in self.tasks.of_aspect(task.aspect))

    def ending(self) -> Ending:
        """How the change ends if it is closed now."""
        return build_ending(self.results, left=bool(self.left))

    def _find_looks(self, task: PlannedStep, *, is_repeated: bool) -> list[PlannedStep]:
        before = [other for other in self.tasks.of_lane(task.lane) if other.number < task.number]
        looks: list[PlannedStep] = []
        is_near = True
        for other in reversed(before):
            is_near = is_near and not other.step.acts
            if self.is_good(other) and (is_near or (is_repeated and _is_proof(other))):
                looks.append(other)
        return looks[::-1]

    def _is_settled(self, task: PlannedStep, *, leaving: bool) -> bool:
        if self.is_good(task) or self.is_superseded(task):
            return True
        if task.number not in self._results:
            # Half written, and nobody came to write it again.
            return False
        outcome = self._results[task.number].outcome
        if outcome is Outcome.DID_NOT_HAPPEN:
            # A run state that the change touched and did not restore is not its end; nor is a place without a way back.
            return not (task.insists or (task.always and self.has_acted(task)))
        return leaving and outcome is Outcome.FOREIGN

    def _is_other(self, task: PlannedStep, other: PlannedStep) -> bool:
        return other.number != task.number and other.number in self._results

    def _is_fallen(self, before: Sequence[PlannedStep]) -> bool:
        """Whether a lane did something, then failed for certain, and its way back has worked so far."""
        main = [
            self._results[task.number].outcome for task in before if not task.fallback and task.number in self._results
        ]
        back = [self._results.get(task.number) for task in before if task.fallback]
        failed = any(outcome not in GOOD for outcome in main)
        # What nobody knows, or somebody else did, is not for us to take back unasked.
        is_ours = Outcome.DONE in main and not any(outcome in UNSETTLED for outcome in main)
        return failed and is_ours and all(result is not None and result.outcome in GOOD for result in back)

    def _is_undecided(self, task: PlannedStep) -> bool:
        result = self._results.get(task.number)
        if result is None or result.outcome is not Outcome.UNKNOWN or task.number not in self._intents:
            return False
        is_final = isinstance(result.error, UndecidableError) or task.number in self._unsure
        return is_position(task.step) and not is_final


def build_half(step: Step) -> SeamarkError:
    """What to say of a write of which a part is done."""
    return UnknownOutcomeError(
        f"a part of '{step.describe()}' is done, and the rest is not",
        hint="look at it, then take it back: seamark journal undo",
    )


def _is_proof(task: PlannedStep) -> bool:
    return not task.step.acts and task.step.proves


# For each one that sends. Looking and writing the intent take about as long as three requests that do not wait.
_READY = 4


class Lanes:
    """Walks a plan. A lane that fails leaves the others alone; where too many fail, none is begun any more.

    `run` does one task. `is_stopping` says whether somebody wants the change to end early.
    """

    def __init__(
        self, walk: PlanRun, *, pace: Pace, run: Callable[[PlannedStep], None], is_stopping: Callable[[], bool]
    ) -> None:
        self._walk = walk
        self._pace = pace
        self._run = run
        self._is_stopping = is_stopping
        self._failed: set[str] = set()
        self._canary: frozenset[str] = frozenset()
        self._is_held_back = False
        self._is_broken_off = False

    def go(self) -> None:
        """Run every lane to its end. What `run` raises ends the run: no further step is begun, then it is raised."""
        remaining = dict.fromkeys(task.lane for task in self._walk.remaining())
        self._canary = frozenset([lane for lane in remaining if not _is_topic(lane)][: self._pace.canary])
        for is_topic, phase in self._split(list(self._walk.tasks.lanes)):
            lanes = [lane for lane in phase if lane in remaining]
            self._go_through([lane for lane in lanes if lane in self._canary])
            self._go_through([lane for lane in lanes if lane not in self._canary])
            # What comes after topics needs them: a sink that runs without its topic would make another one.
            self._is_held_back |= is_topic and any(map(self._walk.is_failed, phase))

    def _split(self, lanes: list[str]) -> list[tuple[bool, list[str]]]:
        """The lanes in phases. Topics and the rest are not in hand at the same time, whichever comes first."""
        return [(is_topic, list(phase)) for is_topic, phase in groupby(lanes, key=_is_topic)]

    def _go_through(self, lanes: Sequence[str]) -> None:
        if self._pace.at_once == 1 or len(lanes) <= 1:
            chosen = set(lanes)
            # In the order of the plan, where lanes may be woven into each other.
            for task in [task for task in self._walk.remaining() if task.lane in chosen]:
                self._go_one(task)
            return
        # At the end of the block what is in hand is finished: no act is left without its outcome.
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
        if self._walk.is_due(task, winding_up=self._is_winding_up()):
            self._run(task)
            if self._walk.is_failed(task.lane):
                self._failed.add(task.lane)
        elif not task.fallback:
            self._walk.leave(task)

    def _is_winding_up(self) -> bool:
        # One failed canary is enough, for its fellows too.
        if self._is_stopping() or self._is_held_back or not self._canary.isdisjoint(self._failed):
            return True
        return self._pace.max_failures is not None and len(self._failed) > self._pace.max_failures


def _is_topic(lane: str) -> bool:
    # A lane is called by its subject.
    return parse_subject(lane).kind == TOPIC


class Writers:
    """Lets a few lanes at a time send something to one cluster, and as many more be ready to.

    Connect takes what waits at its door between two rebalances. Who only then begins to look and to write its intent
    misses that moment; who is ready does not, and what it saw is no older than one request takes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._mutex = threading.Lock()
        self._gates: dict[str, threading.Semaphore] = {}

    @contextmanager
    def readying(self, subject: str) -> Iterator[None]:
        """Wait until it is time to look and to write the intent: soon it will be sent."""
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
