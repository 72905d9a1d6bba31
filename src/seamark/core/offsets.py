"""The order of two offsets."""

from __future__ import annotations

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
