"""Preconditions, which must still be true when a plan is applied, and the observation of what its steps did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from seamark.changes.environment import Environment, SnapshotEnvironment
from seamark.changes.identity import check_identity
from seamark.changes.images import build_fingerprint, find_key_names
from seamark.changes.outcome import GOOD, Progress
from seamark.changes.plan import Plan
from seamark.changes.step import Intent, Observed, Outcome, Precondition, Step
from seamark.changes.timing import ChangeTiming
from seamark.core.refs import parse_aspect, spell_aspect
from seamark.errors import (
    DeadlineError,
    RefusedError,
    SeamarkError,
    StalePlanError,
    UndecidableError,
    UnknownOutcomeError,
    UnreadableOutcomeError,
)

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


Settled = tuple[Outcome, SeamarkError | None]
_DECIDE = "check the resource, then run seamark journal resume or seamark journal undo"


class OutcomeResolver:
    """Observes a step's effect until its outcome is known or the time limit has passed."""

    def __init__(self, world: Environment, *, timing: ChangeTiming, progress: Progress) -> None:
        self._world = world
        self._timing = timing
        self._progress = progress

    def settle(
        self, step: Step, intent: Intent, *, unknown: SeamarkError | None, quiet_at: float, unsure: bool = False
    ) -> Settled:
        """Observe the running system until the outcome is known or the time limit has passed.

        After an answer, the effect must become visible within the step's own time. Without an answer (`unknown`), "as
        before" is accepted only after `quiet_at`, when no late request can take effect, plus the time in which its
        effect would become visible. A state that is neither before nor after is accepted only if it lasts, because a
        lagging worker may show a state older than "before". If the step's starting state was `unsure`, every state
        except "after" counts as before, and without an answer no observed state is proof.
        """
        clock = self._world.clock
        deadline = quiet_at + self._timing.shows_seconds if unknown else clock.now() + step.settle_seconds
        # During a rebalance, the observed state is neither before nor after; that ends within the step's own time. A
        # write with `repeats` may be half done, and is then repeated. There is no wait for offsets that can't be read,
        # because an operator who starts the connector meanwhile would make them look as before.
        last_look = deadline if unsure else max(deadline, clock.now() + step.settle_seconds)
        if unknown and not step.lands_late:
            # The process that could still do it has ended, so the observed state is final.
            deadline = last_look = clock.now()
        if unknown:
            self._progress.waiting(f"no answer yet: checking for up to {max(0.0, deadline - clock.now()):.0f} s")
        foreign_since: float | None = None
        while True:
            looked_at = clock.now()
            observed, trouble = self.look(step, intent)
            if unsure and observed is not None:
                observed = self._doubt(observed, answered=unknown is None)
            if observed is Observed.AFTER:
                return Outcome.DONE, None
            if observed is not Observed.FOREIGN:
                foreign_since = None
                may_pass = observed is Observed.BETWEEN and not step.repeats
                if looked_at >= (last_look if may_pass else deadline):
                    return self._give_up(step, observed, trouble=trouble, unknown=unknown)
            else:
                foreign_since = looked_at if foreign_since is None else foreign_since
                lasted = looked_at - foreign_since >= self._timing.foreign_seconds
                if lasted and (unknown is None or looked_at >= deadline):
                    return Outcome.DID_NOT_HAPPEN if step.drifts else Outcome.FOREIGN, build_foreign(step)
            clock.sleep(self._timing.look_seconds)

    def is_half(self, step: Step, intent: Intent) -> bool:
        """Return whether a write is partly done and may be repeated completely.

        Call this only when the write can no longer take effect, that is, after `settle` returned without an outcome.
        """
        return step.repeats and self.look(step, intent)[0] is Observed.BETWEEN

    def look(self, step: Step, intent: Intent) -> tuple[Observed | None, SeamarkError | None]:
        """Return the observed state, or the error that prevents the observation."""
        try:
            return step.observe(self._world, intent), None
        except SeamarkError as error:
            return None, error

    def check_standing(self, step: Step, intent: Intent) -> Settled:
        """Check whether an earlier effect lasts: DONE if so, FOREIGN if not, UNKNOWN if it can't be read."""
        clock = self._world.clock
        deadline = clock.now() + self._timing.shows_seconds + self._timing.foreign_seconds
        while True:
            looked_at = clock.now()
            observed, trouble = self.look(step, intent)
            if observed is Observed.AFTER:
                return Outcome.DONE, None
            if looked_at >= deadline:
                break
            clock.sleep(self._timing.look_seconds)
        if observed in (None, Observed.BETWEEN):
            return Outcome.UNKNOWN, trouble or build_too_slow(step, observed)
        return Outcome.FOREIGN, build_foreign(step)

    def _doubt(self, observed: Observed, *, answered: bool) -> Observed:
        if observed is Observed.AFTER:
            return Observed.AFTER if answered else Observed.BETWEEN
        return Observed.BEFORE if answered else Observed.BETWEEN

    def _give_up(
        self, step: Step, observed: Observed | None, *, trouble: SeamarkError | None, unknown: SeamarkError | None
    ) -> Settled:
        error = trouble or unknown or build_too_slow(step, observed)
        if observed is not None and step.drifts:
            # This aspect changes automatically, so there is no intermediate state: the request was ineffective, and may
            # be repeated.
            return Outcome.DID_NOT_HAPPEN, error
        if observed is Observed.BEFORE and unknown:
            return Outcome.DID_NOT_HAPPEN, unknown
        return Outcome.UNKNOWN, error


def build_foreign(step: Step) -> SeamarkError:
    """Build the error for a resource that another operator changed."""
    return RefusedError(f"another process changed the {step.aspect} of {step.subject} during this change", hint=_DECIDE)


def build_too_slow(step: Step, observed: Observed | None) -> SeamarkError:
    """Build the error for an effect that doesn't become visible."""
    return DeadlineError(
        f"{step.subject} did not show the change within {step.settle_seconds:.0f} s",
        cause=f"observed state: {observed or 'unknown'}",
        hint=_DECIDE,
    )


def build_moved_on(step: Step) -> SeamarkError:
    """Build the error for a write of offsets whose outcome can't be determined, because the owner runs again."""
    return UndecidableError(
        f"can't determine whether this was done: {step.describe()}",
        cause=f"{step.subject} was started again and its offsets advance, so they no longer show whether they were "
        "written",
    )


def build_unreadable(step: Step, cause: str) -> SeamarkError:
    """Build the error for a write of offsets whose outcome can be determined later, unless the owner is started."""
    return UnreadableOutcomeError(
        f"{step.subject} was not started again, because its offsets can't be read",
        cause=f"{cause}; once it runs, its offsets no longer show whether they were written",
    )
