"""From actions to steps: the one way for a new plan, a saved one and an undo."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from seamark.changes.action import Action, ConfigWrite, Needs, Reads, StepSequence, build_step_data
from seamark.changes.effect import Effect
from seamark.changes.plan import Plan
from seamark.changes.precondition import aspect_of, build_precondition, build_sealed, is_expected
from seamark.changes.step import Intent, Step
from seamark.changes.step_data import Precondition
from seamark.policy.rights import Right

Expect = Callable[[Step], "Precondition | None"]
"""Returns what must be so where a step begins, if that is known from elsewhere: an undo knows what a change left."""


@dataclass(frozen=True, slots=True)
class PreparedAction:
    """An action with everything that was derived from it."""

    action: Action
    seen: Any = field(repr=False)
    sequence: StepSequence = field(repr=False)
    effects: tuple[Effect, ...]
    notes: tuple[str, ...]
    needs: Needs = field(repr=False)

    @property
    def is_met(self) -> bool:
        """Whether there is nothing to do."""
        return not self.sequence


@dataclass(frozen=True, slots=True)
class Prepared:
    """Actions with everything that was derived from them; those with nothing to do are in `met`."""

    items: tuple[PreparedAction, ...]
    met: tuple[PreparedAction, ...] = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        """Every step in order, with its secrets."""
        return tuple(step for item in self.items for step, _ in item.sequence)

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The lines of the plan."""
        return tuple(effect for item in self.items for effect in item.effects)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the actions say beside their lines, each sentence once."""
        return tuple(dict.fromkeys(note for item in self.items for note in item.notes))

    @property
    def undo_notes(self) -> tuple[str, ...]:
        """What the actions say where they take a change back."""
        return tuple(dict.fromkeys(note for item in self.items for note in item.action.undo_notes(item.seen)))

    @property
    def needs(self) -> Needs:
        """What all actions need."""
        return merge_needs(item.needs for item in self.items)

    def fill(self, plan: Plan) -> Plan:
        """Return the plan with its actions, their steps and their locks."""
        return replace(
            plan,
            actions=tuple(item.action for item in self.items),
            steps=tuple(
                data for item in self.items for data in build_step_data(item.sequence, lane=item.action.sequence)
            ),
            step_counts=tuple(len(item.sequence) for item in self.items),
            locks=tuple(sorted(self.needs.locks)),
        )


def prepare(actions: Sequence[Action], reads: Reads, *, known: Mapping[int, Any] | None = None) -> Prepared:
    """Read what all actions need to know, one call per class of actions, and derive everything else.

    `known` has what is read already, by the number of the action.

    Raises:
        RefusedError: one of them must not be done.
    """
    seen: dict[int, Any] = dict(known or {})
    for cls, numbers in _group(actions, without=seen).items():
        answers = cls.inspect([actions[number] for number in numbers], reads)
        seen.update(zip(numbers, answers, strict=True))
    items = [_prepare(action, seen[number]) for number, action in enumerate(actions)]
    return Prepared(tuple(one for one in items if not one.is_met), tuple(one for one in items if one.is_met))


def build_preconditions(prepared: Prepared, reads: Reads, *, expect: Expect | None = None) -> tuple[Precondition, ...]:
    """Return what the first step on each aspect of a subject finds. Later steps find what the earlier ones left."""
    first: dict[str, tuple[Step, Mapping[str, Intent]]] = {}
    for item in prepared.items:
        known = item.action.find_intents(item.seen)
        for step, _ in item.sequence:
            if is_expected(step):
                first.setdefault(aspect_of(step), (step, known))
    built, images = [], []
    for step, known in first.values():
        found = expect(step) if expect is not None else None
        if found is None:
            intent = known.get(aspect_of(step)) or step.intend(reads.world)
            images.append(intent.before)
            found = build_precondition(step, intent)
        built.append(found)
    return (*built, *build_sealed(images))


def _prepare(action: Action, seen: Any) -> PreparedAction:
    return PreparedAction(
        action,
        seen,
        action.steps(seen),
        effects=action.effects(seen),
        notes=action.notes(seen),
        needs=action.needs(seen),
    )


def _group(actions: Sequence[Action], *, without: Mapping[int, Any]) -> dict[type[Action], list[int]]:
    found: dict[type[Action], list[int]] = {}
    for number, action in enumerate(actions):
        if number in without:
            continue
        found.setdefault(type(action), []).append(number)
    return found


def merge_needs(needs: Iterable[Needs]) -> Needs:
    """Return what several actions need together."""
    found = list(needs)
    wide = Counter(one.wide_lock for one in found if one.wide_lock)
    locks: set[str] = set()
    rights: set[Right] = set()
    configs: list[ConfigWrite] = []
    for one in found:
        locks |= {one.wide_lock} if wide[one.wide_lock] > 1 else one.locks
        rights |= one.rights
        configs += one.configs
    return Needs(frozenset(locks), frozenset(rights), tuple(configs))
