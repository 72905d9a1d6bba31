"""A reader of a topic that is copied: where it goes on in the target, and what it reads again there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CarriedReader:
    """The positions of one group in the target of a copy, by partition.

    It reads `to_read` copied records from there on. Between `replayed_least` and `replayed_most` of them it has had
    before; the two are the same where that is known exactly. `debris` offsets ahead of it hold what was taken back:
    only readers of committed records don't see those.
    """

    offsets: Mapping[int, int]
    to_read: int = 0
    replayed_least: int = 0
    replayed_most: int = 0
    debris: int = 0

    @property
    def replay_words(self) -> str:
        """How much it reads again, in words."""
        if self.replayed_least == self.replayed_most:
            return "nothing again" if not self.replayed_most else f"{self.replayed_most} records again"
        return f"{self.replayed_least} to {self.replayed_most} records again"

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it, without the offsets."""
        return {"to_read": self.to_read, "replayed": [self.replayed_least, self.replayed_most], "debris": self.debris}
