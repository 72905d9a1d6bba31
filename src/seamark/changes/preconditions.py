"""Preconditions: what must still be true when a plan is applied."""

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

# The state that a step found when the plan was created, compared with what it finds now.
BEFORE = "before"
# The journal keys that sealed the secrets in what the steps found. With another key, every secret would seem changed.
SEALED = "sealed"
# The aspect that advances automatically while its owner runs, so a plan can't expect a certain value.
POSITION = "position"
# A choice, not a measurement: for more than a dozen steps, the whole Connect cluster is read once.
_MANY = 12


def build_preconditions(steps: Sequence[Step], world: Environment) -> tuple[Precondition, ...]:
    """Build a precondition from the first step on each aspect of a subject. Later steps find what earlier ones left."""
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
    """Build the precondition that the secrets of these images are sealed with the same key, if there are any."""
    names = ", ".join(sorted(find_key_names(images)))
    if not names:
        return ()
    return (Precondition(SEALED, "journal-key", names, f"the secrets are sealed with journal key {names}"),)


def build_precondition(step: Step, intent: Intent) -> Precondition:
    """Build the precondition that the state found by a step is unchanged."""
    return Precondition(
        BEFORE,
        subject=aspect_of(step),
        expected=build_fingerprint(intent.before),
        words=f"the {step.aspect} of {step.subject} is unchanged since the plan was created",
    )


def is_expected(step: Step) -> bool:
    """Return whether a plan can expect that a step still finds what it found at planning."""
    return not step.drifts and not is_position(step)


def is_position(step: Step) -> bool:
    """Return whether a step's aspect is offsets. A connector whose offsets are moved twice has two such aspects."""
    return step.aspect.startswith(POSITION)


def aspect_of(step: Step) -> str:
    """Return the name of what a step's images show: its subject and aspect."""
    return spell_aspect(step.subject, step.aspect)


def check_preconditions(plan: Plan, steps: Sequence[Step], world: Environment) -> None:
    """Refuse the plan if it is for other clusters or out of date; the error names everything that has changed."""
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
    """Return a plan that expects the current state, sealed with the journal key of this environment.

    For the undo of a change with a previous key, whose seals can't be compared with current ones.
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
    """Build the error for a plan that is out of date; `moved` are the aspects that have changed."""
    return StalePlanError(
        "the plan is out of date; no changes were made",
        cause=f"changed since: {', '.join(moved)}",
        hint="create a new plan and review it",
    )


# No fingerprint is empty, so an aspect that another operator changed matches no expectation.
_NOBODYS = ""


class Expectations:
    """The newest known image of each aspect of each subject.

    A step that finds a different image doesn't act, because another operator has changed the resource since.
    """

    def __init__(self, preconditions: Iterable[Precondition] = ()) -> None:
        # By subject, then by aspect: when a subject is created or deleted, everything known about it is dropped
        # together.
        self._images: dict[str, dict[str, str]] = {}
        self._unsure: set[str] = set()
        for found in preconditions:
            if found.kind == BEFORE:
                subject = parse_aspect(found.subject)[0]
                self._images.setdefault(subject, {})[found.subject] = found.expected

    def allow(self, step: Step, intent: Intent) -> bool:
        """Return whether a step finds the expected image."""
        expected = self._images.get(step.subject, {}).get(aspect_of(step))
        return step.drifts or expected is None or build_fingerprint(intent.before) == expected

    def is_met(self, step: Step, intent: Intent) -> bool:
        """Return whether a step has nothing to do, and reading the state is enough to know that.

        After a request whose end was never observed, reading isn't enough, because its effect may still become visible.
        Then the step acts, so that its own request is the last one.
        """
        return bool(intent.before == intent.after) and not self.is_unsure(step)

    def is_unsure(self, step: Step) -> bool:
        """Return whether what a step reads proves nothing: an earlier effect may be missing, or its own never shows."""
        return not step.is_observable or aspect_of(step) in self._unsure

    def learn(self, step: Step, intent: Intent, outcome: Outcome, *, error: SeamarkError | None = None) -> None:
        """Record how a step ended."""
        aspect = aspect_of(step)
        if outcome is Outcome.UNKNOWN or isinstance(error, UnknownOutcomeError):
            self._unsure.add(aspect)
        if outcome in GOOD:
            self._unsure.discard(aspect)
            # If the subject was created or deleted, its other known aspects belonged to the previous resource.
            images = {} if came_or_went(intent) else self._images.get(step.subject, {})
            self._images[step.subject] = images | {aspect: build_fingerprint(intent.after)}
        elif outcome is Outcome.UNKNOWN:
            self._images.get(step.subject, {}).pop(aspect, None)
        elif outcome is Outcome.FOREIGN:
            self._images.setdefault(step.subject, {})[aspect] = _NOBODYS


def came_or_went(intent: Intent) -> bool:
    """Return whether a step created or deleted its subject."""
    return (intent.before is None) != (intent.after is None)
