"""What steps need of the records that a sink reads: where it stands, what lies there, and where one is parked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from seamark.core.ports import Port
from seamark.kafka.record import Headers, Place, WholeRecord
from seamark.kafka.spot import Spot


class RecordPort(Protocol):
    """The records of one sink."""

    def read_positions(self) -> Mapping[Spot, int]:
        """The next offset of every partition that it reads. What was never committed stands where the log begins."""
        ...

    def read_ends(self) -> Mapping[Spot, int]:
        """Where the log of every partition that it reads ends now."""
        ...

    def find_next(self, positions: Mapping[Spot, int]) -> Mapping[Spot, Place]:
        """The first record at or behind each position, as the sink would get it. None where the log ends."""
        ...

    def read(self, place: Place) -> WholeRecord | None:
        """The record that lies there; None where none does any more."""
        ...

    def is_parked(self, topic: str, place: Place) -> bool:
        """Whether the topic holds a parked copy of the record that lies, or lay, there. No topic holds none."""
        ...

    def park(self, topic: str, record: WholeRecord, headers: Headers) -> None:
        """Write a copy with these headers behind its own."""
        ...


RECORDS: Port[Callable[[str, str], RecordPort]] = Port("records")
"""Opens the records that one sink of a Connect cluster reads."""
