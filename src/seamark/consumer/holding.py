"""The partitions that a consumer holds, and how far each has come: read, and saved. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from seamark.errors import NotFoundError
from seamark.model.ledger_entry import Entry
from seamark.model.spot import Spot


@dataclass(slots=True)
class Held:
    """One partition. `entry` is what the ledger said last; `position` is the record that comes next.

    `saved` is what the ledger says if the last transaction was committed, which is not known yet.
    """

    entry: Entry
    position: int
    saved: Entry | None = None
    # Where the caller wants to go on, whatever the ledger says.
    sought: int | None = None

    @property
    def is_read(self) -> bool:
        """Whether records of it were given to the caller since the ledger was looked at."""
        return self.position != self.start

    @property
    def is_to_save(self) -> bool:
        """Whether the ledger is to follow: records were given, or the caller has sought another place."""
        return self.is_read or self.sought is not None

    @property
    def start(self) -> int:
        """Where its next records are, as far as the ledger is known."""
        return self.entry.next_offset if self.sought is None else self.sought


class Holdings:
    """All partitions of one consumer."""

    def __init__(self) -> None:
        self._held: dict[Spot, Held] = {}

    def __iter__(self) -> Iterator[tuple[Spot, Held]]:
        return iter(list(self._held.items()))

    def __contains__(self, spot: Spot) -> bool:
        return spot in self._held

    def take(self, spot: Spot, entry: Entry) -> None:
        """A partition was claimed."""
        self._held[spot] = Held(entry, position=entry.next_offset)

    def drop(self, spots: Iterable[Spot]) -> None:
        """Partitions are gone."""
        for spot in spots:
            self._held.pop(spot, None)

    def find(self, spot: Spot) -> Held:
        """A partition that is held."""
        if spot not in self._held:
            topic, partition = spot
            raise NotFoundError(
                f"{topic}-{partition} is not held by this consumer",
                hint="it may be another's, or not yet claimed: consume first",
            )
        return self._held[spot]

    def accept(self, spot: Spot, offset: int) -> bool:
        """Whether a record is the next of its partition; it is given to the caller then."""
        held = self._held.get(spot)
        # What was on its way when the partition was taken or set back is not.
        if held is None or offset < held.position:
            return False
        held.position = offset + 1
        return True

    def settle(self, spot: Spot, found: Entry) -> bool:
        """The ledger was looked at. Whether the client must be sent back or forth, to `position`."""
        held = self._held[spot]
        if found == held.saved:
            held.entry, held.saved, held.sought = found, None, None
            return False
        # Not committed, or moved by somebody else: the ledger is right, unless the caller has sought another place.
        held.entry, held.saved = found, None
        held.position = held.start
        return True
