"""The comparison with other tools: complete, with evidence for each claim and a test for each claim of seamark."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tools.peers import State, format_markdown, read_comparison

ROOT = Path(__file__).parents[3]
COMPARISON = read_comparison()


@cache
def read_tests(path):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_there_are_61_capabilities_and_20_peers():
    names = [one.name for one in COMPARISON.capabilities]
    assert len(names) == len(set(names)) == 61
    assert len(COMPARISON.peers) == 20
    assert all(one.peers.keys() == COMPARISON.peers.keys() for one in COMPARISON.capabilities)


@pytest.mark.parametrize("capability", COMPARISON.capabilities, ids=lambda one: one.name)
def test_what_seamark_claims_has_a_test_that_exists(capability):
    assert bool(capability.test) == (capability.seamark in (State.FULL, State.PARTIAL))
    if capability.test:
        path, _, name = capability.test.partition("::")
        assert name.startswith("test_")
        assert name in read_tests(path), f"{capability.test} does not exist"


def test_evidence_is_complete_and_all_of_it_is_used():
    used = {key for one in COMPARISON.capabilities for claim in one.peers.values() for key in claim.evidence}
    assert used == COMPARISON.evidence.keys()
    assert all(COMPARISON.evidence.values())


def test_nothing_is_claimed_against_a_tool_that_was_not_examined():
    assert {one.peers["CD"].state for one in COMPARISON.capabilities} == {State.UNKNOWN}


def test_markdown_has_every_capability_once_and_the_best_peer_after_seamark():
    text = format_markdown(COMPARISON)
    for one in COMPARISON.capabilities:
        assert text.count(f"| {one.name} |") == 1
    lines = text.splitlines()
    start = lines.index("| tool | full, of 61 |") + 2
    counts = [int(line.split(" | ")[-1].removesuffix(" |")) for line in lines[start : start + 20]]
    assert lines[start].startswith("| seamark |")
    assert counts == sorted(counts, reverse=True)
    assert "| Conduktor |" not in text, "nothing is known of it"
    assert counts[0] == sum(one.seamark is State.FULL for one in COMPARISON.capabilities)
