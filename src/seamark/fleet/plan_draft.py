"""Steps in their order → the plan that holds them. For whoever has decided on every step; `Planner` looks first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from seamark.change.plan import Plan
from seamark.change.precondition import build_preconditions
from seamark.change.steps.run_state import SetRunState

if TYPE_CHECKING:
    from seamark.change.actor import Actor
    from seamark.change.step import Step
    from seamark.change.world import World


def build_plan(
    title: str,
    steps: Sequence[Step],
    *,
    context: str,
    world: World,
    actor: Actor,
    lane: Callable[[Step], str] = lambda step: step.subject,
    always: Sequence[bool] | None = None,
    locks: Iterable[str] = (),
    notes: Iterable[str] = (),
) -> Plan:
    """The plan, made now. `always` marks what is done in any case once something was begun.

    Without it that is every run state but the first step's: what was stopped at the beginning is started again.
    """
    marks = always or [number > 0 and isinstance(step, SetRunState) for number, step in enumerate(steps)]
    return Plan(
        title=title,
        context=context,
        made_at=actor.timestamp(),
        made_by=actor.name,
        steps=tuple(step.to_data(lane=lane(step), always=mark) for step, mark in zip(steps, marks, strict=True)),
        locks=tuple(sorted(set(locks))) if steps else (),
        preconditions=build_preconditions(steps, world),
        notes=tuple(notes),
    )
