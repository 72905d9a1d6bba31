"""Ids that sort by time: ULIDs."""

from __future__ import annotations

from seamark.errors import UsageError

_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LENGTH = 26


def new_ulid(at: float, randomness: bytes) -> str:
    """An id for a moment, in seconds since the epoch, and ten random bytes."""
    if len(randomness) != 10:
        raise UsageError("a ULID takes ten random bytes")
    number = int(at * 1000) << 80 | int.from_bytes(randomness, "big")
    return "".join(_LETTERS[number >> shift & 31] for shift in range(125, -1, -5))


def ulid_time(ulid: str) -> float:
    """The moment an id was made, in seconds since the epoch."""
    number = 0
    for letter in ulid[:10]:
        number = number << 5 | _LETTERS.index(letter)
    return number / 1000
