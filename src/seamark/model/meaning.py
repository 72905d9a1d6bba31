"""What an offset says: its order beside another, and what moving it does to the data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Order(StrEnum):
    """Where one position lies, seen from another. UNKNOWN where the family does not tell."""

    BEFORE = "before"
    EQUAL = "equal"
    AFTER = "after"
    UNKNOWN = "unknown"

    @property
    def turned(self) -> Order:
        """The same, seen from the other position."""
        return {Order.BEFORE: Order.AFTER, Order.AFTER: Order.BEFORE}.get(self, self)


def order_of(left: tuple[int, ...], right: tuple[int, ...]) -> Order:
    """The order of two positions whose numbers count from the left."""
    if left == right:
        return Order.EQUAL
    return Order.BEFORE if left < right else Order.AFTER


class Harm(StrEnum):
    """What becomes of the data where a position was moved, in one word."""

    NOTHING = "nothing"
    DUPLICATES = "duplicates"
    OVERWRITES = "overwrites"
    LOSS = "loss"
    FAILURE = "failure"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Consequence:
    """What a rewind or a skip does to the target. `words` are a sentence for whoever must say yes to it."""

    harm: Harm
    words: str
