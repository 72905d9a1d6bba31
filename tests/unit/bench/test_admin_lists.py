"""The checks of the lists: they must see a wrong read, and a request too many."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bench.cases.admin_lists import BENCH, LISTS, OTHER_REQUESTS, Stage, Taken, check_requests, check_taken
from bench.fixtures.fleets.admin import PARTITIONS, READ, RECORDS, STEP_MS, Made
from bench.harness.definition import WrongResultError

MADE = Made(("bench-0", "bench-1", "bench-2"), {"bench-a": ("bench-0", "bench-2"), "bench-b": ("bench-1",)}, first_ms=0)
STAGE: Any = Stage(MADE, fleet=SimpleNamespace(), bare=SimpleNamespace())  # type: ignore[arg-type]
NOW_MS = MADE.next_ms + 1_000_000
TOPICS = dict.fromkeys(MADE.topics, (PARTITIONS, 1, "delete"))
GROUPS = dict.fromkeys(MADE.groups, "EMPTY")
LAG = {
    "bench-a": (2 * PARTITIONS * (RECORDS - READ), 2 * PARTITIONS, 1000.0),
    "bench-b": (PARTITIONS * (RECORDS - READ), PARTITIONS, 1000.0),
}


def check(what: str, facts: dict[str, Any], *, count: int = LISTS * len(GROUPS)) -> None:
    check_taken(STAGE, Taken(what, facts, count, NOW_MS))


def test_what_is_right_passes() -> None:
    check("topics", TOPICS | {"__consumer_offsets": (50, 1, "compact")})
    check("groups", GROUPS | {"other": "STABLE"})
    check("lag", LAG)
    check("lag", {name: (*fact[:2], None) for name, fact in LAG.items()})


@pytest.mark.parametrize(
    ("what", "facts"),
    [
        ("topics", {name: fact for name, fact in TOPICS.items() if name != "bench-1"}),
        ("topics", TOPICS | {"bench-1": (PARTITIONS - 1, 1, "delete")}),
        ("topics", TOPICS | {"bench-9": (PARTITIONS, 1, "delete")}),
        ("groups", GROUPS | {"bench-a": "STABLE"}),
        ("groups", {"bench-a": "EMPTY"}),
        ("lag", LAG | {"bench-a": (0, 2 * PARTITIONS, 1000.0)}),
        ("lag", LAG | {"bench-a": (*LAG["bench-a"][:2], 1100.0)}),
        ("lag", LAG | {"bench-a": (*LAG["bench-a"][:2], None)}),
        ("lag", {"bench-a": LAG["bench-a"]}),
    ],
)
def test_what_is_wrong_is_seen(what: str, facts: dict[str, Any]) -> None:
    with pytest.raises(WrongResultError):
        check(what, facts)


def test_a_list_too_few_is_seen() -> None:
    with pytest.raises(WrongResultError):
        check("groups", GROUPS, count=LISTS * len(GROUPS) - 1)


def test_requests_for_each_partition_are_seen() -> None:
    few = {"Metadata": 4, "ListOffsets": 6, "FindCoordinator": len(GROUPS), "OffsetFetch": len(GROUPS)}
    check_requests(MADE, {"topics": {"Metadata": 3}, "groups": {"ListGroups": 1}, "lag": few})
    for what, requests in (
        ("lag", few | {"ListOffsets": OTHER_REQUESTS + 1}),
        ("lag", few | {"OffsetFetch": len(GROUPS) + OTHER_REQUESTS + 1}),
        ("topics", {"DescribeConfigs": OTHER_REQUESTS + 1}),
        ("groups", {"OffsetFetch": OTHER_REQUESTS + 1}),
    ):
        with pytest.raises(WrongResultError, match=what):
            check_requests(MADE, {what: requests})


def test_the_bench_claims_three_quarters_of_each() -> None:
    assert {ratio.name: ratio.bar for ratio in BENCH.ratios} == {"topics list": 0.75, "groups list": 0.75, "lag": 0.75}
    assert MADE.next_ms == READ * STEP_MS
