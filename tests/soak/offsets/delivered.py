"""Whether what was delivered is what the moves said: nothing lost, and read again only from where somebody stood.

Things are numbered from 0 in each partition. What a reader delivers is one number after the other; where it jumps,
something must have moved it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Start:
    """A position that a change wrote: when its intent was written, from which number to which."""

    at: float
    before: int
    after: int


@dataclass(frozen=True)
class Delivered:
    """One thing that came out: its number, and when, where that is known."""

    number: int
    at: float = float("inf")


def check_delivered(
    delivered: Sequence[Delivered],
    starts: Collection[Start],
    *,
    end: int,
    held: Collection[int] = (),
    died: Sequence[tuple[float, float]] = (),
) -> tuple[list[str], Counter]:
    """Sentences for what nobody ordered, and a count of the jumps.

    Forward it goes only where a change wrote that very number, and stood no further than what had been delivered.
    Backward it may also go where the reader had flushed (`held`), as Connect does when a worker dies, and within the
    times in which a server was dead (`died`), when a producer sends a batch again.
    """
    wrong, counts = [], Counter()
    last = -1
    for one in delivered:
        if one.number != last + 1:
            why = _explain(one, last, starts=starts, held=held, died=died)
            counts[why or "unexplained"] += 1
            if not why:
                wrong.append(f"after {last} came {one.number} at {one.at:.3f}, and no change had said so")
        last = one.number
    if last != end - 1:
        wrong.append(f"the last one is {last}, and there are {end}")
    return wrong, counts


def _explain(one, last, *, starts, held, died):
    if one.number in _find_reached([start for start in starts if start.at <= one.at], last + 1):
        return "moved"
    if one.number > last:
        return ""
    if one.number in held:
        return "read again"
    if any(begun <= one.at <= ended for begun, ended in died):
        return "sent again"
    return ""


def _find_reached(starts, at_most):
    """Where changes can have led from what was delivered, also several of them while nobody read."""
    reached = set()
    while fresh := {
        start.after
        for start in starts
        if start.after not in reached and (start.before <= at_most or start.before in reached)
    }:
        reached |= fresh
    return reached
