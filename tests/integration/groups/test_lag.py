"""Lag on real brokers: records and seconds against what is known of the records."""

from __future__ import annotations

import json
import time

import pytest

from tests.integration.groups.group_cases import DELETED, MINUTE_MS, POSITIONS, RECORDS
from tests.integration.groups.test_groups import environ, fleet, place, run, tools

__all__ = ["environ", "fleet", "place", "tools"]


def find_lag(group):
    return {spot: max(0, RECORDS[spot] - offset) for spot, (offset, _) in POSITIONS[group].items()}


def find_moment_ms(place, spot, offset):
    """The time of the next record to read: all partitions end nineteen minutes after the first record."""
    following = max(offset, DELETED.get(spot, 0))
    return place.first_ms + MINUTE_MS * (19 - (RECORDS[spot] - 1 - following))


def test_records_and_seconds_are_those_of_the_logs(place, fleet):
    now_ms = time.time() * 1000
    found = {one.name: one for one in fleet.lag()}
    for group in ("plain", "lost", "classic", "consumer", "other"):
        told = found[place.group(group)]
        lags = find_lag(group)
        assert told.lag == place.spots(lags)
        delays = {
            spot: (now_ms - find_moment_ms(place, spot, POSITIONS[group][spot][0])) / 1000
            for spot, lag in lags.items()
            # Whoever stands before records that are all deleted is behind in offsets, and no record waits for him.
            if lag and RECORDS[spot] > DELETED.get(spot, 0)
        }
        assert told.delays.keys() == place.spots(delays).keys()
        for spot, seconds in place.spots(delays).items():
            assert told.delays[spot].seconds == pytest.approx(seconds, rel=0.02, abs=3), (group, spot)
        assert told.delay.seconds == max(delay.seconds for delay in told.delays.values())


def test_seconds_can_be_left_out(place, fleet):
    (told,) = [one for one in fleet.lag(seconds=False) if one.name == place.group("plain")]
    assert told.total == sum(find_lag("plain").values())
    assert (told.delays, told.delay) == ({}, None)


def test_the_command_line_tells_both_and_the_worst(place, environ):
    code, out, err = run("lag", "-o", "json")
    assert code == 0, err
    items = {found["group"]: found for found in json.loads(out)["items"]}
    plain = items[place.group("plain")]
    assert plain["lag"] == sum(find_lag("plain").values())
    assert 3600 < plain["seconds"] < 3600 + 30 * 60
    assert plain["worst"] == {"topic": place.topic("t"), "partition": 0, "lag": 13}
    code, out, err = run("lag", "--watch", "--interval", "0.1", "--max-updates", "2")
    assert code == 0, err
    assert "TREND" in out
    code, out, _ = run("groups", "show", place.group("plain"))
    assert code == 0
    assert "DELAY" in out


def test_lag_of_chosen_groups_is_compared_with_a_limit(place, environ):
    group, total = place.group("plain"), sum(find_lag("plain").values())
    code, out, err = run("lag", f"group/{group}", "--max-lag", str(total), "-o", "json")
    assert (code, [found["group"] for found in json.loads(out)["items"]]) == (0, [group]), err
    assert run("lag", f"group/{group}", "--max-lag", str(total - 1))[0] == 1
    assert run("lag", f"group/{group}", "--max-lag", "1h")[0] == 1
    assert run("lag", f"group/{group}", "--max-lag", "1d")[0] == 0
    code, _, err = run("lag", f"group/{group}-none")
    assert code == 1
    assert "no such sink, group or pipeline" in err
