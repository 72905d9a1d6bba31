"""What a call is waiting for, so that nobody has to guess why nothing happens."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wait:
    """A call to a Connect cluster that has not ended yet.

    `doing` completes "trying to …", `seconds` is for how long, and `last_words` what was answered so far, "" while
    nobody answered anything.
    """

    cluster: str
    doing: str
    seconds: float
    last_words: str = ""
