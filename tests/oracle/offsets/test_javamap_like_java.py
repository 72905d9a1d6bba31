"""The standalone worker's file against Java's own serialization."""

from __future__ import annotations

import random

import pytest

from seamark.errors import RefusedError
from seamark.offsets.codec.codec import encode_key, encode_value
from seamark.offsets.codec.java_map import find_capacity, read_java_map, write_java_map
from tests.oracle.offsets.oracle import hexed, unhexed


def random_entries(chance):
    count = chance.choice([0, 1, 2, 12, 13, 24, 25, 49, chance.randint(0, 200)])
    entries = []
    for number in range(count):
        key = chance.choice([encode_key("c", {"k": number}), chance.randbytes(chance.randint(0, 40)) + bytes([number])])
        value = chance.choice([None, b"", encode_value({"v": number}), chance.randbytes(chance.randint(0, 3000))])
        entries.append((key, value))
    if chance.random() < 0.2:
        entries.append((None, b"{}"))
    return entries


@pytest.mark.parametrize("seed", range(100))
def test_file_is_that_of_java(oracle, seed):
    entries = random_entries(random.Random(seed))
    answer = oracle.ask({"ask": "write-map", "entries": [[hexed(key), hexed(value)] for key, value in entries]})
    file = unhexed(answer["file"])
    ordered = [(unhexed(key), unhexed(value)) for key, value in answer["entries"]]
    assert write_java_map(ordered) == file
    read = read_java_map(file)
    assert list(read.entries) == ordered
    assert read.capacity == find_capacity(len(entries))

    ours = write_java_map(entries)
    back = oracle.ask({"ask": "read-map", "file": ours.hex()})["entries"]
    assert sorted(map(str, back)) == sorted(str([hexed(key), hexed(value)]) for key, value in entries)


def test_java_reads_what_is_refused_here(oracle):
    """Where seamark is stricter than Java, Java really does read on in silence."""
    file = write_java_map([(b"k", b"v")])
    assert oracle.ask({"ask": "read-map", "file": (file + b"more").hex()})["entries"] == [["6b", "76"]]
    with pytest.raises(RefusedError, match="can't be read"):
        read_java_map(file + b"more")


def test_a_reference_to_an_array_is_read_as_by_java(oracle):
    # One array as both value and key, which Java writes as a reference to the first.
    file = write_java_map([(b"k", b"same"), (b"l", None)]).replace(b"x", b"x")
    end = file.rindex(b"p")
    referring = file[:end] + b"q\x00\x7e\x00\x04" + file[end + 1 :]
    answer = oracle.ask({"ask": "read-map", "file": referring.hex()})
    assert sorted(answer["entries"]) == [["6b", b"same".hex()], ["6c", b"same".hex()]]
    assert dict(read_java_map(referring).entries) == {b"k": b"same", b"l": b"same"}
