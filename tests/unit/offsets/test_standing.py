"""Where an owner stood at a moment: never further on than what was seen allows."""

from __future__ import annotations

import pytest

from seamark.offsets.exports import Observation, Precision, find_past_offset

T = {"k": 1}


def seen(position, at, until=None, *, older=False):
    offset = None if position is None else {"position": position}
    return Observation(T, offset, at, at if until is None else until, f"at {at}", may_be_older=older)


@pytest.mark.parametrize(
    ("observations", "found"),
    [
        ([], None),
        # What was held all the while is exact, whatever else was seen.
        ([seen(1, 10, 99), seen(2, 100, 200)], (1, Precision.EXACT)),
        ([seen(1, 10, 49), seen(2, 50, 50), seen(3, 51, 90)], (2, Precision.EXACT)),
        # Seen before alone, it may have gone on.
        ([seen(1, 10), seen(2, 40)], (2, Precision.AT_LEAST)),
        ([seen(1, 10), seen(5, 60)], (1, Precision.AT_LEAST)),
        # Seen at the same place before and after, it stood still.
        ([seen(1, 10), seen(1, 60)], (1, Precision.EXACT)),
        ([seen(1, 10), seen(1, 60, older=True)], (1, Precision.AT_LEAST)),
        ([seen(1, 10), seen(4, 60), seen(1, 70)], (1, Precision.AT_LEAST)),
        # Seen after alone, nobody can tell.
        ([seen(5, 51), seen(6, 90)], None),
        ([seen(1, 50, older=True)], (1, Precision.AT_LEAST)),
        # That nothing was held is a place too.
        ([seen(None, 10), seen(5, 60)], (None, Precision.AT_LEAST)),
    ],
)
def test_the_newest_that_was_seen_by_then_counts(observations, found):
    past_offset = find_past_offset(observations, 50)
    if found is None:
        assert past_offset is None
        return
    position = None if past_offset.offset is None else past_offset.offset["position"]
    assert (position, past_offset.precision) == found
