"""How a config names a topic, and what it must say to name another."""

from __future__ import annotations

import re

import pytest

from seamark.connect.config import ROUTER, find_route, is_read_by_pattern, switch_sink, switch_source
from seamark.errors import RefusedError


def test_sink_gets_the_other_name_in_its_place():
    config = {"topics": "a, orders ,b"}
    assert switch_sink("lake", config, source="orders", target="orders-6") == {"topics": "a,orders-6,b"}


def test_sink_that_reads_both_reads_the_target_once():
    assert switch_sink("lake", {"topics": "orders,orders-6"}, source="orders", target="orders-6") == {
        "topics": "orders-6"
    }


def test_sink_with_a_pattern_is_refused_with_a_way_out():
    with pytest.raises(RefusedError, match="connector lake can't be switched to topic orders-6") as caught:
        switch_sink("lake", {"topics.regex": "ord.*"}, source="orders", target="orders-6")
    assert "--in-place" in caught.value.hint


@pytest.mark.parametrize(
    ("config", "values"),
    [
        ({"topic": "orders"}, {"topic": "orders-6"}),
        ({"kafka.topic": "orders", "topic": "other"}, {"kafka.topic": "orders-6"}),
        ({"topic.prefix": "orders", "query": "SELECT 1"}, {"topic.prefix": "orders-6"}),
    ],
)
def test_source_that_names_its_topic_gets_the_other_name(config, values):
    assert switch_source(config, source="orders", target="orders-6") == values


def test_source_that_builds_the_name_gets_a_router_behind_all_others():
    config = {"topic.prefix": "shop.", "table.whitelist": "orders", "transforms": "a, seamarkCopy"}
    values = switch_source(config, source="shop.orders-x", target="orders-6")
    assert values == {
        "transforms": "a,seamarkCopy,seamarkCopy2",
        "transforms.seamarkCopy2.type": ROUTER,
        "transforms.seamarkCopy2.regex": r"shop\.orders-x",
        "transforms.seamarkCopy2.replacement": "orders-6",
    }
    assert re.fullmatch(values["transforms.seamarkCopy2.regex"], "shop.orders-x")
    assert not re.fullmatch(values["transforms.seamarkCopy2.regex"], "shopxorders-x")


def test_pattern_that_takes_the_target_too_is_seen():
    assert is_read_by_pattern({"topics.regex": "orders.*"}, "orders-6")
    assert not is_read_by_pattern({"topics.regex": "orders"}, "orders-6")
    assert not is_read_by_pattern({"topics": "orders"}, "orders-6")
    # Java knows patterns that Python does not.
    assert is_read_by_pattern({"topics.regex": "(?<name>x.*)"}, "orders-6")


def test_source_that_was_turned_is_known_to_write_elsewhere():
    config = {"topic.prefix": "shop.", "transforms": "a", "transforms.a.type": ROUTER}
    turned = {**config, **switch_source(config, source="shop.orders", target="orders-6")}
    assert find_route(turned, "shop.orders") == "orders-6"
    assert find_route(turned, "shop.bills") is None
    assert find_route({**turned, "transforms.seamarkCopy.predicate": "p"}, "shop.orders") is None
    assert find_route({**turned, "transforms.seamarkCopy.replacement": "$1-x"}, "shop.orders") is None
    assert find_route({}, "shop.orders") is None
