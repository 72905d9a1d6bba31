"""How far a partition of a topic was taken over, and the next step: a value of every ledger, wherever it is kept."""

from __future__ import annotations

from dataclasses import dataclass, replace

OFFSET, DELETED = "seamark_offset", "seamark_deleted"
"""The columns that go with a row on its way: where it comes from, and whether it is gone."""


@dataclass(frozen=True, slots=True)
class Entry:
    """How far one partition has come. `epoch` grows with each claim: the last claimant may move it, and nobody else.

    `moves` counts how often it was moved: one that was set back and read again may come to the same offset.
    """

    topic: str
    topic_id: str
    partition: int
    next_offset: int
    epoch: int = 0
    moves: int = 0

    @property
    def key(self) -> tuple[str, int]:
        """What tells it from others of its owner."""
        return self.topic_id, self.partition

    def __str__(self) -> str:
        """As errors name it."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Step:
    """One range: from where the ledger stands to `end`."""

    entry: Entry
    end: int

    @property
    def after(self) -> Entry:
        """What the ledger says when it is landed."""
        return replace(self.entry, next_offset=self.end, moves=self.entry.moves + 1)
