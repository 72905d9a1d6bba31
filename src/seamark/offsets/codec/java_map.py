"""Read and write the offset file of a standalone worker: a Java HashMap of byte arrays, by ObjectOutputStream.

Reading is strict. Java would read a truncated file as an empty one and restart every connector from the beginning; this
parser rejects such a file, and everything else that such a map does not need. Nothing in the file is executed, and no
class is looked up by its name.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from seamark.errors import RefusedError

Entry = tuple[bytes | None, bytes | None]

_MAGIC = b"\xac\xed\x00\x05"
_OBJECT, _CLASS, _ARRAY, _REFERENCE, _NULL, _BLOCK, _END = b"s", b"r", b"u", b"q", b"p", b"w", b"x"
_MAP_NAME = b"java.util.HashMap"
# The serialVersionUID of HashMap, the flag that it writes itself, and its two fields: float loadFactor, int threshold.
_MAP_CLASS = bytes.fromhex("0507dac1c31660d1") + b"\x03\x00\x02F\x00\x0aloadFactorI\x00\x09threshold" + _END + _NULL
_HEAD = _MAGIC + _OBJECT + _CLASS + struct.pack(">H", len(_MAP_NAME)) + _MAP_NAME + _MAP_CLASS
_BYTES_CLASS = _CLASS + b"\x00\x02[B" + bytes.fromhex("acf317f8060854e0") + b"\x02\x00\x00" + _END + _NULL
# Java numbers the objects that it writes: 7E0000 is the map's class, 7E0001 the map, 7E0002 the class of the first byte
# array.
_BYTES_CLASS_HANDLE = 0x7E0002
_BYTES_CLASS_AGAIN = _REFERENCE + struct.pack(">I", _BYTES_CLASS_HANDLE)
_LOAD_FACTOR = 0.75
_FIRST_CAPACITY = 16
_MOST_CAPACITY = 1 << 30
_TAGS = {
    b"t": "a string",
    b"s": "an object",
    b"r": "the description of a class",
    b"v": "a class",
    b"y": "a reset",
    b"z": "a long block of data",
    b"{": "an exception",
    b"|": "a long string",
    b"}": "a proxy",
    b"~": "an enum",
    _BLOCK: "a block of data",
    _END: "the end",
}


@dataclass(frozen=True, slots=True)
class JavaMap:
    """The map in the order of the file. The order has no meaning: Java hashes byte arrays by identity.

    Compare entries, never files. Connect never removes a key: a partition whose offset was deleted keeps its key with
    no value. `capacity` is the size of Java's table; it is not needed for reading.
    """

    entries: tuple[Entry, ...]
    capacity: int


def write_java_map(entries: Iterable[Entry], *, capacity: int | None = None) -> bytes:
    """Return the file that Java would write for these entries in this order."""
    listed = tuple(entries)
    capacity = find_capacity(len(listed)) if capacity is None else capacity
    # A map that never had an entry has no table, and therefore a threshold of 0.
    threshold = int(capacity * _LOAD_FACTOR) if listed else 0
    parts = [
        _HEAD,
        struct.pack(">fi", _LOAD_FACTOR, threshold),
        _BLOCK,
        b"\x08",
        struct.pack(">ii", capacity, len(listed)),
    ]
    described = _BYTES_CLASS
    for item in (item for entry in listed for item in entry):
        if item is None:
            parts.append(_NULL)
            continue
        parts += [_ARRAY, described, struct.pack(">i", len(item)), item]
        described = _BYTES_CLASS_AGAIN
    return b"".join((*parts, _END))


def find_capacity(count: int) -> int:
    """Return the size of Java's table after adding this many entries one by one to an empty map."""
    capacity = _FIRST_CAPACITY
    while count > capacity * _LOAD_FACTOR:
        capacity *= 2
    return capacity


def read_java_map(data: bytes, *, name: str = "the offset file") -> JavaMap:
    """Parse the map in a file. Raises RefusedError with the problem and the position of the byte."""
    return _Reader(data, name=name).read()


