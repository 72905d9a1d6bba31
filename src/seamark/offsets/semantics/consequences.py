"""What an offset says: its order beside another, and what moving it does to the data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
