"""A consumer group as its coordinator tells it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """One group. A group that nobody ever joined is DEAD, which is no fault."""

    name: str
    state: str
    members: int
    operations: frozenset[str] = frozenset()
