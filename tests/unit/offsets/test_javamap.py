"""The standalone worker's file."""

from __future__ import annotations

import hashlib
import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.errors import RefusedError
from seamark.offsets.codec.java_map import find_capacity, read_java_map, write_java_map

# Written by Java: facts, section 2.
EMPTY = bytes.fromhex(
    "aced0005737200116a6176612e7574696c2e486173684d61700507dac1c31660d103000246000a6c6f6164466163746f72"
    "4900097468726573686f6c6478703f400000000000007708000000100000000078"
)
ONE = bytes.fromhex(
    "aced0005737200116a6176612e7574696c2e486173684d61700507dac1c31660d103000246000a6c6f6164466163746f72"
    "4900097468726573686f6c6478703f4000000000000c77080000001000000001757200025b42acf317f8060854e0020000"
    "78700000000d5b2263222c7b226b223a307d5d7571007e0002000000077b2276223a307d78"
)
FIRST, SECOND = (b'["c",{"k":0}]', b'{"v":0}'), (b'["c",{"k":1}]', None)
TWO_DIGEST = "cda8a810a2a6ba213695486e31bae32b33ba5c6bd3b7f68f98cc94ed55218c3c"
ENTRIES = st.lists(st.tuples(st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=20)), max_size=30)


def refused(data):
    with pytest.raises(RefusedError) as failure:
        read_java_map(data, name="offsets.dat")
    assert failure.value.message == "offsets.dat can't be read as the offsets of a standalone worker"
    assert failure.value.hint
    return failure.value.cause


def test_files_of_java_are_read():
    assert read_java_map(EMPTY).entries == ()
    assert read_java_map(ONE).entries == (FIRST,)


def test_files_are_those_of_java():
    assert write_java_map([]) == EMPTY
    assert write_java_map([FIRST]) == ONE
    two = write_java_map([FIRST, SECOND])
    assert (len(two), hashlib.sha256(two).hexdigest()) == (159, TWO_DIGEST)
    assert read_java_map(two).entries == (FIRST, SECOND)


@pytest.mark.parametrize(("count", "capacity"), [(0, 16), (12, 16), (13, 32), (24, 32), (25, 64), (100, 256)])
def test_the_table_grows_at_three_quarters(count, capacity):
    assert find_capacity(count) == capacity
    assert read_java_map(write_java_map([(b"%d" % number, b"") for number in range(count)])).capacity == capacity


@given(entries=ENTRIES)
def test_what_is_written_is_read_back(entries):
    data = write_java_map(entries)
    read = read_java_map(data)
    assert list(read.entries) == entries
    assert write_java_map(read.entries, capacity=read.capacity) == data


def test_truncation_at_every_byte_is_refused():
    data = write_java_map([FIRST, SECOND, (None, b"")])
    for length in range(len(data)):
        assert "it ends within" in refused(data[:length]) or "don't fit into its" in refused(data[:length])


@given(entries=ENTRIES, more=st.binary(min_size=1, max_size=5))
def test_bytes_behind_the_end_are_refused(entries, more):
    assert f"{len(more)} bytes follow" in refused(write_java_map(entries) + more)


def test_every_changed_byte_is_refused_or_changes_what_is_read():
    data = write_java_map([FIRST, SECOND])
    # Load factor (but its sign), threshold and capacity are figures that Java itself does not look at.
    free = (
        range(ONE.index(b"\x3f\x40"), ONE.index(b"\x77\x08")),
        range(ONE.index(b"\x77\x08") + 2, ONE.index(b"\x77\x08") + 6),
    )
    for at in range(len(data)):
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        try:
            read = read_java_map(changed)
        except RefusedError:
            continue
        assert read.entries != (FIRST, SECOND) or any(at in figures for figures in free), at


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"", "byte 0: it ends within a Java object stream"),
        (b"[offsets]\n", "byte 0: expected a Java object stream"),
        (b"PK\x03\x04zip", "byte 0: expected a Java object stream"),
        (b"\xac\xed\x00\x05t\x00\x05dirty", "byte 4: expected an object"),
        (
            b"\xac\xed\x00\x05sr\x00\x11java.util.TreeMap",
            "byte 8: it contains a java.util.TreeMap, not a java.util.HashMap",
        ),
        (b"\xac\xed\x00\x05sr\x00\x04\x00\x1b[2", "byte 8: it contains a \x00\x1b[2, not a java.util.HashMap"),
        (EMPTY.replace(b"\x05\x07\xda", b"\x05\x07\xdb"), "byte 25: expected the class java.util.HashMap"),
        (EMPTY.replace(b"\x3f\x40\0\0", b"\x7f\xc0\0\0"), "the map's load factor is not a positive number"),
        (ONE.replace(b"u\x72", b"t\x72"), "expected a byte array, found a string"),
        (ONE.replace(b"u\x72", b"s\x72"), "expected a byte array, found an object"),
        (ONE.replace(b"\x02[B", b"\x02[I"), "expected the class of a byte array"),
        (ONE.replace(b"q\0\x7e\0\x02", b"q\0\x7e\0\x01"), "expected the class of a byte array"),
        (ONE.replace(b"\0\0\0\x07{", b"\xff\xff\xff\xff{"), "a byte array has a negative length"),
        (ONE.replace(b"\0\0\0\x10", b"\xff\xff\xff\xff"), "the map's capacity is impossible"),
        (
            write_java_map([(b"k", None)])[:-2] + b"q\0\x7e\0\x09x",
            "a reference points to 0x7e0009, which is not a previous byte array",
        ),
    ],
)
def test_anything_else_is_refused_by_name(data, cause):
    assert cause in refused(data)


@pytest.mark.parametrize("count", [2, 1_000_000_000, -1])
def test_an_announced_count_is_not_believed(count):
    at = EMPTY.index(b"\x77\x08") + 6
    assert "entries, which don't fit into its 82 bytes" in refused(
        EMPTY[:at] + struct.pack(">i", count) + EMPTY[at + 4 :]
    )


def test_an_announced_length_takes_no_memory():
    data = ONE.replace(b"\0\0\0\x07{", b"\x7f\xff\xff\xff{")
    tracemalloc.start()
    assert "it ends within a byte array" in refused(data)
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


def test_a_reference_to_an_earlier_array_is_read():
    data = write_java_map([(b"k", b"same"), (b"l", None)])
    end = data.rindex(b"p")
    assert read_java_map(data[:end] + b"q\x00\x7e\x00\x04" + data[end + 1 :]).entries == (
        (b"k", b"same"),
        (b"l", b"same"),
    )
