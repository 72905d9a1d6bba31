"""How old the next record is: found by asking for times, for many readers at once."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.groups.lag import read_delays
from seamark.kafka.model import OffsetAndTimestamp, PartitionReading

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000


class Logs:
    """Partitions by name, each a list of times; counts what is asked."""

    def __init__(self, **logs):
        self.logs = {(name, 0): log for name, log in logs.items()}
        self.starts = {}
        self.calls = []

    def read_offsets_at(self, times):
        self.calls.append(dict(times))
        found = {}
        for spot, at in times.items():
            start = self.starts.get(spot, 0)
            hit = next(
                (number for number, moment in enumerate(self.logs[spot]) if moment >= at and number >= start), None
            )
            found[spot] = None if hit is None else OffsetAndTimestamp(hit, self.logs[spot][hit])
        return PartitionReading(found)

    def read(self, *readers):
        wanted = [((name, 0), offset) for name, offset in readers]
        ends = {spot: len(log) for spot, log in self.logs.items()}
        found = read_delays(self, wanted, ends, now_ms=NOW_MS)
        return {(spot[0], offset): delay for (spot, offset), delay in found.items()}


def steady(count, *, every_ms=1000, until_ms=NOW_MS):
    return [until_ms - every_ms * (count - number) for number in range(count)]


def test_a_steady_log_takes_three_rounds():
    logs = Logs(a=steady(10_000), b=steady(500, every_ms=60_000))
    found = logs.read(("a", 9_990), ("b", 20))
    assert found["a", 9_990].seconds == pytest.approx(10, abs=1)
    assert found["b", 20].seconds == pytest.approx(480 * 60, rel=0.02)
    assert len(logs.calls) <= 3
    assert set(logs.calls[0]) == {("a", 0), ("b", 0)}


def test_a_log_that_ended_long_ago_is_found_too():
    logs = Logs(a=steady(20, every_ms=60_000, until_ms=NOW_MS - 30 * DAY_MS))
    found = logs.read(("a", 7))["a", 7]
    assert found.seconds == pytest.approx(30 * 86_400 + 13 * 60, rel=0.02)


def test_the_first_record_is_known_at_once():
    logs = Logs(a=steady(20), b=steady(20))
    logs.starts["b", 0] = 5
    found = logs.read(("a", 0), ("b", 2))
    # Records before the sixth are deleted: whoever stands there goes on with the sixth.
    assert (found["a", 0].seconds, found["b", 2].seconds) == (20, 15)
    assert all(delay.is_exact for delay in found.values())
    assert len(logs.calls) == 1


def test_many_readers_of_one_partition_are_all_found():
    logs = Logs(a=steady(100_000))
    readers = [("a", offset) for offset in (5, 10_000, 50_000, 90_000, 99_000, 99_900, 99_999)]
    found = logs.read(*readers)
    for name, offset in readers:
        assert found[name, offset].seconds == pytest.approx(100_000 - offset, rel=0.02, abs=1)


def test_a_record_of_the_future_has_not_waited():
    logs = Logs(a=[NOW_MS + DAY_MS] * 3)
    assert logs.read(("a", 1))["a", 1].seconds == 0


def test_what_has_no_time_is_not_told():
    logs = Logs(a=[])
    assert logs.read(("a", 0)) == {}


AGES = st.integers(min_value=0, max_value=400 * DAY_MS)


@settings(max_examples=200)
@given(ages=st.lists(AGES, min_size=1, max_size=60), data=st.data(), is_sorted=st.booleans())
def test_what_is_told_is_never_further_off_than_it_says(ages, data, is_sorted):
    log = [NOW_MS - age for age in (sorted(ages, reverse=True) if is_sorted else ages)]
    offsets = data.draw(st.lists(st.integers(0, len(log) - 1), min_size=1, max_size=4))
    logs = Logs(a=log)
    newest = list(accumulate(log, max))
    for (_, offset), delay in logs.read(*[("a", offset) for offset in offsets]).items():
        true = (NOW_MS - newest[offset]) / 1000
        if delay.is_exact:
            assert delay.seconds == true
        else:
            assert true <= delay.seconds <= max(true + 1, true / (1 - 0.25) + 0.001)
    assert len(logs.calls) <= 25
