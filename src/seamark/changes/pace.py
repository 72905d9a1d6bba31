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


# Connect takes everything that waits at its door, then rebalances, which costs a heartbeat: 1.5 s here, else 3 s.
# So what counts is that somebody always waits there. On two workers and two busy cores 200 connectors were created by 8
# writers in 4 to 11 s, with many such pauses; by 16 in 4 to 7 s; by 32 in 4 to 6 s. The lanes beyond the writers get
# ready or wait for what they have sent.
FLEET_PACE = Pace(at_once=128, writers=16)
