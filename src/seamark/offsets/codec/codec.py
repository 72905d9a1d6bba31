"""Encode and decode the keys and values of Connect's offset records.

A key is `["connector",{partition}]`, a value is `{offset}`; a record without a value means "no offset". Connect looks
up an offset by the bytes of its key. One source partition can be encoded in many ways, but a task finds only the
encoding that it writes itself. Bytes that were read are therefore kept and written back unchanged; `encode_key` is only
for a partition that has no key yet.
"""

from __future__ import annotations

import json
import re
from typing import Any

from seamark.core.offsets import OffsetKey, OffsetMap
from seamark.errors import UsageError
from seamark.offsets.codec.jackson import NotJsonError, Scanner
from seamark.offsets.codec.spelling import DEFAULT_JAVA, order_as_hash_map, spell_key, spell_map
from seamark.offsets.codec.verdicts import Anomaly, DecodedKey, DecodedValue, KeyVerdict, ValueVerdict

__all__ = [
    "FIELD",
    "MOST_BYTES",
    "NotJsonError",
    "TooLargeError",
    "as_rest_map",
    "decode_key",
    "decode_value",
    "encode_key",
    "encode_rest_key",
    "encode_value",
    "has_duplicates",
    "is_plain_value",
    "match_ordered_key",
    "match_plain_key",
    "match_plain_map",
    "read_json",
    "read_plain_map",
]


# Input below this size can't exceed any of Jackson's limits.
_MOST_BYTES = 50_000
_TEXT = rb'"[ !#-\[\]-~]*"'
# No leading zero, no negative zero, and never more than 64 bits.
_WHOLE = rb"(?:0|-?[1-9][0-9]{0,17})"
# The format in which Java writes a double. Python reads it as the same number, except for negative zero.
_NUMBER = rb"(?:0|-?[1-9][0-9]{0,17}|(?:0|-?[1-9][0-9]{0,15})\.[0-9]{1,17}(?:E-?[0-9]{1,2})?)"
_WORDS = rb"|true|false|null"


def _compile_map(number: bytes) -> bytes:
    field = _TEXT + rb":(?:" + _TEXT + rb"|" + number + _WORDS + rb")"
    return rb"\{(?:" + field + rb"(?:," + field + rb")*)?\}"


def _compile_few(number: bytes) -> bytes:
    """Compile a plain map of at most three fields with different names, which are the groups a, b and c."""
    value = rb":(?:" + _TEXT + rb"|" + number + _WORDS + rb")"
    first, second, third = (rb"(?P<%s>%s)" % (name, _TEXT) + value for name in (b"a", b"b", b"c"))
    return rb"\{(?:" + first + rb"(?:,(?!(?P=a):)" + second + rb"(?:,(?!(?:(?P=a)|(?P=b)):)" + third + rb")?)?)?\}"


_KEY = re.compile(rb"\[(" + _TEXT + rb"),(" + _compile_map(_WHOLE) + rb")\]")
_VALUE = re.compile(_compile_map(_NUMBER))
_FEW_KEY = re.compile(rb"\[(" + _TEXT + rb"),(" + _compile_few(_WHOLE) + rb")\]")
_FEW_VALUE = re.compile(_compile_few(_NUMBER))
# Applied only to bytes already known to be plain: a field with its value, and a field's name alone.
FIELD = re.compile(rb'("[^"]*"):("[^"]*"|[^,}]+)')
_NAME = re.compile(rb'("[^"]*"):(?:"[^"]*"|[^,}]+)')


_scan_plain = json.JSONDecoder().raw_decode


def read_plain_map(raw: bytes) -> dict[str, Any] | None:
    """Return the fields of a plain map, or None if a field occurs twice."""
    fields: dict[str, Any] = _scan_plain(raw.decode("ascii"))[0]
    return None if has_duplicates(raw) else fields


def match_plain_key(raw: bytes | None) -> re.Match[bytes] | None:
    """Match a plain key: group 1 is the name with its quotes, group 2 the partition. A field may still occur twice."""
    return None if raw is None or len(raw) > _MOST_BYTES else _KEY.fullmatch(raw)


