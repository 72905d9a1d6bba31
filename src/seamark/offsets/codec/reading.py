"""Bytes to a value, as a worker reads them: Python's fast reader where both agree, Jackson's rules elsewhere."""

from __future__ import annotations

import json
from typing import Any

from seamark.offsets.codec.jackson import Scanner
from seamark.offsets.codec.jackson_text import NotJsonError
from seamark.offsets.codec.verdicts import Oddity

__all__ = ["MOST_BYTES", "NotJsonError", "TooLargeError", "read_json"]

# A broker takes 1 MiB unless told otherwise, and Jackson texts of 20 million characters. Nothing that Connect wrote
# comes near 16 MiB; what does is looked at no further.
MOST_BYTES = 16 * 1024 * 1024
# Below this size no limit of Jackson's can be passed that Python's reader does not also see.
_FAST_BYTES = 50_000
# Digits that fit into 64 bits whatever they are.
_SURE_DIGITS = 18
# A decimal of this length is far from every limit, and its nearest double is the same for all.
_SURE_DECIMAL = 100


class TooLargeError(Exception):
    """More bytes than are looked at. It never leaves this package."""


class _UnusualError(Exception):
    """Something on which Python's reader and Jackson may differ."""


def read_json(raw: bytes) -> tuple[Any, tuple[Oddity, ...]]:
    """The value a worker reads from these bytes, None for none, and what it passes over.

    NotJsonError where the worker would refuse them.
    """
    if len(raw) > MOST_BYTES:
        raise TooLargeError(f"{len(raw)} bytes")
    # Escaped surrogates are not for Python: Jackson takes a lone one in a text and refuses it in a name.
    if len(raw) <= _FAST_BYTES and b"\\ud" not in raw and b"\\uD" not in raw:
        try:
            text = raw.decode()
            value, end = _scan(text, 0)
        except (ValueError, _UnusualError, RecursionError):
            pass
        else:
            if end == len(text):
                return value, ()
    scanner = Scanner(raw)
    value = scanner.read()
    return value, tuple(sorted(scanner.oddities))


def _read_int(text: str) -> int:
    if len(text) > _SURE_DIGITS:
        raise _UnusualError
    return int(text)


def _read_float(text: str) -> float:
    if len(text) > _SURE_DECIMAL or "e" in text or "E" in text:
        raise _UnusualError
    # Java's way over a BigDecimal has no negative zero.
    return float(text) + 0.0


def _read_map(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise _UnusualError
    return fields


def _refuse(_: str) -> Any:
    raise _UnusualError


# Space before or behind the value, which Connect never writes, is left to the other reader.
_scan = json.JSONDecoder(
    object_pairs_hook=_read_map, parse_float=_read_float, parse_int=_read_int, parse_constant=_refuse
).raw_decode
