"""In which order a Java HashMap gives its fields back.

Connect's REST API reads each partition into a HashMap, so this order decides which bytes it looks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeVar

_Value = TypeVar("_Value")
_FIRST_CAPACITY = 16
# Up to this many slots a crowded one makes Java double the table before it is three quarters full.
_CROWDED_CAPACITY = 64
_CROWDED = 8
_KEPT_LENGTH = 1000


def hash_text(text: str) -> int:
    """`String.hashCode`, without a sign: over the units of UTF-16."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return code


def order_names(names: Iterable[str]) -> list[str]:
    """The names as a HashMap gives them back to which they were added in this order.

    From 64 slots on Java turns a slot with more than 8 names into a tree, whose order is not foretold here: such names
    stay in the order in which they came. That takes 9 names whose hashes end alike.
    """
    spread = {name: (code := hash_text(name)) ^ code >> 16 for name in names}
    capacity = _find_capacity(list(spread.values()))
    # Sorting is stable: names of one slot stay as they came, which is how Java chains them.
    return sorted(spread, key=lambda name: spread[name] & (capacity - 1))


def _find_capacity(codes: list[int]) -> int:
    capacity = _FIRST_CAPACITY
    for count in range(1, len(codes) + 1):
        slot = codes[count - 1] & (capacity - 1)
        if capacity < _CROWDED_CAPACITY and count > _CROWDED:
            beside = sum(1 for code in codes[: count - 1] if code & (capacity - 1) == slot)
            capacity *= 2 if beside >= _CROWDED else 1
        if count > capacity * 3 // 4:
            capacity *= 2
    return capacity


def order_as_hash_map(fields: Mapping[str, _Value]) -> dict[str, _Value]:
    """The same fields in the order of a HashMap that was filled from this map."""
    if len(fields) < 2:
        return dict(fields)
    names = tuple(fields)
    # A hundred thousand partitions share a few sets of names; a hostile name is not kept.
    is_short = sum(map(len, names)) <= _KEPT_LENGTH
    return {name: fields[name] for name in (_order_kept(names) if is_short else order_names(names))}


@lru_cache(maxsize=1024)
def _order_kept(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(order_names(names))
