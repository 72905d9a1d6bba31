"""How far a worker's clock is off, by the Date of its answer."""

from __future__ import annotations

from email.utils import parsedate_to_datetime


def build_clock_skew(date: str, *, began_at: float, ended_at: float) -> float | None:
    """How far ahead the worker's clock is, in seconds, negative where it is behind; None where the answer has no date.

    A Date has whole seconds, cut off, and was written somewhere between the question and the answer. What lies inside
    that doubt counts as no skew at all.
    """
    try:
        said = parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None
    earliest, latest = said - ended_at, said + 1.0 - began_at
    if earliest <= 0.0 <= latest:
        return 0.0
    return round(earliest if earliest > 0 else latest, 1)
