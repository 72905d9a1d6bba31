"""A look right before an act, that must not take long."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from seamark.changes.world import World
from seamark.errors import DeadlineError

T = TypeVar("T")

# What is read before a request is sent counts as time of the act; as long as `ChangeTiming.begin_seconds`, which knows.
_READ_SECONDS = 5.0


def take_last_look(world: World, subject: str, read: Callable[[], T]) -> T:
    """What `read` gives. Where that took too long, nobody may act on it any more."""
    began_at = world.clock.now()
    found = read()
    if world.clock.now() - began_at > _READ_SECONDS:
        raise DeadlineError(f"looking at {subject} once more took too long; nothing was sent")
    return found
