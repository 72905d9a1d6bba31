"""Where a change stands, for lists and locks."""

from __future__ import annotations

from dataclasses import dataclass

from seamark.model.entry import EntryKind


@dataclass(frozen=True, slots=True)
class Head:
    """Where a change stands, as its newest entry says."""

    change: str
    title: str
    by: str
    opened_at: str
    last_at: str
    last_kind: EntryKind
    last_number: int
    last_hash: str
    locks: tuple[str, ...]
    nonce: str
    step: str = ""
    ending: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the change has not been closed."""
        return self.last_kind is not EntryKind.CLOSE
