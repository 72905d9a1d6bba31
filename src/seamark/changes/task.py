"""A plan's steps with their places in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from seamark.changes.plan import Plan
from seamark.changes.step import Step, build_step
from seamark.errors import RefusedError


@dataclass(frozen=True, slots=True)
class Task:
    """A step with its place in the plan: its number, its lane, and what becomes of it after a failure in that lane."""

    number: int
    step: Step
    lane: str
    always: bool
    fallback: bool = False
    insists: bool = False

    @property
    def aspect(self) -> str:
        """What the step's images show: its subject and the side of it."""
        return f"{self.step.subject}#{self.step.aspect}"


class Tasks(Sequence[Task]):
    """The tasks of a plan in order, found by their lane, their subject and their aspect in no time."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._tasks = tuple(tasks)
        self._of_lane = _group(self._tasks, lambda task: task.lane)
        self._of_subject = _group(self._tasks, lambda task: task.step.subject)
        self._of_aspect = _group(self._tasks, lambda task: task.aspect)

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[Task]:
        return iter(self._tasks)

    def __getitem__(self, number: int) -> Task:  # type: ignore[override]  # nobody slices a plan
        return self._tasks[number]

    @property
    def lanes(self) -> Mapping[str, tuple[Task, ...]]:
        """Every lane with its tasks, in the order of the plan."""
        return self._of_lane

    def of_lane(self, lane: str) -> tuple[Task, ...]:
        """The tasks that stand or fall together."""
        return self._of_lane.get(lane, ())

    def of_subject(self, subject: str) -> tuple[Task, ...]:
        """The tasks that act on one thing."""
        return self._of_subject.get(subject, ())

    def of_aspect(self, aspect: str) -> tuple[Task, ...]:
        """The tasks that act on one side of one thing."""
        return self._of_aspect.get(aspect, ())


def build_tasks(plan: Plan, steps: Sequence[Step] | None = None) -> Tasks:
    """The plan's steps with their places, in order. `steps` are the same ones with their secrets."""
    chosen = list(steps) if steps is not None else [build_step(data) for data in plan.steps]
    tasks = Tasks(
        Task(number, step, data.lane, always=data.always, fallback=data.fallback, insists=data.insists)
        for number, (step, data) in enumerate(zip(chosen, plan.steps, strict=False))
    )
    # What is applied must be what was shown and is journalled; secrets aside, which neither shows.
    same = all(
        replace(task.step.to_data(lane=task.lane, always=task.always), fallback=task.fallback, insists=task.insists)
        == data
        for task, data in zip(tasks, plan.steps, strict=False)
    )
    if len(chosen) != len(plan.steps) or not same:
        raise RefusedError("the steps are not those of the plan", hint="make the plan anew")
    return tasks


def _group(tasks: Iterable[Task], key: Callable[[Task], str]) -> dict[str, tuple[Task, ...]]:
    groups: dict[str, list[Task]] = {}
    for task in tasks:
        groups.setdefault(key(task), []).append(task)
    return {name: tuple(group) for name, group in groups.items()}
