"""The way back from a change of offsets, as it is needed by now: nobody is stopped for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from seamark.change.plan import Plan
from seamark.change.steps.group import MoveGroup
from seamark.change.steps.offsets import WriteOffsets
from seamark.change.steps.read import read_run_state
from seamark.change.steps.run_state import SetRunState
from seamark.errors import SeamarkError

if TYPE_CHECKING:
    from seamark.change.step import Step
    from seamark.change.world import World


def leave_equal(plan: Plan, steps: Sequence[Step], *, world: World) -> tuple[Plan, tuple[Step, ...]]:
    """The plan without the owners that stand where it would put them, and run as it would leave them.

    A source that was rewound and has caught up meanwhile is one: stopping it would change nothing. So is a landing.
    """
    lanes: dict[str, list[Step]] = {}
    for step, data in zip(steps, plan.steps, strict=True):
        lanes.setdefault(data.lane, []).append(step)
    left = {lane for lane, found in lanes.items() if _is_met(found, world)}
    if not left:
        return plan, tuple(steps)
    kept = [(step, data) for step, data in zip(steps, plan.steps, strict=True) if data.lane not in left]
    subjects = sorted({step.subject for lane in left for step in lanes[lane]})
    rest = replace(
        plan,
        steps=tuple(data for _, data in kept),
        locks=plan.locks if kept else (),
        preconditions=tuple(one for one in plan.preconditions if one.subject.rpartition("#")[0] not in subjects),
        notes=(*plan.notes, *(f"{subject} stands there already and is left alone" for subject in subjects)),
    )
    return rest, tuple(step for step, _ in kept)


def _is_met(steps: Sequence[Step], world: World) -> bool:
    """Whether a lane does nothing but move one owner to where it stands."""
    writes = [step for step in steps if isinstance(step, WriteOffsets | MoveGroup)]
    states = [step for step in steps if isinstance(step, SetRunState)]
    acting = [step for step in steps if step.acts]
    if len({step.subject for step in steps}) > 1 or not writes or len(acting) > len([*writes, *states]):
        return False
    try:
        intents = [step.intend(world) for step in writes]
        is_running = not states or read_run_state(world, states[-1].cluster, states[-1].name) == states[-1].state
    except SeamarkError:
        # Whoever applies the plan is told why.
        return False
    return is_running and all(found.before == found.after for found in intents)
