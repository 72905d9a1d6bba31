from __future__ import annotations

import pytest

from seamark.core.time import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2s", 2),
        ("500ms", 0.5),
        ("90", 90),
        ("1.5m", 90),
        ("5min", 300),
        ("1h", 3600),
        ("2d", 172800),
        ("PT5M", 300),
        ("PT1H30S", 3630),
        ("PT1H30M", 5400),
        ("P7D", 604800),
        ("p1dt12h", 129600),
        ("P1DT0.5S", 86400.5),
        ("P2W", 1209600),
    ],
)
def test_duration_is_read(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    ["", "s", "-1s", "1w", "PT", "soon", "1s2", "1e3s", "P", "P7", "P1DT", "P1Y", "P1M", "7D", "T5M", "-P7D", "P1HT1H"],
)
def test_other_text_is_refused(text):
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)
