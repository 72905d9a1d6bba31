"""The plans of copies in the control topic: what is written comes back, and what is not whole is refused by name."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from seamark.copies.plan.registrations import (
    PIECE_BYTES,
    PREFIX,
    Registration,
    build_transactional_id,
    decode_registrations,
    encode_registration,
)
from seamark.errors import UsageError
from seamark.kafka_sink.control import Claim

SMALL = Registration("01ABC", 1, registered_at="2026-11-16T00:00:00Z", by="me@here:1", body={"id": "01ABC", "n": [1]})
# Numbers that don't pack well: several pieces.
RANDOM = random.Random(7)
LARGE = replace(SMALL, generation=2, body={"id": "01ABC", "n": [RANDOM.randrange(1 << 62) for _ in range(150_000)]})


def decode(*batches):
    return decode_registrations([pair for batch in batches for pair in batch], place="control-0")


def test_registration_comes_back_whole():
    read = decode(encode_registration(SMALL))
    assert (read.found, read.failures) == ({"01ABC": SMALL}, {})


def test_large_plan_is_cut_into_pieces_that_brokers_take():
    pairs = encode_registration(LARGE)
    assert len(pairs) > 2
    assert max(len(value) for _, value in pairs) < 500_000
    assert len(pairs[0][1]) > PIECE_BYTES
    found = decode(pairs).found["01ABC"]
    assert found == LARGE
    assert found.pieces == len(pairs)


def test_same_plan_is_the_same_bytes():
    assert encode_registration(SMALL) == encode_registration(replace(SMALL))


def test_later_generation_takes_the_place_of_the_former_and_deletes_what_it_does_not_need():
    large = encode_registration(LARGE)
    small = encode_registration(replace(SMALL, generation=3), before=len(large))
    assert [value for _, value in small[1:]] == [None] * (len(large) - 1)
    assert {key for key, _ in small} == {key for key, _ in large}
    read = decode(large, small).found["01ABC"]
    assert (read.generation, read.body) == (3, SMALL.body)


def test_compaction_may_take_former_generations_at_any_moment():
    first, second = encode_registration(SMALL), encode_registration(LARGE)
    # What compaction leaves: of each key the newest.
    assert decode(dict([*first, *second]).items()).found == {"01ABC": LARGE}
    assert decode(first, second).found == {"01ABC": LARGE}


def test_keys_are_never_those_of_control_records():
    for key, _ in encode_registration(SMALL):
        assert key.startswith(PREFIX)
        # Jobs are named by letters, digits, dots and dashes.
        assert not key.startswith(Claim("01ABC", task=0, part="s").family.encode())


def test_control_records_and_others_are_passed_over():
    assert decode([(b"job/0", b"{}"), (b"", b"x")]) == decode([])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda pairs: pairs[:-1],
        lambda pairs: pairs[1:],
        lambda pairs: [(pairs[0][0], pairs[0][1][:-3]), *pairs[1:]],
        lambda pairs: [(key, value.replace(b'"format_version":1', b'"format_version":2')) for key, value in pairs],
        lambda pairs: [(pairs[0][0], b"nonsense"), *pairs[1:]],
    ],
    ids=["last piece gone", "first piece gone", "cut short", "another format", "not ours"],
)
def test_plan_that_is_not_whole_is_named_and_hides_no_other(spoil):
    other = encode_registration(replace(SMALL, plan="01XYZ", body={"id": "01XYZ"}))
    read = decode(spoil(list(encode_registration(LARGE))), other)
    assert list(read.found) == ["01XYZ"]
    assert list(read.failures) == ["01ABC"]
    assert "01ABC" in read.failures["01ABC"].message
    assert read.failures["01ABC"].hint


def test_forgotten_plan_is_gone():
    pairs = encode_registration(SMALL)
    assert decode(pairs, [(key, None) for key, _ in pairs]) == decode([])


@pytest.mark.parametrize("plan", ["", "a/b", "a b", "x" * 201])
def test_id_that_would_not_be_one_piece_of_a_key_is_refused(plan):
    with pytest.raises(UsageError):
        replace(SMALL, plan=plan)


def test_transactional_id_is_that_of_the_plan():
    assert build_transactional_id("01ABC") == "seamark.copy.01ABC"
