"""What a principal must be allowed to do, in Kafka's own words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One operation on one thing: `WRITE` on the `topic` or the `group` of that name."""

    kind: str
    name: str
    operation: str

    @property
    def words(self) -> str:
        """As people say it: `WRITE on topic connect-offsets`."""
        return f"{self.operation} on {self.kind} {self.name}"
