"""What a change expects to find: as the plan saw it, then as its own steps left it."""

from __future__ import annotations

from collections.abc import Iterable

from seamark.change.image import build_fingerprint
from seamark.change.precondition import BEFORE, aspect_of
from seamark.change.step import Intent, Outcome, Step
from seamark.errors import SeamarkError, UnknownOutcomeError
from seamark.model.plan import Precondition
from seamark.model.result import GOOD

# No fingerprint is empty: an aspect that somebody else changed meets no expectation.
_NOBODYS = ""


class Expectations:
    """The newest known image of each aspect of each subject.

    A step that finds something else does not act: somebody else has been there since.
    """

    def __init__(self, preconditions: Iterable[Precondition] = ()) -> None:
        self._images = {p.subject: p.expected for p in preconditions if p.kind == BEFORE}
        self._unsure: set[str] = set()

    def allow(self, step: Step, intent: Intent) -> bool:
        """Whether a step finds what it should."""
        expected = self._images.get(aspect_of(step))
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
            if came_or_went(intent):
                # Whatever was known of its other sides was of the one before it.
                prefix = f"{step.subject}#"
                self._images = {key: image for key, image in self._images.items() if not key.startswith(prefix)}
            self._images[aspect] = build_fingerprint(intent.after)
        elif outcome is Outcome.UNKNOWN:
            self._images.pop(aspect, None)
        elif outcome is Outcome.FOREIGN:
            self._images[aspect] = _NOBODYS


def came_or_went(intent: Intent) -> bool:
    """Whether the step made its subject appear or disappear."""
    return (intent.before is None) != (intent.after is None)
