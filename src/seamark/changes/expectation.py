"""What a change expects to find: as the plan saw it, then as its own steps left it."""

from __future__ import annotations

from collections.abc import Iterable

from seamark.changes.images import build_fingerprint
from seamark.changes.precondition import BEFORE, aspect_of
from seamark.changes.result import GOOD
from seamark.changes.step import Intent, Outcome, Step
from seamark.changes.step_data import Precondition
from seamark.core.refs import parse_aspect
from seamark.errors import SeamarkError, UnknownOutcomeError

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
