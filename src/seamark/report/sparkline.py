"""A row of numbers as a row of bars."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

_BARS = "▁▂▃▄▅▆▇█"


def render_sparkline(values: Sequence[float | None], *, width: int | None = None) -> str:
    """One bar a value, lowest to highest; a gap where a value is None or not finite.

    With `width` neighbours are folded into their maximum, so that a short peak is never lost.
    """
    known = [value if value is not None and isfinite(value) else None for value in values]
    if width is not None and len(known) > width:
        known = _fold(known, width)
    present = [value for value in known if value is not None]
    if not present:
        return " " * len(known)
    low, high = min(present), max(present)
    # Halves, because the difference of two large floats of opposite sign overflows.
    span = high / 2 - low / 2
    return "".join(" " if value is None else _BARS[_level(value / 2 - low / 2, span)] for value in known)


def _level(above: float, span: float) -> int:
    return round(above / span * (len(_BARS) - 1)) if span else 0


def _fold(values: list[float | None], width: int) -> list[float | None]:
    folded: list[float | None] = []
    for index in range(width):
        part = values[index * len(values) // width : (index + 1) * len(values) // width]
        folded.append(max((value for value in part if value is not None), default=None))
    return folded
