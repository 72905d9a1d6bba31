"""What a pipeline does with records that can't be rows: the table that keeps them, and how many it may keep. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Any

from seamark.core import strict
from seamark.errors import UsageError

DEFAULT_TABLE = "seamark_dead_letters"
DEFAULT_MAX = "10%"
"""A pipeline whose columns don't fit its topic fails nearly all records; occasional bad records are a few per mille."""
LEAST_RECORDS = 10_000
"""A share is counted of at least so many records: in a batch of two records, one bad record would be 50%."""
_MAX = re.compile(r"([1-9][0-9]{0,11})|([0-9]{1,3}(?:\.[0-9]{1,6})?)%", re.ASCII)
_WHOLE = 100


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Where bad records are kept, and how many.

    Attributes:
        table: The table in PostgreSQL. Empty in a lake, where dead letters are rows of the pipeline's own table.
        max: A number of records per run, or a share of the records of each range (`10%`).
    """

    table: str = ""
    max: str = DEFAULT_MAX

    def __post_init__(self) -> None:
        """Refuse a limit that can't be one."""
        found = _MAX.fullmatch(self.max)
        if found is None or (found[2] and not 0 < Fraction(found[2]) <= _WHOLE):
            raise UsageError(
                f"invalid value {self.max!r} for on_error.dead_letter.max: expected a number of records or a share",
                hint="write max: 1000 or max: 10%",
            )

    @property
    def accepts_all(self) -> bool:
        """Whether all records of a range may be bad."""
        return self._share == _WHOLE

    @property
    def most(self) -> int | None:
        """How many dead letters a run may write; None where a share counts."""
        return None if self.max.endswith("%") else int(self.max)

    @property
    def _share(self) -> Fraction | None:
        return Fraction(self.max[:-1]) if self.max.endswith("%") else None

    def count_allowed(self, records: int, *, spent: int = 0) -> int:
        """Count the dead letters that a range may have.

        Args:
            records: How many records the range has.
            spent: How many dead letters the run has written before.
        """
        if self.most is not None:
            return max(0, self.most - spent)
        return floor((self._share or 0) * max(records, LEAST_RECORDS) / _WHOLE)

    def to_dict(self) -> dict[str, Any]:
        """Build the JSON object that `from_dict` reads."""
        return {"table": self.table, "max": self.max}

    @classmethod
    def from_dict(cls, data: object) -> DeadLetters:
        """Read what `to_dict` built."""
        fields = strict.read_object(data, keys=("table", "max"), what="dead letters")
        return cls(**{name: strict.read_text(value, what=name) for name, value in fields.items()})
