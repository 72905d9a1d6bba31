"""What a Connect worker runs, read from what it tells its group and what its group's leader tells it.

From protocol 1 on (2.3) a worker tells when it joins what it has, and is told what comes and what goes. With protocol 0
it gives everything up before it joins, and is told all that it shall have.
"""

from __future__ import annotations

import struct

from seamark.errors import UnreachableError

_SHORT, _INT, _LONG = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
_COOPERATIVE = 1


class _Bytes:
    """Bytes read from the front, as Kafka's own protocol spells them."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0

    @property
    def is_over(self) -> bool:
        return self._at >= len(self._raw)

    def number(self, kind: struct.Struct) -> int:
        (found,) = kind.unpack_from(self._raw, self._at)
        self._at += kind.size
        return int(found)

    def take(self, length: int) -> bytes:
        if length < 0 or self._at + length > len(self._raw):
            raise struct.error(f"{length} bytes are not there")
        self._at += length
        return self._raw[self._at - length : self._at]

    def text(self) -> str:
        return self.take(self.number(_SHORT)).decode()


def read_load(metadata: bytes, assignment: bytes) -> frozenset[str]:
    """The connectors that a worker runs, as a whole or some task of them.

    Raises:
        SeamarkError: the bytes are those of a protocol that is not known here.
    """
    try:
        return _read_had(metadata) | _read_assigned(assignment)
    except (struct.error, UnicodeDecodeError) as error:
        raise UnreachableError(
            "what the workers tell each other can't be read, so nobody knows who runs what",
            cause=str(error),
            hint="their Connect may be newer than this seamark",
        ) from None


def _read_had(metadata: bytes) -> frozenset[str]:
    found = _Bytes(metadata)
    version = found.number(_SHORT)
    found.text()
    found.number(_LONG)
    if version < _COOPERATIVE or found.is_over:
        return frozenset()
    length = found.number(_INT)
    return frozenset() if length < 0 else _read_assigned(found.take(length))


def _read_assigned(assignment: bytes) -> frozenset[str]:
    """Of what is taken away in the same breath nothing is left out: it is given up only after that."""
    if not assignment:
        return frozenset()
    found = _Bytes(assignment)
    version = found.number(_SHORT)
    found.number(_SHORT)
    found.text()
    found.text()
    found.number(_LONG)
    names = _read_names(found)
    return names | _read_names(found) if version >= _COOPERATIVE else names


def _read_names(found: _Bytes) -> frozenset[str]:
    if found.is_over:
        return frozenset()
    names = set()
    for _ in range(max(0, found.number(_INT))):
        name = found.text()
        for _ in range(max(0, found.number(_INT))):
            found.number(_INT)
        names.add(name)
    return frozenset(names)
