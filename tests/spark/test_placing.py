"""The fast way to a target partition says what the plan's routing says, for every rule and every kind of key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.pipelines.routing import Routing, Rule
from seamark.spark.placing import build_placer


@pytest.mark.parametrize("rule", list(Rule))
@given(
    records=st.lists(st.tuples(st.none() | st.binary(max_size=40), st.integers(0, 11)), max_size=50),
    targets=st.integers(1, 50),
)
def test_placer_says_what_the_routing_says(rule, records, targets):
    routing = Routing(rule, 12, targets)
    placed = build_placer(routing)([key for key, _ in records], [source for _, source in records])
    assert placed == [routing.choose(key, source=source) for key, source in records]
