"""Records that were refused, in a few bytes each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from seamark.tables.postgres.stage_checks import Refusals

FOUND = st.dictionaries(st.integers(0, 2**63 - 2), st.sampled_from(["a", "b", "c"]))


@given(FOUND, st.integers(0, 2**63 - 2), st.integers(0, 2**63 - 2))
def test_records_are_found_by_their_offsets(found, first, last):
    refusals = Refusals()
    for offset, reason in found.items():
        refusals.add(offset, reason)
    assert len(refusals) == len(found)
    assert list(refusals) == sorted(found.items())
    assert refusals.find(first, last) == {offset: reason for offset, reason in found.items() if first <= offset <= last}


@given(FOUND, FOUND)
def test_records_of_another_one_are_added(found, others):
    refusals, more = Refusals(), Refusals()
    for offset, reason in found.items():
        refusals.add(offset, reason)
    for offset, reason in others.items():
        if offset not in found:
            more.add(offset, reason)
    refusals.add_all(more)
    assert list(refusals) == sorted((others | found).items())
