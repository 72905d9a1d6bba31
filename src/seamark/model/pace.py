"""How fast a change goes, and when it stops going."""

from __future__ import annotations

from dataclasses import dataclass

from seamark.errors import RefusedError


@dataclass(frozen=True, slots=True)
class Pace:
    """How many lanes go at once, and how much may go wrong.

    `at_once` lanes are in hand at a time; most of them wait for what Connect does. `writers` of them at a time send
    something to one cluster. The first `canary` lanes go alone, and nothing follows where one of them fails. With more
    than `max_failures` failed lanes no other is begun. A plan with more than `max_changes` lanes is not begun at all.
    """

    at_once: int = 1
    writers: int = 1
    canary: int = 0
    max_failures: int | None = None
    max_changes: int | None = None

    def refuse_too_many(self, changes: int) -> None:
        """Refuse a plan that changes more than is allowed."""
        if self.max_changes is not None and changes > self.max_changes:
            raise RefusedError(
                f"the plan changes {changes} things, and {self.max_changes} are allowed; nothing was changed",
                hint="look at it again; if it is right, allow more: --max-changes",
            )


# A choice that all fault tests ran with, not an optimum. On two workers 200 connectors were created in 36 s by 8
# writers, in 19 s by 32; the looks between two requests hold a writer up, and those are to be shared first. The lanes
# beyond the writers wait until their connectors run.
FLEET_PACE = Pace(at_once=64, writers=8)
