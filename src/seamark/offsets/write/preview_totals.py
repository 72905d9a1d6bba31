"""What a move of positions comes to: how much is read again or skipped, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from seamark.changes.effect import Preview
from seamark.core.distance import Certainty, Unit
from seamark.core.offsets import Order

# Between the plan and the stop a running source reads on. A tenth more than was agreed to is seldom another decision,
# and of a short way a thousand records, or a mebibyte, are no more than some seconds of an ordinary connector.
_SHARE = 0.1
_LEAST: Mapping[Unit, int] = {Unit.ROWS: 1000, Unit.RECORDS: 1000, Unit.BYTES: 1024 * 1024}
_WHOLE = 100.0


@dataclass(frozen=True, slots=True)
class Total:
    """The previews of one owner together. `certainty` is that of the least sure; `unknown` have no figure."""

    unit: Unit
    again: int = 0
    skipped: int = 0
    unknown: int = 0
    certainty: Certainty = Certainty.EXACT


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How much more than the plan says may be read again or skipped: a share of it, and at least so many.

    Without `least` it is a number that suits the unit.
    """

    share: float = _SHARE
    least: int | None = None

    def allow(self, planned: int, unit: Unit) -> int:
        """How many are still within it."""
        least = _LEAST[unit] if self.least is None else self.least
        return planned + max(int(planned * self.share), least)


DEFAULT_TOLERANCE = Tolerance()


@dataclass(frozen=True, slots=True)
class SafetyOptions:
    """How carefully offsets are changed: whether a silent worker is accepted, how much more than planned may be moved.

    `wait_seconds` is how long the first new offset is waited for, by default as long as the workers need to store one.
    """

    accepts_zombies: bool = False
    tolerance: Tolerance = DEFAULT_TOLERANCE
    wait_seconds: float | None = None


DEFAULT_SAFETY = SafetyOptions()


def parse_tolerance(text: str) -> Tolerance:
    """`10%` or `5000`; a ValueError for anything else."""
    words = text.strip()
    if words.endswith("%"):
        share = float(words[:-1]) / _WHOLE
        if not 0 <= share <= _WHOLE:
            raise ValueError(f"{text!r} is no share")
        return Tolerance(share, 0)
    if not (words.isascii() and words.isdecimal()):
        raise ValueError(f"{text!r} is no number")
    return Tolerance(0.0, int(words))


def sum_previews(previews: Iterable[Preview]) -> Total:
    """All partitions of an owner together."""
    found = tuple(previews)
    ranks = list(Certainty)
    known = [one for one in found if one.is_known]
    sure = [one.counted.certainty for one in known if one.order is not Order.EQUAL]
    return Total(
        unit=found[0].counted.unit if found else Unit.RECORDS,
        again=sum(one.counted.figure or 0 for one in known if one.order is Order.BEFORE),
        skipped=sum(one.counted.figure or 0 for one in known if one.order is Order.AFTER),
        unknown=len(found) - len(known),
        certainty=max(sure, key=ranks.index, default=Certainty.EXACT),
    )
