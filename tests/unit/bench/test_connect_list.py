"""The check of the first bench: it must see a wrong read."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from bench.cases.connect_list import BENCH, PATH, PLUGIN, READS, Fleet, check_reads, read_bare, read_ours
from bench.harness.definition import WrongResultError
from seamark.connect.model import Connector, ConnectorStatus, State
from seamark.core.refs import ConnectorType

NAMES = ("one", "two")


def bare_read(**states: str) -> dict[str, dict[str, Any]]:
    return {
        name: {"status": {"connector": {"state": state}}, "info": {"config": {"connector.class": PLUGIN}}}
        for name, state in states.items()
    }


def our_read(*names: str, state: State = State.STOPPED, plugin: str = PLUGIN) -> tuple[Connector, ...]:
    return tuple(
        Connector(name, "connect", ConnectorType.SOURCE, {"connector.class": plugin}, ConnectorStatus(state))
        for name in names
    )


def make_fleet(answer: dict[str, dict[str, Any]]) -> Fleet:
    def reply(request: httpx2.Request) -> httpx2.Response:
        assert request.url.raw_path == PATH.encode()
        return httpx2.Response(200, content=json.dumps(answer))

    bare = httpx2.Client(base_url="http://127.0.0.1:1", transport=httpx2.MockTransport(reply), trust_env=False)
    ours = SimpleNamespace(read_connectors=lambda: our_read(*NAMES))
    return Fleet(names=frozenset(NAMES), ours=ours, bare=bare)


def test_both_legs_pass_the_check() -> None:
    fleet = make_fleet(bare_read(one="STOPPED", two="STOPPED"))
    for read in (read_bare, read_ours):
        reads = read(fleet)
        assert len(reads) == READS
        check_reads(fleet, reads)


def test_connectors_of_others_do_not_disturb() -> None:
    fleet = make_fleet({})
    check_reads(fleet, [our_read("one", "two", "stranger")] * READS)


@pytest.mark.parametrize(
    "wrong",
    [
        our_read("one"),
        our_read("one", "two", state=State.RUNNING),
        our_read("one", "two", plugin="other.Connector"),
        bare_read(one="STOPPED"),
        bare_read(one="STOPPED", two="FAILED"),
    ],
)
def test_one_wrong_read_among_many_is_seen(wrong: Any) -> None:
    fleet = make_fleet({})
    reads = [our_read("one", "two")] * (READS - 1)
    with pytest.raises(WrongResultError, match="of 2 connectors"):
        check_reads(fleet, [*reads, wrong])


def test_missing_reads_are_seen() -> None:
    with pytest.raises(WrongResultError, match=f"instead of {READS}"):
        check_reads(make_fleet({}), [our_read("one", "two")])


def test_claim_is_the_one_of_the_issue() -> None:
    (ratio,) = BENCH.ratios
    assert (ratio.over, ratio.under, ratio.bar) == ("bare", "ours", 0.7)
    assert BENCH.sizes == (200,)
