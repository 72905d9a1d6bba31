"""Checksums of runs: the same in any order, and not blind for what is there too often."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from seamark.kafka_sink.control import Checksum

hashes = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20)


def build(found):
    return Checksum.of(array("q", found))


@given(hashes, st.randoms())
def test_checksum_is_free_of_order(found, random):
    shuffled = list(found)
    random.shuffle(shuffled)
    first, second = build(found), build(shuffled)
    assert first == second
    assert Checksum.from_text(first.text) == first


@given(hashes, hashes)
def test_checksums_of_parts_make_that_of_the_whole(left, right):
    assert build(left).combine(build(right)) == build([*left, *right])


def test_checksum_sees_a_record_that_is_there_three_times():
    once, thrice = build([5]), build([5, 5, 5])
    assert thrice.xor == once.xor
    assert thrice != once


def test_negative_hashes_are_taken_by_their_bits():
    assert build([-1]) == Checksum(2**64 - 1, 2**64 - 1)
