"""What a table of a lake has: its columns with their types, and by which of them its files are parted. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableLayout:
    """Types are in Spark's words, as in `bigint`, `decimal(12,2)` or `struct<a:string>`."""

    columns: Mapping[str, str]
    parted_by: tuple[str, ...] = ()
