"""When offsets in a table's log are said anew."""

from __future__ import annotations

import pytest

from seamark.tables.delta.table import find_renewal_ms

HOUR = 3_600_000
DAY = 24 * HOUR


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (None, 7 * DAY),
        ("interval 30 days", 7 * DAY),
        ("interval 2 days", DAY // 2),
        ("interval 1 week", 7 * DAY // 4),
        ("INTERVAL 12 HOURS", 3 * HOUR),
        ("40 minutes", HOUR // 6),
        ("interval 0 seconds", 0),
        ("interval 1 day 3 hours", 6 * HOUR),
        ("forever", 6 * HOUR),
    ],
)
def test_offsets_are_said_anew_long_before_their_commit_goes(value, wanted):
    assert find_renewal_ms({} if value is None else {"delta.logRetentionDuration": value}) == wanted
