"""Detect bytes that Connect's JsonConverter can't read. Its parser, Jackson, stops at the end of the first value."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from seamark.kafka.model import WholeRecord

# Connect accepts leading zeros in numbers (ALLOW_LEADING_ZEROS_FOR_NUMBERS). Strings are matched so that they stay
# unchanged.
_LEADING_ZEROS = re.compile(r'(?P<string>"(?:[^"\\]|\\.)*")|(?<![\w.])(?P<sign>-?)0+(?=\d)', re.DOTALL)
_PRIMITIVES = frozenset({"boolean", "int8", "int16", "int32", "int64", "float", "double", "bytes", "string"})
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_LOGICAL = frozenset({_DECIMAL, *(f"org.apache.kafka.connect.data.{name}" for name in ("Date", "Time", "Timestamp"))})
_NO_JSON = "it is not valid JSON"


class _FaultError(Exception):
    """A fault found in a record."""


def find_json_fault(data: bytes | None, *, has_schema: bool) -> str:
    """Return why the converter would reject these bytes; "" if it would accept them."""
    if data is None:
        return ""
    try:
        value = _parse(data)
        if has_schema:
            _check_envelope(value)
    except _FaultError as fault:
        return str(fault)
    except RecursionError:
        # The nesting is so deep that Jackson may or may not accept it. The caller either stops where the task stops, or
        # reports an error.
        return ""
    return ""


def _parse(data: bytes) -> Any:
    """Parse the first value of some bytes. Empty text has no value and counts as null."""
    try:
        text = data.decode(json.detect_encoding(data))
    except UnicodeDecodeError:
        raise _FaultError(_NO_JSON) from None
    text = _LEADING_ZEROS.sub(lambda found: found["string"] or found["sign"], text.lstrip(" \t\n\r"))
    if not text:
        return None
    try:
        value, end = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode(text)
    except ValueError:
        raise _FaultError(_NO_JSON) from None
    # Jackson ignores what follows the first value, but a number or literal must be complete at this point.
    following = text[end : end + 1]
    is_word = value is None or isinstance(value, bool)
    if is_word and (following.isalnum() or following in ("_", "$")) and following:
        raise _FaultError(_NO_JSON)
    if isinstance(value, int | float) and not is_word and following.strip(" \t\n\r"):
        raise _FaultError(_NO_JSON)
    return value


def _refuse_constant(word: str) -> Any:
    """Reject NaN and Infinity, which Python accepts although they are not JSON."""
    raise ValueError(word)


def _check_envelope(value: Any) -> None:
    if not isinstance(value, dict) or value.keys() != {"schema", "payload"}:
        raise _FaultError("it is not an object with only schema and payload, which schemas.enable requires")
    if value["schema"] is not None:
        _check_schema(value["schema"])
        _check_value(value["schema"], value["payload"])


def _check_schema(schema: Any) -> None:
    kind = schema.get("type") if isinstance(schema, dict) else None
    if not isinstance(kind, str):
        raise _FaultError("its schema has no type")
    if kind == "array":
        _check_schema(schema.get("items"))
    elif kind == "map":
        _check_schema(schema.get("keys"))
        _check_schema(schema.get("values"))
    elif kind == "struct":
        fields = schema.get("fields")
        if not isinstance(fields, list):
            raise _FaultError("its schema is a struct without fields")
        for field in fields:
            if not isinstance(field, dict) or not isinstance(field.get("field"), str):
                raise _FaultError("its schema has a field without a name")
            _check_schema(field)
    elif kind not in _PRIMITIVES:
        raise _FaultError("its schema has a type that Connect doesn't have")


def _check_value(schema: dict[str, Any], value: Any, *, is_inside: bool = False) -> None:
    """Raise if a value does not match its schema. Connect validates the fields of a struct a second time."""
    kind, name = schema["type"], schema.get("name")
    if value is None:
        if schema.get("default") is None and not schema.get("optional", False):
            raise _FaultError(f"a {kind} that its schema requires is missing")
    elif name in _LOGICAL:
        _check_logical(schema, value)
    elif kind in _CONTAINERS:
        _CONTAINERS[kind](schema, value, is_inside)
    elif kind in ("string", "bytes"):
        # Jackson reads any value other than a string as null here.
        if not isinstance(value, str) and is_inside and not schema.get("optional", False):
            raise _FaultError(f"a value that its schema requires as {kind} has another type")
        if kind == "bytes" and isinstance(value, str):
            _check_base64(value)


def _check_struct(schema: dict[str, Any], value: Any, is_inside: bool) -> None:
    del is_inside
    if not isinstance(value, dict):
        raise _FaultError("a struct of its schema is not an object")
    for field in schema["fields"]:
        _check_value(field, value.get(field["field"]), is_inside=True)


def _check_array(schema: dict[str, Any], value: Any, is_inside: bool) -> None:
    # Jackson iterates over the values of an object as array elements, and over no elements for any other type.
    elements = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in elements:
        _check_value(schema["items"], one, is_inside=is_inside)


def _check_map(schema: dict[str, Any], value: Any, is_inside: bool) -> None:
    if schema["keys"]["type"] == "string":
        if not isinstance(value, dict):
            raise _FaultError("a map of its schema is not an object")
        values = list(value.values())
    else:
        if not isinstance(value, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
            raise _FaultError("a map of its schema is not an array of pairs")
        for key, _ in value:
            _check_value(schema["keys"], key, is_inside=is_inside)
        values = [one for _, one in value]
    for one in values:
        _check_value(schema["values"], one, is_inside=is_inside)


def _check_logical(schema: dict[str, Any], value: Any) -> None:
    """Check a logical type: dates and times are integers; a decimal is a number, or bytes with a scale."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if schema["name"] != _DECIMAL:
        if not is_whole:
            raise _FaultError("a date or time of its schema is not an integer")
    elif isinstance(value, str):
        _check_base64(value)
        if not str((schema.get("parameters") or {}).get("scale", "")).lstrip("-").isdecimal():
            raise _FaultError("a decimal of its schema has no scale")
    elif not is_whole and not isinstance(value, float):
        raise _FaultError("a decimal of its schema is not a number")


