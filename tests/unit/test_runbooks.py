"""Runbooks: all of them are in the index, have the same parts, and are compared with what is printed as they say."""

from __future__ import annotations

import re

import pytest

from tests.integration.runbook import RUNBOOKS, read_commands, substitute
from tools.pages.compare import compare

PAGES = sorted(path.name for path in RUNBOOKS.glob("*.md") if path.name != "README.md")
PARTS = ("Symptoms", "Cause", "Avoid", "Verify the recovery", "What can't be restored")


def test_index_names_every_runbook_once():
    assert len(PAGES) >= 4
    listed = re.findall(r"^\| \[[^]]+\]\(([^)]+)\)", (RUNBOOKS / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == PAGES


@pytest.mark.parametrize("page", PAGES)
def test_runbook_has_its_parts_and_commands(page):
    text = (RUNBOOKS / page).read_text()
    assert [part for part in PARTS if f"\n## {part}\n" not in text] == []
    assert len(read_commands(page)) >= 3


def test_names_are_replaced_as_whole_words():
    names = {"lake": "x", "game": "connect", "lake-2": "y", "game.public.": "db.public."}
    text = "seamark offsets copy game/lake lake-2; connect-lake lake-dlq flake game.public.t"
    assert substitute(text, names) == "seamark offsets copy connect/x y; connect-x x-dlq flake db.public.t"


@pytest.mark.parametrize(
    ("shown", "missing"),
    [
        (["a  b", "✓ Change 01M7FJY413QE26J423R8F2YT91 done in 14 s. …"], None),
        (["at 2026-11-15T12:00:00Z: 3 rows"], None),
        (["at 2026-11-15T12:00:00Z: 4 rows"], "at 2026-11-15T12:00:00Z: 4 rows"),
        (["✓ Change 01M7FJY413QE26J423R8F2YT91 done in 14 s. …", "a b"], "a b"),
    ],
)
def test_lines_must_come_in_their_order_and_only_what_varies_may_differ(shown, missing):
    printed = "a b\n  at 2027-01-01T00:00:00.123Z: 3 rows\n✓ Change 01M7GC1ER413Y9K0RRV1T04155 done in 9 ms. Undo: x\n"
    assert compare(shown, printed, exact=True) == missing
