"""Keys and values of Connect's offsets, to bytes and back.

A key is `["connector",{partition}]`, a value `{offset}`; no value at all means no offset. Connect looks a position up
by the bytes of its key. The same partition may be spelled in many ways, of which a task knows one: its own. So bytes
that were read are kept and written back as they are; `encode_key` is for a partition that has none yet.
"""

from __future__ import annotations

from typing import Any

from seamark.core.offset import OffsetKey, OffsetMap
from seamark.errors import UsageError
from seamark.offsets.codec.java_hash import order_as_hash_map
from seamark.offsets.codec.plain_bytes import match_plain_key, match_plain_map, read_plain_map
from seamark.offsets.codec.reading import NotJsonError, TooLargeError, read_json
from seamark.offsets.codec.spelling import DEFAULT_JAVA, spell_key, spell_map
from seamark.offsets.codec.verdicts import DecodedKey, DecodedValue, KeyVerdict, Oddity, ValueVerdict


def encode_key(connector: str, partition: OffsetMap | None, *, java: int = DEFAULT_JAVA) -> bytes:
    """The key a task writes that has this partition with its fields in this order."""
    return spell_key(connector, partition, java=java)


def encode_value(offset: OffsetMap | None, *, java: int = DEFAULT_JAVA) -> bytes | None:
    """The value a task writes; None, a tombstone, for no offset."""
    return None if offset is None else spell_map(offset, java=java).encode()


def encode_rest_key(connector: str, partition: OffsetMap, *, java: int = DEFAULT_JAVA) -> bytes:
    """The key the REST API writes and looks for, whatever order it was given: that of a Java HashMap."""
    return encode_key(connector, as_rest_map(partition), java=java)


def as_rest_map(fields: OffsetMap) -> OffsetMap:
    """A map as the REST API holds it: written and read once by Connect's converter, in the order of a HashMap."""
    try:
        read: OffsetMap = read_json(spell_map(fields, java=DEFAULT_JAVA).encode())[0]
    except NotJsonError as failure:
        raise UsageError("Connect can't read this map back once it is written", cause=str(failure)) from failure
    return order_as_hash_map(read)


def decode_key(raw: bytes | None) -> DecodedKey:
    """What a worker makes of the key of a record. It never raises."""
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
    """What a worker makes of the value of a record. It never raises."""
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


def _build_key(raw: bytes, content: Any, oddities: tuple[Oddity, ...]) -> DecodedKey:
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
    return {str: "a text", int: "a number", float: "a number", list: "a list", dict: "a map"}[type(value)]