def _check_base64(value: str) -> None:
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise _FaultError("the bytes of its schema are not base64") from None


_CONTAINERS = {"struct": _check_struct, "array": _check_array, "map": _check_map}


_PACKAGE = "org.apache.kafka.connect."
_SIZES = {"Integer": 4, "Long": 8, "Short": 2, "Float": 4, "Double": 8}


class SinkStage(StrEnum):
    """The stage of a sink at which a record fails, by Connect's own names."""

    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    TRANSFORMATION = "TRANSFORMATION"
    TASK_PUT = "TASK_PUT"
    UNKNOWN = ""

    @property
    def is_converter(self) -> bool:
        """Return whether a converter failed."""
        return self in (SinkStage.KEY_CONVERTER, SinkStage.VALUE_CONVERTER, SinkStage.HEADER_CONVERTER)


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a record can't be read: which converter rejects it and the reason, without the record's own bytes."""

    stage: SinkStage
    converter: str
    reason: str


class DoubtError(Exception):
    """seamark can't determine whether a converter would accept some bytes."""


Find = Callable[[bytes | None], str]
"""Returns what one converter rejects in some bytes; "" for nothing. Raises DoubtError if that can't be determined."""


class Decoder:
    """The converters of one sink."""

    def __init__(self, config: Mapping[str, str], worker: Mapping[str, str]) -> None:
        """Create a decoder from the connector's config; the known worker config has the defaults."""
        self._converters = {
            stage: _find_converter(prefix, config, worker)
            for stage, prefix in (
                (SinkStage.KEY_CONVERTER, "key.converter"),
                (SinkStage.VALUE_CONVERTER, "value.converter"),
                (SinkStage.HEADER_CONVERTER, "header.converter"),
            )
        }

    def find_fault(self, record: WholeRecord) -> Fault | None:
        """Return why a record can't be read; None if it can. Raises DoubtError if that can't be determined."""
        for stage, data in (
            (SinkStage.KEY_CONVERTER, [record.key]),
            (SinkStage.VALUE_CONVERTER, [record.value]),
            (SinkStage.HEADER_CONVERTER, [value for _, value in record.headers]),
        ):
            name, find = self._converters[stage]
            if find is None and data:
                raise DoubtError(name)
            for found in data:
                if find is not None and (reason := find(found)):
                    return Fault(stage, name, reason)
        return None


def _find_converter(prefix: str, config: Mapping[str, str], worker: Mapping[str, str]) -> tuple[str, Find | None]:
    """Return the class name of a converter and its check for bytes. Its settings share its prefix."""
    source = config if config.get(prefix) else worker
    name = source.get(prefix) or (f"{_PACKAGE}storage.SimpleHeaderConverter" if prefix.startswith("header") else "")
    settings = {key.removeprefix(f"{prefix}."): value for key, value in source.items() if key.startswith(f"{prefix}.")}
    return name, _build_find(name.removeprefix(_PACKAGE), settings)


def _build_find(short: str, settings: Mapping[str, str]) -> Find | None:
    # A worker also accepts the short aliases of its plugins.
    word = short.rpartition(".")[2].removesuffix("Converter")
    if "." in short and not short.startswith(("json.", "storage.", "converters.")):
        return None
    if word in _SIZES:
        return lambda data: _find_size_fault(data, _SIZES[word])
    if word == "Boolean":
        return _find_boolean_fault
    if word == "Json":
        # A value is JSON with an embedded schema unless `schemas.enable` is false.
        has_schema = settings.get("schemas.enable", "true").strip().lower() != "false"
        if settings.get("schema.content"):
            return None
        return lambda data: find_json_fault(data, has_schema=has_schema)
    # These converters turn any bytes into a string or keep them unchanged. Headers that are not JSON also become
    # strings.
    return _find_nothing if word in ("String", "ByteArray", "SimpleHeader") else None


def _find_nothing(data: bytes | None) -> str:
    del data
    return ""


def _find_size_fault(data: bytes | None, size: int) -> str:
    return "" if data is None or len(data) == size else f"it has {len(data)} bytes, not {size}"


def _find_boolean_fault(data: bytes | None) -> str:
    return "" if data is None or data in (b"\0", b"\1") else "it is not a single byte of 0 or 1"
