"""Names of connectors that come into being."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.policy.rules import LONGEST_NAME, check_name, check_present_name, is_misread_by_connect
from tests.unit.core.hostile_names import HARMLESS, NAMES


def test_there_are_two_hundred() -> None:
    assert len(set(NAMES)) == len(NAMES) >= 200


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name[:20]))
def test_a_hostile_name_is_refused(name: str) -> None:
    found = check_name(name)
    assert found is not None
    assert (found.rule, found.key) == ("P001", "name")
    assert found.message.startswith("the name is not safe to use: ")


@pytest.mark.parametrize("name", HARMLESS)
def test_a_harmless_name_passes(name: str) -> None:
    assert check_name(name) is None


@pytest.mark.parametrize("name", ["orders [eu]", "a*b", "-a", "a?b", "CON", "a\u200bb", "a" * 500])
def test_a_connector_that_is_there_keeps_an_odd_name(name: str) -> None:
    assert check_name(name) is not None
    assert check_present_name(name) is None


@pytest.mark.parametrize("name", ["a;b", "a/b", "%41", "a{b}", "a\\b", "a\nb"])
def test_a_name_that_connect_gets_wrong_is_refused_even_where_it_is_there(name: str) -> None:
    found = check_present_name(name)
    assert found is not None
    assert found.rule == "P001"


@given(st.text(max_size=300))
def test_what_passes_can_be_seen_addressed_and_typed(name: str) -> None:
    if check_name(name) is None:
        assert 0 < len(name) <= LONGEST_NAME
        assert name.isprintable()
        assert name == name.strip()
        assert not is_misread_by_connect(name)
        assert not set(name) & set("*?[]\"'`$<>|&!\\/;%{}")
        assert name[0] not in "-.=+@"


@given(st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,40}[A-Za-z0-9_-]", fullmatch=True))
def test_the_names_that_the_hint_asks_for_pass(name: str) -> None:
    found = check_name(name)
    assert found is None or "Windows" in found.message