def match_plain_map(raw: bytes) -> re.Match[bytes] | None:
    """Match a plain map. A field may still occur twice."""
    return None if len(raw) > _MOST_BYTES else _VALUE.fullmatch(raw)


def match_ordered_key(raw: bytes | None) -> re.Match[bytes] | None:
    """Match a plain key of at most three fields, each once and in the order of their names, which is the usual key."""
    found = None if raw is None or len(raw) > _MOST_BYTES else _FEW_KEY.fullmatch(raw)
    if found is None:
        return None
    _, _, first, second, third = found.groups()
    return found if second is None or (first < second and (third is None or second < third)) else None


def is_plain_value(raw: bytes) -> bool:
    """Return whether this is a plain map in which no field occurs twice."""
    if len(raw) > _MOST_BYTES:
        return False
    return _FEW_VALUE.fullmatch(raw) is not None or (_VALUE.fullmatch(raw) is not None and not has_duplicates(raw))


def has_duplicates(raw: bytes) -> bool:
    """Return whether a field of a plain map occurs twice."""
    if b',"' not in raw:
        return False
    names = _NAME.findall(raw)
    return len(set(names)) != len(names)


# A broker accepts 1 MiB by default, and Jackson accepts strings of 20 million characters. Nothing that Connect writes
# comes near 16 MiB; larger values are not parsed.
MOST_BYTES = 16 * 1024 * 1024
# Input below this size can't exceed a limit of Jackson's that Python's parser does not also detect.
_FAST_BYTES = 50_000
# Any number with at most this many digits fits into 64 bits.
_SURE_DIGITS = 18
# A decimal of this length is far below every limit, and every parser rounds it to the same double.
_SURE_DECIMAL = 100


class TooLargeError(Exception):
    """The input has more bytes than are parsed. Raised and caught inside this package only."""


class _UnusualError(Exception):
    """The input contains something that Python's parser and Jackson may read differently."""


def read_json(raw: bytes) -> tuple[Any, tuple[Anomaly, ...]]:
    """Return the value that a worker reads from these bytes (None for no value), and the anomalies that it ignores.

    Raises:
        NotJsonError: A worker would reject the bytes.
    """
    if len(raw) > MOST_BYTES:
        raise TooLargeError(f"{len(raw)} bytes")
    # Python can't be used for escaped surrogates: Jackson accepts a lone one in a string and rejects it in a field
    # name.
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
    # Java converts through BigDecimal, which has no negative zero.
    return float(text) + 0.0


