"""What must still be so when a plan is applied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from seamark.changes.environment import Environment, SnapshotEnvironment
from seamark.changes.identity import check_identity
from seamark.changes.images import build_fingerprint, find_key_names
from seamark.changes.outcome import GOOD
from seamark.changes.plan import Plan
from seamark.changes.step import Intent, Outcome, Precondition, Step
from seamark.core.refs import parse_aspect, spell_aspect
from seamark.errors import RefusedError, SeamarkError, StalePlanError, UnknownOutcomeError

# The state that a step found when the plan was made, compared with what it finds now.
BEFORE = "before"
# The journal keys that sealed the secrets of what the steps found: with another key all of them seem to have changed.
SEALED = "sealed"
# The aspect that moves on by itself while its owner runs: no plan can expect one.
POSITION = "position"
# A choice, not a measurement: beyond a dozen looks the whole cluster is read once.
_MANY = 12


def build_preconditions(steps: Sequence[Step], world: Environment) -> tuple[Precondition, ...]:
    """Return what the first step on each aspect of a subject finds. Later steps find what the earlier ones left."""
    first: dict[str, Step] = {}
    for step in steps:
        if is_expected(step):
            first.setdefault(aspect_of(step), step)
    found = [(step, step.intend(world)) for step in first.values()]
    return (
        *(build_precondition(step, intent) for step, intent in found),
        *build_sealed([intent.before for _, intent in found]),
    )


def build_sealed(images: Sequence[Any]) -> tuple[Precondition, ...]:
    """Return the precondition that the secrets of these images are sealed with the same key, if there are any."""
    names = ", ".join(sorted(find_key_names(images)))
    if not names:
        return ()
    return (Precondition(SEALED, "journal-key", names, f"the secrets are sealed with journal key {names}"),)


def build_precondition(step: Step, intent: Intent) -> Precondition:
    """That what a step found is still so."""
    return Precondition(
        BEFORE,
        subject=aspect_of(step),
        expected=build_fingerprint(intent.before),
        words=f"the {step.aspect} of {step.subject} is as it was when the plan was made",
    )


def is_expected(step: Step) -> bool:
    """Whether a plan can expect to find what a step found when it was made."""
    return not step.drifts and not is_position(step)


def is_position(step: Step) -> bool:
    """Whether a step shows where a reader stands. One that is carried twice has two of them."""
    return step.aspect.startswith(POSITION)


def aspect_of(step: Step) -> str:
    """What a step's images show: its subject and the side of it."""
    return spell_aspect(step.subject, step.aspect)


def check_preconditions(plan: Plan, steps: Sequence[Step], world: Environment) -> None:
    """Refuse the plan if it is for other clusters, or if something has moved; the error names everything that has."""
    check_identity(plan.identity, world)
    looking = SnapshotEnvironment(world) if len(steps) > _MANY else world
    present = build_preconditions(steps, looking)
    _check_keys(plan.preconditions, present)
    found = {p.subject: p.expected for p in present}
    drifting = {aspect_of(step) for step in steps if not is_expected(step)}
    guards = [p for p in plan.preconditions if p.kind == BEFORE and p.subject not in drifting]
    moved = [p.subject for p in guards if found.get(p.subject) != p.expected]
    if moved:
        raise build_stale(moved)


def reseal(plan: Plan, steps: Sequence[Step], world: Environment) -> Plan:
    """Return a plan that expects what is there now, sealed with the key of this world.

    For the undo of a change with a previous key, whose seals no later look can be compared with.
    """
    present = build_preconditions(steps, world)
    found = {p.subject: p.expected for p in present}
    expected = [replace(p, expected=found.get(p.subject, p.expected)) for p in plan.preconditions if p.kind != SEALED]
    return replace(plan, preconditions=(*expected, *(p for p in present if p.kind == SEALED)))


def _check_keys(planned: Sequence[Precondition], present: Sequence[Precondition]) -> None:
    theirs, ours = ({p.expected for p in found if p.kind == SEALED} for found in (planned, present))
    if theirs and ours and theirs != ours:
        raise RefusedError(
            "the plan was created with another journal key; no changes were made",
            cause=f"its secrets are sealed with key {', '.join(theirs)}; the key of this context is {', '.join(ours)}",
            hint="set journal_key of both contexts to the same key, or create the plan here",
        )


def build_stale(moved: Sequence[str]) -> StalePlanError:
    """Return the error for a plan that is out of date; `moved` are the aspects that have changed."""
    return StalePlanError(
        "the world has moved since the plan was made; nothing was changed",
        cause=f"changed meanwhile: {', '.join(moved)}",
        hint="make the plan anew and look at it",
    )


# No fingerprint is empty: an aspect that somebody else changed meets no expectation.
_NOBODYS = ""


class Expectations:
    """The newest known image of each aspect of each subject.

    A step that finds something else does not act: somebody else has been there since.
    """

    def __init__(self, preconditions: Iterable[Precondition] = ()) -> None:
        # By subject, then by aspect: when a thing comes or goes, everything known of it goes at once.
        self._images: dict[str, dict[str, str]] = {}
        self._unsure: set[str] = set()
        for found in preconditions:
            if found.kind == BEFORE:
                subject = parse_aspect(found.subject)[0]
                self._images.setdefault(subject, {})[found.subject] = found.expected

    def allow(self, step: Step, intent: Intent) -> bool:
        """Whether a step finds what it should."""
        expected = self._images.get(step.subject, {}).get(aspect_of(step))
        return step.drifts or expected is None or build_fingerprint(intent.before) == expected

    def is_met(self, step: Step, intent: Intent) -> bool:
        """Whether a step has nothing to do, and a look is enough to know it.

        After an act that was never seen to end, a look is not: what it did may still be about to show. Then the step
        acts, and what was sent last is what stays.
        """
        return bool(intent.before == intent.after) and not self.is_unsure(step)

    def is_unsure(self, step: Step) -> bool:
        """Whether what a step finds may be older than what an earlier one did."""
        return aspect_of(step) in self._unsure

    def learn(self, step: Step, intent: Intent, outcome: Outcome, *, error: SeamarkError | None = None) -> None:
        """Take in how a step ended."""
        aspect = aspect_of(step)
        if outcome is Outcome.UNKNOWN or isinstance(error, UnknownOutcomeError):
            self._unsure.add(aspect)
        if outcome in GOOD:
            self._unsure.discard(aspect)
            # Where it came or went, whatever was known of its other sides was of the one before it.
            images = {} if came_or_went(intent) else self._images.get(step.subject, {})
            self._images[step.subject] = images | {aspect: build_fingerprint(intent.after)}
        elif outcome is Outcome.UNKNOWN:
            self._images.get(step.subject, {}).pop(aspect, None)
        elif outcome is Outcome.FOREIGN:
            self._images.setdefault(step.subject, {})[aspect] = _NOBODYS


def came_or_went(intent: Intent) -> bool:
    """Whether the step made its subject appear or disappear."""
    return (intent.before is None) != (intent.after is None)
