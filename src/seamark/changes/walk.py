"""Where a change stands while it goes on: results, what was left, which lanes are broken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from seamark.changes.entry import Ending
from seamark.changes.expectation import Expectations
from seamark.changes.precondition import is_position
from seamark.changes.result import GOOD, UNSETTLED, StepResult, build_ending
from seamark.changes.step import Intent, Outcome, Step
from seamark.changes.step_data import Precondition
from seamark.changes.task import Task, Tasks
from seamark.errors import SeamarkError, UndecidableError, UnknownOutcomeError

_ACTED = frozenset({Outcome.DONE, Outcome.UNKNOWN, Outcome.FOREIGN})


class Walk:
    """One way through a plan's tasks. A resumed change begins with the results that it already has.

    Lanes may be walked at the same time: each thread writes the results of its own lane only, one key at a time, and
    nothing here goes through all results while that is going on.
    """

    def __init__(self, tasks: Iterable[Task], preconditions: Iterable[Precondition] = ()) -> None:
        self.tasks = tasks if isinstance(tasks, Tasks) else Tasks(tasks)
        self.left: list[Task] = []
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

    def remaining(self) -> Iterator[Task]:
        """The tasks without a result, in order."""
        return (task for task in self.tasks if task.number not in self._results)

    def has_result(self, task: Task) -> bool:
        """Whether it is known how a task ended."""
        return task.number in self._results

    def record(
        self,
        task: Task,
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

    def repeat(self, task: Task, intent: Intent) -> None:
        """Take in that a part of what a task writes is written, and all of it shall be written again."""
        self._half[task.number] = intent

    def find_half(self, task: Task) -> Intent | None:
        """What a task that is to be written again wanted, and found before it wrote anything."""
        return self._half.get(task.number)

    def can_repeat(self, task: Task) -> bool:
        """Whether it is made sure anew, before a task writes again, that nobody else does: by itself, or by a look."""
        return task.step.proves or any(_is_proof(look) for look in self._find_looks(task, is_repeated=True))

    def leave(self, task: Task) -> None:
        """Take in that a task is not done. Of one that is half written, nobody can say that nothing happened."""
        half = self._half.get(task.number)
        if half is None:
            self.left.append(task)
        else:
            self.record(task, Outcome.UNKNOWN, intent=half, error=build_half(task.step))

    def is_met(self, task: Task, intent: Intent) -> bool:
        """Whether a task has nothing to do."""
        return self._expectations.is_met(task.step, intent)

    def is_unsure(self, task: Task) -> bool:
        """Whether what a task finds may be older than what an earlier one did."""
        return self._expectations.is_unsure(task.step)

    def has_acted(self, task: Task) -> bool:
        """Whether the change may have changed what this task is about: then it is answerable for it."""
        others = (
            self._results[other.number] for other in self.tasks.of_aspect(task.aspect) if self._is_other(task, other)
        )
        return any(result.outcome in _ACTED or isinstance(result.error, UnknownOutcomeError) for result in others)

    def allows(self, task: Task, intent: Intent) -> bool:
        """Whether a task finds what the plan or the steps before it left."""
        return self._expectations.allow(task.step, intent)

    def is_due(self, task: Task, *, winding_up: bool) -> bool:
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

    def find_looks(self, task: Task) -> list[Task]:
        """The good looks that a task relies on: those between the act before it in its lane and itself.

        One that writes again relies on every proof before it: it may be of a process that is long gone.
        """
        return self._find_looks(task, is_repeated=task.number in self._half)

    def find_quiescing(self, write: Task) -> list[tuple[Task, Intent]]:
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

    def find_undecided(self, task: Task) -> list[tuple[Task, Intent]]:
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

    def is_good(self, task: Task) -> bool:
        """Whether a task ended well."""
        return task.number in self._results and self._results[task.number].outcome in GOOD

    def is_failed(self, lane: str) -> bool:
        """Whether something in a lane was not done."""
        results = (self._results.get(task.number) for task in self.tasks.of_lane(lane))
        return any(result is not None and result.outcome not in GOOD for result in results)

    def unsettled(self, *, leaving: bool = False) -> list[Task]:
        """The tasks that keep the change open. Whoever leaves it as it is accepts what somebody else did."""
        known = (task for task in self.tasks if task.number in self._results or task.number in self._half)
        return [task for task in known if not self._is_settled(task, leaving=leaving)]

    def is_superseded(self, task: Task) -> bool:
        """Whether a later task of the same aspect made sure what it looks like now."""
        return any(other.number > task.number and self.is_good(other) for other in self.tasks.of_aspect(task.aspect))

    def ending(self) -> Ending:
        """How the change ends if it is closed now."""
        return build_ending(self.results, left=bool(self.left))

    def _find_looks(self, task: Task, *, is_repeated: bool) -> list[Task]:
        before = [other for other in self.tasks.of_lane(task.lane) if other.number < task.number]
        looks: list[Task] = []
        is_near = True
        for other in reversed(before):
            is_near = is_near and not other.step.acts
            if self.is_good(other) and (is_near or (is_repeated and _is_proof(other))):
                looks.append(other)
        return looks[::-1]

    def _is_settled(self, task: Task, *, leaving: bool) -> bool:
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

    def _is_other(self, task: Task, other: Task) -> bool:
        return other.number != task.number and other.number in self._results

    def _is_fallen(self, before: Sequence[Task]) -> bool:
        """Whether a lane did something, then failed for certain, and its way back has worked so far."""
        main = [
            self._results[task.number].outcome for task in before if not task.fallback and task.number in self._results
        ]
        back = [self._results.get(task.number) for task in before if task.fallback]
        failed = any(outcome not in GOOD for outcome in main)
        # What nobody knows, or somebody else did, is not for us to take back unasked.
        is_ours = Outcome.DONE in main and not any(outcome in UNSETTLED for outcome in main)
        return failed and is_ours and all(result is not None and result.outcome in GOOD for result in back)

    def _is_undecided(self, task: Task) -> bool:
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


def _is_proof(task: Task) -> bool:
    return not task.step.acts and task.step.proves
