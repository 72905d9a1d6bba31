"""How long Delta keeps the commits of a table, and when offsets have to be said anew because of it."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PROPERTY = "delta.logRetentionDuration"
_INTERVAL = re.compile(r"\s*(?:interval\s+)?(\d+)\s+([a-z]+?)s?\s*", re.IGNORECASE)
_MS = {
    "millisecond": 1,
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 7 * 86_400_000,
}
_LONGEST_MS = 7 * _MS["day"]
# Of the retention: there must be time for a run that fails, and for somebody to start it again.
_SHARE = 4


def find_renewal_ms(configuration: Mapping[str, str | None]) -> int:
    """Find how old the commit with the offsets may become before they are said anew.

    Args:
        configuration: The properties of the table.

    Returns:
        Milliseconds: a quarter of the retention, at most seven days. A retention that can't be read counts as a day.
    """
    value = configuration.get(_PROPERTY)
    if value is None:
        return _LONGEST_MS
    found = _INTERVAL.fullmatch(value)
    unit = _MS.get(found[2].lower()) if found else None
    retention = int(found[1]) * unit if found and unit else _MS["day"]
    return min(_LONGEST_MS, retention // _SHARE)
