"""The changes of rows in a topic: 45 % inserts, 50 % updates and 5 % deletes.

They come in ten rounds. Each round has the next version of every updated row, inserts of rows that are never updated,
and deletes of such rows from the round before. So the versions of a row are far apart, and most of them reach the table
in batches of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.lands.rows import Expected

VERSIONS = 10
# Of 180 records of a round: 10 * 100 versions are 100 inserts and 900 updates, which is half of 1,800 records.
UPDATED, INSERTED, DELETED = 100, 71, 9
ROUND = UPDATED + INSERTED + DELETED
# One updated row in 20 has its versions out of order: a late one must not replace a newer one.
LATE_EVERY = 20
FIRST_MS, ROUND_MS = 1_700_000_000_000, 60_000
_DELETE_MS = 1_000


@dataclass(frozen=True, slots=True)
class Change:
    """One record. The greatest timestamp of a row's records decides; `version` is 0 for a delete."""

    id: int
    version: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Changes:
    """As many changes as fit into `records`. Rows below `updated` have ten versions, the others one."""

    records: int

    @property
    def blocks(self) -> int:
        """How many times a round has its 180 records."""
        return self.records // (VERSIONS * ROUND)

    @property
    def count(self) -> int:
        """How many records there are."""
        return self.blocks * VERSIONS * ROUND

    @property
    def updated(self) -> int:
        """How many rows are updated; their ids are the first ones."""
        return self.blocks * UPDATED

    def __iter__(self) -> Iterator[Change]:
        """Yield the records in the order in which they are produced."""
        for number in range(VERSIONS):
            for block in range(self.blocks):
                yield from self._list_block(number, block)

    def build_expected(self) -> Expected:
        """Build what the table has in the end: of each row its newest version."""
        left = list(self.list_left())
        version = f"CASE WHEN id < {self.updated} THEN {VERSIONS} ELSE 1 END"
        return Expected(len(left), sum(left), note=f"concat('version ', {version})")

    def list_left(self) -> Iterator[int]:
        """Yield the ids of the rows that the table has in the end."""
        deleted = {self._find_deleted(number, place) for number in range(VERSIONS) for place in range(self._deletes)}
        every = self.updated + VERSIONS * self._inserts
        return (id_ for id_ in range(every) if id_ not in deleted)

    def _list_block(self, number: int, block: int) -> Iterator[Change]:
        at = FIRST_MS + number * ROUND_MS
        for id_ in range(block * UPDATED, (block + 1) * UPDATED):
            # Each late row has its second version before its first, its fourth before its third, and so on.
            version = number ^ 1 if id_ % LATE_EVERY == 0 else number
            yield Change(id_, version + 1, FIRST_MS + version * ROUND_MS)
        for place in range(block * INSERTED, (block + 1) * INSERTED):
            yield Change(self._find_inserted(number, place), 1, at)
        for place in range(block * DELETED, (block + 1) * DELETED):
            yield Change(self._find_deleted(number, place), 0, at + _DELETE_MS)

    @property
    def _inserts(self) -> int:
        return self.blocks * INSERTED

    @property
    def _deletes(self) -> int:
        return self.blocks * DELETED

    def _find_inserted(self, number: int, place: int) -> int:
        return self.updated + number * self._inserts + place

    def _find_deleted(self, number: int, place: int) -> int:
        """The first round has no round before it, and deletes rows of its own; the second one deletes the next rows."""
        return self._find_inserted(max(0, number - 1), place + (self._deletes if number == 1 else 0))