class _Reader:
    def __init__(self, data: bytes, *, name: str) -> None:
        self._data = data
        self._name = name
        self._at = 0
        self._arrays: list[bytes] = []
        self._is_described = False

    def read(self) -> JavaMap:
        self._read_head()
        load_factor, _ = struct.unpack(">fi", self._take(8, "the fields of the map"))
        if not 0 < load_factor < float("inf"):
            raise self._refuse("the map's load factor is not a positive number")
        self._expect(_BLOCK + b"\x08", "the size of the map")
        capacity, count = struct.unpack(">ii", self._take(8, "the size of the map"))
        if not 0 <= capacity <= _MOST_CAPACITY:
            raise self._refuse("the map's capacity is impossible")
        # Each entry takes at least two bytes, so a larger count is rejected before the loop.
        if not 0 <= count <= (len(self._data) - self._at) // 2:
            raise self._refuse(f"it declares {count} entries, which don't fit into its {len(self._data)} bytes")
        entries = tuple((self._read_item(), self._read_item()) for _ in range(count))
        self._expect(_END, "the end of the map")
        if self._at != len(self._data):
            raise self._refuse(f"{len(self._data) - self._at} bytes follow the end of the map")
        return JavaMap(entries, capacity)

    def _read_head(self) -> None:
        if self._data.startswith(_HEAD):
            self._at = len(_HEAD)
            return
        self._expect(_MAGIC, "a Java object stream")
        self._expect(_OBJECT, "an object")
        self._expect(_CLASS, "the class of the object")
        (length,) = struct.unpack(">H", self._take(2, "the name of the class"))
        found = self._take(length, "the name of the class")
        if found != _MAP_NAME:
            self._at -= length
            raise self._refuse(
                f"it contains a {found[:100].decode('ascii', 'backslashreplace')}, not a java.util.HashMap"
            )
        self._expect(_MAP_CLASS, "the class java.util.HashMap")

    def _read_item(self) -> bytes | None:
        tag = self._take(1, "a byte array")
        if tag == _NULL:
            return None
        if tag == _REFERENCE:
            return self._read_reference()
        if tag != _ARRAY:
            self._at -= 1
            raise self._refuse(f"expected a byte array, found {_TAGS.get(tag, 'an unknown tag')}")
        self._expect(_BYTES_CLASS_AGAIN if self._is_described else _BYTES_CLASS, "the class of a byte array")
        self._is_described = True
        (length,) = struct.unpack(">i", self._take(4, "the length of a byte array"))
        if length < 0:
            raise self._refuse("a byte array has a negative length")
        item = self._take(length, "a byte array")
        self._arrays.append(item)
        return item

    def _read_reference(self) -> bytes:
        (handle,) = struct.unpack(">I", self._take(4, "a reference"))
        index: int = handle - _BYTES_CLASS_HANDLE - 1
        if not 0 <= index < len(self._arrays):
            raise self._refuse(f"a reference points to {handle:#x}, which is not a previous byte array")
        return self._arrays[index]

    def _expect(self, expected: bytes, what: str) -> None:
        found = self._take(len(expected), what)
        if found != expected:
            self._at -= len(expected)
            raise self._refuse(f"expected {what}")

    def _take(self, length: int, what: str) -> bytes:
        end = self._at + length
        if end > len(self._data):
            raise self._refuse(f"it ends within {what}")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def _refuse(self, why: str) -> RefusedError:
        return RefusedError(
            f"{self._name} can't be read as the offsets of a standalone worker",
            cause=f"byte {self._at}: {why}",
            hint="use the file of a stopped worker, or a backup",
            context={"byte": str(self._at)},
        )


def change_file(content: bytes | None, changes: Mapping[bytes, bytes | None], *, name: str) -> bytes:
    """Return the bytes of a file with the values of these keys changed and all other entries unchanged.

    A key without a value stays in the file, as it does when Connect itself deletes an offset.
    """
    if content is None:
        return write_java_map(changes.items())
    java_map = read_java_map(content, name=name)
    entries = [(key, changes[key] if key is not None and key in changes else value) for key, value in java_map.entries]
    known = {key for key, _ in java_map.entries}
    entries += [(key, value) for key, value in changes.items() if key not in known]
    return write_java_map(entries, capacity=max(java_map.capacity, find_capacity(len(entries))))
