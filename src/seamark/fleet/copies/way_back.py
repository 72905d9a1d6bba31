"""The way back from a cut-over: only as long as nobody has written to the target since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from seamark.change.step import Intent
from seamark.change.steps.carry_reader import ReturnReader
from seamark.change.steps.run_state import SetRunState
from seamark.change.steps.stopped import ProveStopped
from seamark.change.steps.switch_config import SwitchConfig
from seamark.fleet.copies.landings import say_file
from seamark.model.group import is_pipeline

if TYPE_CHECKING:
    from seamark.change.step import Step
    from seamark.change.world import World
    from seamark.model.plan import Plan, StepData

_NOTE = "readers go on where they stood in the source: what they have read in the target since, they read again"


def guard_way_back(plan: Plan, steps: Sequence[Step], *, world: World) -> tuple[Plan, tuple[Step, ...]]:
    """A plan that undoes a cut-over, with the proof that nobody has written to the target since.

    It is looked for now, for whoever makes the plan; and again when everybody has stopped, before anybody is turned.

    Raises:
        RefusedError: somebody has.
    """
    returned = [step for step in steps if isinstance(step, ReturnReader)]
    proofs = list({step.copy: step.build_proof() for step in returned}.values())
    if not proofs:
        return plan, tuple(steps)
    for proof in proofs:
        proof.perform(world, Intent(None, None))
    first = next((n for n, step in enumerate(steps) if isinstance(step, SwitchConfig | ReturnReader)), 0)
    stopped = [step for step in steps[:first] if isinstance(step, SetRunState) and step.state == "STOPPED"]
    still: list[Step] = [ProveStopped(step.cluster, step.name) for step in stopped]
    lane = plan.steps[first].lane
    data: list[StepData] = [step.to_data(lane=lane) for step in (*still, *proofs)]
    steps = (*steps[:first], *still, *proofs, *steps[first:])
    all_data = (*plan.steps[:first], *data, *plan.steps[first:])
    files = [say_file(step.group, step.target, target=step.source) for step in returned if is_pipeline(step.group)]
    return replace(plan, steps=all_data, notes=(*plan.notes, _NOTE, *files)), tuple(steps)
