"""The rows of the bench: what a record has, and how a row that came from it is recognized."""

from __future__ import annotations

import json
from dataclasses import dataclass

from seamark.tables.definition import LandColumn

PARTITIONS = 6
COLUMNS = (
    LandColumn("id", "bigint"),
    LandColumn("customer", "text"),
    LandColumn("amount", "double precision"),
    LandColumn("placed_at", "timestamptz"),
    LandColumn("note", "text"),
)
# As Spark reads the value.
SCHEMA = "id bigint, customer string, amount double, placed_at string, note string"


@dataclass(frozen=True, slots=True)
class Expected:
    """What a table must have: so many rows, the sum of their ids, and the note of each as an expression of SQL."""

    rows: int
    ids: int
    note: str = ""

    @property
    def is_right(self) -> str:
        """A condition that a row with the values of its record meets, in PostgreSQL and in Spark."""
        note = f"note = {self.note}" if self.note else "note IS NULL"
        return f"customer = concat('customer ', id % 5000) AND amount = id / 8.0 AND placed_at IS NOT NULL AND {note}"


def build_value(number: int, *, note: str | None = None) -> bytes:
    """Build the value of the record of one row."""
    value = {
        "id": number,
        "customer": f"customer {number % 5000}",
        "amount": number / 8,
        "placed_at": f"2026-11-16T10:{number % 60:02}:00Z",
        "note": note,
    }
    return json.dumps(value).encode()
