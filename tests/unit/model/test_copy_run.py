"""Checksums of runs: the same in any order, and not blind for what is there too often."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from seamark.model.copy_run import Checksum

hashes = st.lists(st.integers(-(2**63), 2**64 - 1), max_size=20)


@given(hashes, st.randoms())
def test_checksum_is_free_of_order(found, random):
    shuffled = list(found)
    random.shuffle(shuffled)
    first = second = Checksum()
    for one in found:
        first = first.add(one)
    for one in shuffled:
        second = second.add(one)
    assert first == second
    assert Checksum.from_text(first.text) == first


@given(hashes, hashes)
def test_checksums_of_parts_make_that_of_the_whole(left, right):
    parts, whole = [Checksum(), Checksum()], Checksum()
    for side, found in enumerate((left, right)):
        for one in found:
            parts[side], whole = parts[side].add(one), whole.add(one)
    assert parts[0].combine(parts[1]) == whole


def test_checksum_sees_a_record_that_is_there_three_times():
    once = Checksum().add(5)
    assert once.add(5).add(5).xor == once.xor
    assert once.add(5).add(5) != once


def test_negative_hashes_are_taken_by_their_bits():
    assert Checksum().add(-1) == Checksum().add(2**64 - 1)
