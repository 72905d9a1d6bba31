"""The way back from a cut-over: only as long as nobody has written to the target since."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from seamark.change.step import Intent
from seamark.change.steps.carry_reader import ReturnReader
from seamark.change.steps.run_state import SetRunState
from seamark.change.steps.stopped import ProveStopped
from seamark.change.steps.switch_config import SwitchConfig
from seamark.change.steps.turn_over import TurnBack, TurnOver
from seamark.errors import RefusedError
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
    Whoever is turned over again, as such an undo is itself undone, needs a target that has all of the source.

    Raises:
        RefusedError: somebody has; or nobody can tell.
    """
    proofs = _list_proofs(steps)
    if not proofs:
        _refuse_unproven(steps)
        return plan, tuple(steps)
    for proof in proofs:
        proof.perform(world, Intent(None, None))
    first = next((n for n, step in enumerate(steps) if isinstance(step, SwitchConfig | ReturnReader)), 0)
    stopped = [step for step in steps[:first] if isinstance(step, SetRunState) and step.state == "STOPPED"]
    still: list[Step] = [ProveStopped(step.cluster, step.name) for step in stopped]
    lane = plan.steps[first].lane
    data: list[StepData] = [step.to_data(lane=lane) for step in (*still, *proofs)]
    all_data = (*plan.steps[:first], *data, *plan.steps[first:])
    notes = (*plan.notes, *_build_notes(steps))
    return replace(plan, steps=all_data, notes=notes), (*steps[:first], *still, *proofs, *steps[first:])


def _list_proofs(steps: Sequence[Step]) -> list[Step]:
    """One for each copy. What was done first is undone last, and knows of the earliest ends."""
    back = {step.copy: step.build_proof() for step in steps if isinstance(step, TurnBack | ReturnReader)}
    over = {step.copy: step.build_proof() for step in steps if isinstance(step, TurnOver)}
    return [*back.values(), *over.values()]


def _refuse_unproven(steps: Sequence[Step]) -> None:
    """Refuse to turn connectors where nothing says what the topics held: a change of an earlier seamark."""
    if turned := [step.subject for step in steps if isinstance(step, SwitchConfig)]:
        raise RefusedError(
            "it can't be told whether somebody has written to the new topic since the cut-over; it is not taken back",
            cause=f"the change does not say where that topic ended when {', '.join(turned)} was turned over",
            hint="copy it back the other way: seamark copy plan …; or, where nobody has written to it, give the "
            "connectors their former configs: seamark journal export has them",
        )


def _build_notes(steps: Sequence[Step]) -> Iterator[str]:
    returned = [step for step in steps if isinstance(step, ReturnReader)]
    if returned or any(isinstance(step, TurnBack) for step in steps):
        yield _NOTE
    yield from (say_file(step.group, step.target, target=step.source) for step in returned if is_pipeline(step.group))
