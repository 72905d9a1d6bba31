"""The bench of the large plan: its fleet is the one it says, and its check sees a wrong plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.cases.fleet_plan import BENCH, Stage, check_plan, find_signs, read_gauges
from bench.fixtures.fleets.child import Child
from bench.fixtures.fleets.game import CLUSTERS, build_rows, group_rows, write_spec
from bench.harness.definition import BenchError, WrongResultError
from seamark.specs import load_spec

SIGNS = ["~ log-00000", "+ log-00050"]


def make_stage() -> Stage:
    return Stage(signs=frozenset(SIGNS), running=99, environ={}, orders={})


def taken(**changes: Any) -> dict[str, Any]:
    return {"read": 99, "signs": SIGNS, "lines": 20, **changes}


def test_claims_are_those_of_the_issue() -> None:
    assert BENCH.sizes == (1_000, 10_000)
    assert {limit.name: limit.bar for limit in BENCH.limits} == {
        "seconds, start-up included": 10.0,
        "memory in MB": 600.0,
    }
    assert [growth.bar for growth in BENCH.growths] == [1.15, 1.15]


@pytest.mark.parametrize("size", BENCH.sizes)
def test_one_of_a_hundred_is_changed_and_one_of_two_hundred_is_missing(size: int) -> None:
    rows = build_rows(size)
    signs = find_signs(rows)
    assert len(signs) == size // 100 + size // 200
    assert {len(found) for found in group_rows(rows).values()} == {size // len(CLUSTERS)}


def test_files_say_what_the_rows_want(tmp_path: Path) -> None:
    rows = build_rows(400)
    write_spec(tmp_path / "game", rows)
    spec = load_spec([tmp_path / "game"], environ={})
    assert spec.id.endswith("game")
    found = {connector.name: connector for connector in spec.connectors}
    assert {name: connector.cluster for name, connector in found.items()} == {row.name: row.cluster for row in rows}
    other = rows[7].build_other_config()
    assert dict(found[rows[7].name].config) == other | {"poll.interval.ms": "5000"}
    assert len(other) == 33
    assert {connector.state.lower() for connector in spec.connectors} == {"stopped"}


def test_right_plan_and_bare_reading_pass() -> None:
    check_plan(make_stage(), taken())
    check_plan(make_stage(), taken(signs=[], lines=0))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"read": 98}, "98 connectors were read instead of 99"),
        ({"signs": SIGNS[:1]}, "1 changes instead of 2"),
        ({"signs": [*SIGNS, SIGNS[0]]}, "3 changes instead of 2"),
        ({"signs": ["~ log-00000", "- log-00050"]}, "first"),
        ({"lines": 1}, "1 lines tell 2 changes"),
    ],
)
def test_wrong_plan_is_seen(change: dict[str, Any], fault: str) -> None:
    with pytest.raises(WrongResultError, match=fault):
        check_plan(make_stage(), taken(**change))


def test_gauges_are_megabytes_and_whole_seconds_of_life() -> None:
    said = {"life_seconds": 4.5, "peak_bytes": 100 << 20, "work_bytes": 60 << 20}
    assert read_gauges(said) == {"seconds from start to end": 4.5, "MB at most": 100.0, "MB of its own": 60.0}


def test_child_that_ends_early_is_an_error_and_no_hang() -> None:
    with pytest.raises(BenchError, match=r"bench\.harness ended with 1 before it answered"):
        Child("bench.harness", {})


def test_clusters_serve_until_their_parent_lets_them_go() -> None:
    with Child("bench.fixtures.fleets.serve", {"game": ["one", "two"]}) as servers:
        urls = servers.said["game"]
        assert list(urls) == ["one", "two"]
        assert Path(f"/proc/{servers.pid}").exists()
    assert not Path(f"/proc/{servers.pid}").exists()