def _read_map(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise _UnusualError
    return fields


def _refuse(_: str) -> Any:
    raise _UnusualError


# Whitespace before or after the value, which Connect never writes, is handled by the slower parser.
_scan = json.JSONDecoder(
    object_pairs_hook=_read_map, parse_float=_read_float, parse_int=_read_int, parse_constant=_refuse
).raw_decode


def encode_key(connector: str, partition: OffsetMap | None, *, java: int = DEFAULT_JAVA) -> bytes:
    """Return the key that a task writes for this partition, with the fields in the given order."""
    return spell_key(connector, partition, java=java)


def encode_value(offset: OffsetMap | None, *, java: int = DEFAULT_JAVA) -> bytes | None:
    """Return the value that a task writes; None (a tombstone) for no offset."""
    return None if offset is None else spell_map(offset, java=java).encode()


def encode_rest_key(connector: str, partition: OffsetMap, *, java: int = DEFAULT_JAVA) -> bytes:
    """Return the key that the REST API writes and looks up: always in the order of a Java HashMap."""
    return encode_key(connector, as_rest_map(partition), java=java)


def as_rest_map(fields: OffsetMap) -> OffsetMap:
    """Return a map as the REST API holds it: converted once by Connect's converter, in the order of a HashMap."""
    try:
        read: OffsetMap = read_json(spell_map(fields, java=DEFAULT_JAVA).encode())[0]
    except NotJsonError as failure:
        raise UsageError("Connect can't read this map after it is written", cause=str(failure)) from failure
    return order_as_hash_map(read)


def decode_key(raw: bytes | None) -> DecodedKey:
    """Decode the key of a record as a worker does. Never raises."""
    if raw is None:
        return DecodedKey(None, KeyVerdict.NO_KEY, detail="the record has no key")
    plain = match_plain_key(raw)
    partition = None if plain is None else read_plain_map(plain[2])
    if plain is not None and partition is not None:
        connector = plain[1][1:-1].decode()
        return DecodedKey(raw, KeyVerdict.GOOD, OffsetKey(connector, partition), connector)
    try:
        content, oddities = read_json(raw)
    except NotJsonError as failure:
        return DecodedKey(raw, KeyVerdict.NOT_JSON, detail=str(failure))
    except TooLargeError as failure:
        return DecodedKey(raw, KeyVerdict.TOO_LARGE, detail=str(failure))
    return _build_key(raw, content, oddities)


def decode_value(raw: bytes | None) -> DecodedValue:
    """Decode the value of a record as a worker does. Never raises."""
    if raw is None:
        return DecodedValue(None, ValueVerdict.TOMBSTONE)
    plain = read_plain_map(raw) if match_plain_map(raw) else None
    if plain is not None:
        return DecodedValue(raw, ValueVerdict.GOOD, plain)
    try:
        content, oddities = read_json(raw)
    except NotJsonError as failure:
        return DecodedValue(raw, ValueVerdict.NOT_JSON, detail=str(failure))
    except TooLargeError as failure:
        return DecodedValue(raw, ValueVerdict.TOO_LARGE, detail=str(failure))
    verdict, detail = _judge_value(content)
    offset = content if verdict is ValueVerdict.GOOD else None
    return DecodedValue(raw, verdict, offset, detail=detail, oddities=oddities)


def _judge_value(content: Any) -> tuple[ValueVerdict, str]:
    if content is None:
        return ValueVerdict.NULL, ""
    if not isinstance(content, dict):
        return ValueVerdict.NOT_A_MAP, f"it is {_name(content)}"
    nested = _find_nested(content)
    return (ValueVerdict.NESTED, nested) if nested else (ValueVerdict.GOOD, "")


def _build_key(raw: bytes, content: Any, oddities: tuple[Anomaly, ...]) -> DecodedKey:
    wrong = _judge_list(content)
    if wrong is not None:
        return DecodedKey(raw, wrong[0], detail=wrong[1], oddities=oddities)
    connector, partition = content
    wrong = _judge_partition(partition)
    if wrong is not None:
        return DecodedKey(raw, wrong[0], connector=connector, detail=wrong[1], oddities=oddities)
    return DecodedKey(raw, KeyVerdict.GOOD, OffsetKey(connector, partition), connector, oddities=oddities)


def _judge_list(content: Any) -> tuple[KeyVerdict, str] | None:
    if not isinstance(content, list):
        return KeyVerdict.NOT_A_LIST, f"it is {_name(content)}"
    if len(content) != 2:
        return KeyVerdict.NOT_TWO, f"it has {len(content)} elements"
    if not isinstance(content[0], str):
        return KeyVerdict.NAME_NOT_TEXT, f"it is {_name(content[0])}"
    return None


def _judge_partition(partition: Any) -> tuple[KeyVerdict, str] | None:
    if partition is None:
        return KeyVerdict.NO_PARTITION, ""
    if not isinstance(partition, dict):
        return KeyVerdict.PARTITION_NOT_A_MAP, f"it is {_name(partition)}"
    nested = _find_nested(partition)
    return (KeyVerdict.NESTED, nested) if nested else None


def _find_nested(fields: dict[str, Any]) -> str:
    nested = ((name, value) for name, value in fields.items() if isinstance(value, list | dict))
    return next((f"the field {name!r} is {_name(value)}" for name, value in nested), "")


def _name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    return {str: "a string", int: "a number", float: "a number", list: "a list", dict: "a map"}[type(value)]
