"""Steps → a plan: look at every subject, leave out what is so already, and write down what must still be so later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from seamark.change.actor import Actor
from seamark.change.patience import PLAN_SECONDS, ask_again
from seamark.change.precondition import aspect_of, build_precondition, is_expected
from seamark.change.snapshot import SnapshotWorld
from seamark.change.step import CanNotUndo, Step
from seamark.change.world import World
from seamark.errors import SeamarkError, UnreachableError, UnsettledError
from seamark.fleet.effects import Look, build_effect, read_look
from seamark.fleet.fanout import fan_out
from seamark.fleet.planned import Planned
from seamark.model.plan import Plan, Precondition

# Reading a whole cluster costs about as much as a dozen single looks.
_MANY = 12


class Planner:
    """Makes the plans of one context."""

    def __init__(self, context: str, world: World, *, actor: Actor) -> None:
        self._context = context
        self._world = world
        self._actor = actor

    @property
    def world(self) -> World:
        """What its steps look at."""
        return self._world

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
            raise _build_failure({name.partition(" ")[2]: error for name, error in answers.failures.items()})
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


def _build_failure(failures: Mapping[str, SeamarkError]) -> SeamarkError:
    if len(failures) == 1:
        return next(iter(failures.values()))
    kinds = (UnsettledError, UnreachableError, SeamarkError)
    kind = next(kind for kind in kinds if all(isinstance(error, kind) for error in failures.values()))
    return kind(
        f"no plan can be made: {len(failures)} things could not be read; nothing was changed",
        cause="; ".join(f"{subject}: {error.message}" for subject, error in failures.items()),
        hint="seamark doctor says what is wrong",
    )
