"""From repeated measurements to one figure and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.9


@dataclass(frozen=True, slots=True)
class Interval:
    """Two measured values that enclose the true median with the probability `coverage`."""

    low: float
    high: float
    coverage: float


def build_interval(values: Sequence[float]) -> Interval:
    """The narrowest symmetric interval for the median that covers 90 %, or the widest there is.

    Each value lies below the true median with probability 1/2, whatever its distribution. So the number
    of values below it is binomial, and the k-th lowest and the k-th highest of n values miss it with
    probability 2 * P(fewer than k heads in n throws). Nothing is assumed about the shape of the noise, and no
    random numbers are drawn, so the same values always give the same interval. The lowest and the highest of
    5 values cover 1 - 2/32 = 93.75 %, which is why 5 pairs are the least. 3 values (a quick run) can't
    cover more than 75 %: the result says so.
    """
    if not values:
        raise ValueError("an interval of no values")
    ordered = sorted(values)
    count = len(ordered)
    best = 1
    # Symmetric intervals end at the middle: k and count + 1 - k must not cross.
    for rank in range(2, (count + 1) // 2 + 1):
        if _coverage(count, rank) >= CONFIDENCE:
            best = rank
    return Interval(low=ordered[best - 1], high=ordered[count - best], coverage=_coverage(count, best))


def _coverage(count: int, rank: int) -> float:
    missed = sum(math.comb(count, heads) for heads in range(rank))
    return max(0.0, 1 - 2 * missed / (1 << count))


def build_exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """The slope of log(seconds) over log(size), by least squares: 1 is linear, 2 quadratic."""
    across = [math.log(size) for size in sizes]
    upward = [math.log(value) for value in seconds]
    middle_across = math.fsum(across) / len(across)
    middle_upward = math.fsum(upward) / len(upward)
    spread = math.fsum((x - middle_across) ** 2 for x in across)
    if spread == 0:
        raise ValueError("growth needs two sizes")
    pairs = zip(across, upward, strict=True)
    return math.fsum((x - middle_across) * (y - middle_upward) for x, y in pairs) / spread
