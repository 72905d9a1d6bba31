"""Turning "unknown" into a fact, by looking."""

from __future__ import annotations

from seamark.changes.progress import Progress
from seamark.changes.step import Intent, Observed, Outcome, Step
from seamark.changes.timing import ChangeTiming
from seamark.changes.world import World
from seamark.errors import DeadlineError, RefusedError, SeamarkError, UndecidableError, UnreadableOutcomeError

Settled = tuple[Outcome, SeamarkError | None]
_DECIDE = "look at it, then decide: seamark journal resume or seamark journal undo"


class Settler:
    """Looks at what a step did until its outcome is known, or the time for it is over."""

    def __init__(self, world: World, *, timing: ChangeTiming, progress: Progress) -> None:
        self._world = world
        self._timing = timing
        self._progress = progress

    def settle(
        self, step: Step, intent: Intent, *, unknown: SeamarkError | None, quiet_at: float, unsure: bool = False
    ) -> Settled:
        """Look until the outcome is a fact or the time is over.

        After an answer the effect must show within the step's own time. After none (`unknown`), "as before" is believed
        only when no late request can land any more, at `quiet_at`, and what landed then would show. A state that is
        neither is believed when it lasts: a worker that lags may show one that is older than "before". Where the step
        was `unsure` what it found, all but "after" is as before, and without an answer nothing that is seen is proof.
        """
        clock = self._world.clock
        deadline = quiet_at + self._timing.shows_seconds if unknown else clock.now() + step.settle_seconds
        if unknown and not step.lands_late:
            # Who could still do it has ended, and what is seen is so.
            deadline = clock.now()
        if unknown:
            self._progress.waiting(f"an answer is missing: looking for up to {max(0.0, deadline - clock.now()):.0f} s")
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
                if looked_at >= deadline:
                    return self._give_up(step, observed, trouble=trouble, unknown=unknown)
            else:
                foreign_since = looked_at if foreign_since is None else foreign_since
                lasted = looked_at - foreign_since >= self._timing.foreign_seconds
                if lasted and (unknown is None or looked_at >= deadline):
                    return Outcome.DID_NOT_HAPPEN if step.drifts else Outcome.FOREIGN, build_foreign(step)
            clock.sleep(self._timing.look_seconds)

    def is_half(self, step: Step, intent: Intent) -> bool:
        """Whether a part of a write is done, and all of it may be written again.

        To be asked only when nothing of it can land any more: where `settle` found no end of it.
        """
        return step.repeats and self.look(step, intent)[0] is Observed.BETWEEN

    def look(self, step: Step, intent: Intent) -> tuple[Observed | None, SeamarkError | None]:
        """What is seen now, or why nothing can be seen."""
        try:
            return step.observe(self._world, intent), None
        except SeamarkError as error:
            return None, error

    def check_standing(self, step: Step, intent: Intent) -> Settled:
        """Whether what was done some time ago still stands: DONE if so, FOREIGN if not, UNKNOWN if nobody can tell."""
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
            # It changes by itself, so there is nothing to be in between of: the act was of no use, and may be repeated.
            return Outcome.DID_NOT_HAPPEN, error
        if observed is Observed.BEFORE and unknown:
            return Outcome.DID_NOT_HAPPEN, unknown
        return Outcome.UNKNOWN, error


def build_foreign(step: Step) -> SeamarkError:
    """What to say when somebody else changed the thing."""
    return RefusedError(
        f"the {step.aspect} of {step.subject} is not as this change left it: somebody else changed it", hint=_DECIDE
    )


def build_too_slow(step: Step, observed: Observed | None) -> SeamarkError:
    """What to say when the effect does not show."""
    return DeadlineError(
        f"{step.subject} did not show the change within {step.settle_seconds:.0f} s",
        cause=f"it is seen {observed or 'not at all'}",
        hint=_DECIDE,
    )


def build_moved_on(step: Step) -> SeamarkError:
    """Return the error for a write of offsets that no look can decide, because the owner runs again."""
    return UndecidableError(
        f"can't tell whether this was carried out: {step.describe()}",
        cause=f"{step.subject} was started again and reads on, so its offsets now say nothing about the write",
    )


def build_unreadable(step: Step, cause: str) -> SeamarkError:
    """Return the error for a write of offsets that a later look can decide, if the owner isn't started before."""
    return UnreadableOutcomeError(
        f"{step.subject} was not started again, because its offsets can't be read",
        cause=f"{cause}; once it runs, its offsets no longer show whether they were written",
    )
