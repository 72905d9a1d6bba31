"""Steps → a plan: look at every subject, leave out what is so already, and write down what must still be so later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from seamark.change.action import Action, Port, Reads
from seamark.change.actor import Actor
from seamark.change.fanout import build_failure, fan_out
from seamark.change.patience import PLAN_SECONDS, ask_again
from seamark.change.plan import Plan
from seamark.change.precondition import aspect_of, build_precondition, is_expected
from seamark.change.prepare import Prepared, prepare
from seamark.change.prepare import build_preconditions as prepare_preconditions
from seamark.change.snapshot import SnapshotWorld
from seamark.change.step import CanNotUndo, Step
from seamark.change.world import World
from seamark.errors import UnsettledError
from seamark.fleet.effects import Look, build_effect, read_look
from seamark.fleet.planned import Planned
from seamark.model.plan import Precondition

# Reading a whole cluster costs about as much as a dozen single looks.
_MANY = 12


class Planner:
    """Makes the plans of one context."""

    def __init__(
        self, context: str, world: World, *, actor: Actor, ports: Mapping[Port[Any], Any] | None = None
    ) -> None:
        self._context = context
        self._world = world
        self._actor = actor
        self._reads = Reads(world, ports)

    @property
    def world(self) -> World:
        """What its steps look at."""
        return self._world

    def plan(
        self,
        title: str,
        actions: Sequence[Action],
        *,
        notes: Iterable[str] = (),
        spec: Mapping[str, Any] | None = None,
        reads: Reads | None = None,
        known: Mapping[int, Any] | None = None,
    ) -> Planned:
        """Create the plan of these actions. Those with nothing to do are left out.

        `known` has what is read already, by the number of the action.
        """
        reads = reads or self.open_reads(len(actions))
        prepared = self.prepare(actions, reads, known=known)
        plan = Plan(
            title=title,
            context=self._context,
            made_at=self._actor.timestamp(),
            made_by=self._actor.name,
            preconditions=prepare_preconditions(prepared, reads),
            notes=(*notes, *prepared.notes) if prepared.items else (),
            spec=spec or {},
        )
        return Planned(prepared.fill(plan), prepared.steps, prepared.effects, needs=prepared.needs)

    def prepare(
        self, actions: Sequence[Action], reads: Reads | None = None, *, known: Mapping[int, Any] | None = None
    ) -> Prepared:
        """Derive everything from actions. What a rebalance hides is waited for, though not for long."""
        chosen = reads or self.open_reads(len(actions))
        return ask_again(
            lambda: prepare(actions, chosen, known=known), self._world.clock, seconds=PLAN_SECONDS, on=UnsettledError
        )

    def open_reads(self, count: int) -> Reads:
        """Return what planning may read. For many actions each cluster is read once."""
        return self._reads.over(SnapshotWorld(self._world)) if count > _MANY else self._reads

    def build(
        self, title: str, steps: Sequence[Step], *, locks: Iterable[str] = (), notes: Iterable[str] = ()
    ) -> Planned:
        """The plan of these steps, one lane for each subject: where one fails, the others go on."""
        needed = [look for look in self.look(steps) if look.is_needed]
        plan = Plan(
            title=title,
            context=self._context,
            made_at=self._actor.timestamp(),
            made_by=self._actor.name,
            steps=tuple(look.step.to_data(lane=look.step.subject) for look in needed),
            locks=tuple(sorted(set(locks))) if needed else (),
            preconditions=build_preconditions(needed),
            notes=(*notes, *build_undo_notes(needed)) if needed else (),
        )
        return Planned(
            plan, steps=tuple(look.step for look in needed), effects=tuple(build_effect(look) for look in needed)
        )

    def explain(self, plan: Plan, steps: Sequence[Step]) -> Planned:
        """A plan that was made elsewhere or earlier, with what its steps mean now."""
        # Waiting, and a way back that may never be gone, are no news for the reader.
        shown = [step for step, data in zip(steps, plan.steps, strict=True) if step.acts and not data.fallback]
        return Planned(plan, steps=tuple(steps), effects=tuple(build_effect(look) for look in self.look(shown)))

    def look(self, steps: Sequence[Step]) -> tuple[Look, ...]:
        """Look at the subjects of all steps, several at once. What a rebalance hides is waited for, not for long."""
        return ask_again(lambda: self._look_once(steps), self._world.clock, seconds=PLAN_SECONDS, on=UnsettledError)

    def _look_once(self, steps: Sequence[Step]) -> tuple[Look, ...]:
        world = SnapshotWorld(self._world) if len(steps) > _MANY else self._world
        calls = {f"{number} {step.subject}": partial(read_look, step, world) for number, step in enumerate(steps)}
        answers = fan_out(calls)
        if answers.failures:
            raise build_failure({name.partition(" ")[2]: error for name, error in answers.failures.items()})
        return tuple(answers.results.values())


def build_preconditions(looks: Sequence[Look]) -> tuple[Precondition, ...]:
    """What the first step on each aspect of a subject found. Later steps find what the earlier ones left."""
    first: dict[str, Look] = {}
    for look in looks:
        if is_expected(look.step):
            first.setdefault(aspect_of(look.step), look)
    return tuple(build_precondition(look.step, look.intent) for look in first.values())


def build_undo_notes(looks: Sequence[Look]) -> tuple[str, ...]:
    """What can't be taken back is said before it is done."""
    notes = []
    for look in looks:
        # Where nothing is there yet, what was made can be taken away again.
        back = None if look.intent.before is None else look.step.undo(look.intent)
        if isinstance(back, CanNotUndo):
            notes.append(f"can't be undone: {look.step.describe()}: {back.because}")
    return tuple(notes)
