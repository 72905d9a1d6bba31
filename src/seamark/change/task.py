"""A plan's steps with their places in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seamark.change.step import Step
from seamark.change.steps import build_step
from seamark.errors import RefusedError
from seamark.model.plan import Plan


@dataclass(frozen=True, slots=True)
class Task:
    """A step with its place in the plan: its number, its lane, and whether it runs after a failure too."""

    number: int
    step: Step
    lane: str
    always: bool

    @property
    def aspect(self) -> str:
        """What the step's images show: its subject and the side of it."""
        return f"{self.step.subject}#{self.step.aspect}"


def build_tasks(plan: Plan, steps: Sequence[Step] | None = None) -> list[Task]:
    """The plan's steps with their places, in order. `steps` are the same ones with their secrets."""
    chosen = list(steps) if steps is not None else [build_step(data) for data in plan.steps]
    tasks = [
        Task(number, step, lane=data.lane, always=data.always)
        for number, (step, data) in enumerate(zip(chosen, plan.steps, strict=False))
    ]
    # What is applied must be what was shown and is journalled; secrets aside, which neither shows.
    same = [task.step.to_data(lane=task.lane, always=task.always) for task in tasks] == list(plan.steps)
    if len(chosen) != len(plan.steps) or not same:
        raise RefusedError("the steps are not those of the plan", hint="make the plan anew")
    return tasks
