"""The page about REST quirks says what the contract suite does."""

from __future__ import annotations

from tests.contract.connect.catalogue import QUIRKS, collect_cases, read_table, render_table


def test_the_table_in_the_docs_is_the_one_the_markers_make():
    cases = collect_cases()
    covered = {number for case in cases for number in case.quirks}
    assert covered == set(QUIRKS) == set(range(1, 22))
    assert read_table() == render_table(cases), "write it anew: python -m tests.contract.connect.catalogue"
