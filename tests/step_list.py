"""An action of any steps: for tests of the executor, which must not depend on the actions that exist.

Its undo takes the steps back one by one. Processes that read a journal with such actions must import this module:
`tests.fault.cli` is the command line with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from seamark.changes.action import (
    Action,
    ActionHistory,
    Needs,
    Reads,
    StepSequence,
    When,
    action_kind,
    needs_permission,
)
from seamark.changes.codec import Encoded
from seamark.changes.effect import Effect
from seamark.changes.history import read_closed
from seamark.changes.plan import Plan
from seamark.changes.planner import Prepared, build_preconditions, prepare
from seamark.changes.recovery import Recovery
from seamark.changes.step import CanNotUndo, Step, StepData, build_step
from seamark.changes.undo import build_undo_plan
from seamark.offsets.write.guards import CheckStopped, VerifyOffsets
from seamark.offsets.write.steps import QUIET_SECONDS, WriteOffsets
from seamark.policy.permissions import Permission


def _pack(sequence: StepSequence) -> list[Any]:
    return [{"step": step.to_data().to_dict(), "when": str(when)} for step, when in sequence]


def _unpack(data: list[Any]) -> StepSequence:
    return tuple((build_step(StepData.from_dict(one["step"])), When(one["when"])) for one in data)


@action_kind("test-step-list")
@needs_permission(Permission.OPERATE)
@dataclass(frozen=True, slots=True)
class StepList(Action):
    """Steps of one sequence."""

    name: str
    items: Annotated[StepSequence, Encoded(_pack, _unpack)]
    locks: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        return self.items[0][0].subject

    @property
    def sequence(self) -> str:
        return self.name

    @classmethod
    def inspect(cls, actions: Sequence[StepList], reads: Reads) -> Sequence[None]:
        del reads
        return [None] * len(actions)

    def steps(self, seen: None) -> StepSequence:
        del seen
        return self.items

    def needs(self, seen: None) -> Needs:
        del seen
        return Needs(frozenset(self.locks))

    def effects(self, seen: None) -> tuple[Effect, ...]:
        del seen
        return ()

    def build_undo(self, past: ActionHistory) -> StepList | CanNotUndo | None:
        if refusal := past.find_refusal():
            return refusal
        undone = [
            (one, back)
            for one in reversed(past.steps)
            if one.intent is not None and one.may_have_acted and isinstance(back := one.step.undo(one.intent), Step)
        ]
        if not undone:
            return None
        # Where the sequence had to restore something, its undo has to as well, at its end.
        restored = {step.aspect for step, when in self.items if when is When.ALWAYS}
        last = {one.step.aspect: number for number, (one, _) in enumerate(undone)}
        items: list[tuple[Step, When]] = []
        for number, (one, back) in enumerate(undone):
            always = one.step.aspect in restored and last[one.step.aspect] == number
            items += [(step, When.ALWAYS if always and step is back else When.TURN) for step in surround(back)]
        return replace(self, items=tuple(items))


def surround(step: Step, *, quiet_seconds: float = QUIET_SECONDS) -> tuple[Step, ...]:
    """Return a step with its guards: a write of offsets has a proof before it and a check after it."""
    if not isinstance(step, WriteOffsets):
        return (step,)
    proof = CheckStopped(step.cluster, step.name, quiet_seconds=quiet_seconds, kept=step.kept)
    return proof, step, VerifyOffsets(step)


def build_step_list(
    name: str, steps: Sequence[Step | tuple[Step, bool]], *, locks: tuple[str, ...] = (), marked: When = When.ALWAYS
) -> StepList:
    """Return a list of steps; one in a pair with True runs as `marked` says."""
    pairs = [step if isinstance(step, tuple) else (step, False) for step in steps]
    return StepList(name, tuple((step, marked if is_marked else When.TURN) for step, is_marked in pairs), locks)


def plan_actions(actions: Sequence[Action], *, world: Any, title: str = "test", **more: Any) -> tuple[Plan, Prepared]:
    """Plan actions as a fleet does, without one."""
    reads = Reads(world)
    prepared = prepare(actions, reads)
    header: dict[str, Any] = {"context": "dev", "made_at": "2026-01-01T00:00:00Z", "made_by": "somebody"} | more
    plan = Plan(title=title, preconditions=build_preconditions(prepared, reads), **header)
    return prepared.fill(plan), prepared


def plan_undo(recovery: Recovery, change: str) -> Plan:
    """Plan the undo of a change, from the journal alone."""
    executor = recovery.executor
    entries = executor.journal.read(change)
    plan, _ = build_undo_plan(
        read_closed(entries), change=entries[0].change, reads=Reads(executor.world), actor=executor.actor
    )
    return plan
