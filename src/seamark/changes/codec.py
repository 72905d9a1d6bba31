"""Encode dataclasses as JSON values, and decode them strictly.

The type hints of a class are its schema: each field is written under its own name. Decoding refuses unknown fields,
missing fields without a default, and values of another type; it converts nothing silently. The schema of a class is
built once, at its first use.

A field is marked by `Annotated`: `SecretConfig` masks a connector config, `Transient` leaves a field out, and
`Encoded` gives a field its own JSON form.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from seamark.changes.images import hide_secrets
from seamark.core.secrets import MASK
from seamark.errors import UsageError

T = TypeVar("T")
Decode = Callable[[Any, int], Any]

# Deeper than any step; a file that nests deeper is not one that seamark wrote.
MAX_DEPTH = 32
# Every integer up to this one has an exact float, so that an integer in place of a float loses nothing.
_EXACT_INT = 2**53
_MAX_NAME = 80
_JSON_NAMES = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    NoneType: "null",
}
_WRONG = (TypeError, KeyError, ValueError, AttributeError)


class CodecError(UsageError, ValueError):
    """A value that can't be encoded, or data that isn't the encoded form of the expected class."""


@dataclass(frozen=True, slots=True)
class SecretConfig:
    """Mark a connector config: literal secrets are masked in the encoded form, references to secrets stay.

    `hidden` names a field of the same class that holds further keys whose literal values are masked.
    """

    hidden: str = ""


@dataclass(frozen=True, slots=True)
class Transient:
    """Mark a field that exists in memory only. It needs a default, which a decoded instance gets."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """Mark a field with its own JSON form, which is used if the value is not None.

    `decode` also gets null, and raises a ValueError or TypeError for anything that `encode` doesn't return.
    """

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


class _MismatchError(Exception):
    """The problem with a value; each enclosing decoder adds its part of the path to the value."""

    def __init__(self, problem: str, *path: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path = path

    def within(self, name: str) -> _MismatchError:
        """Return the same problem with the path extended by the enclosing object or array."""
        return _MismatchError(self.problem, name, *self.path)


@dataclass(frozen=True, slots=True)
class _Codec:
    """How values of one type are encoded and decoded. Without `encode`, the value is written as it is.

    `types` are the types whose values are all valid, if the codec checks nothing else. `optional` encodes a value that
    is known not to be None, if `encode` also accepts None.
    """

    encode: Callable[[Any], Any] | None
    decode: Decode
    types: frozenset[type] = frozenset()
    optional: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class _Schema:
    """The encoded fields of a class, by name, in their order.

    `encode` returns all fields, with secrets still in clear text.
    """

    codecs: Mapping[str, _Codec]
    encode: Callable[[Any], dict[str, Any]]
    required: frozenset[str]
    secrets: tuple[tuple[str, str], ...]


_SCHEMAS: dict[type[Any], _Schema] = {}


def encode_fields(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass instance as JSON values, with literal secrets masked."""
    return _encode_object(_find_schema(type(value)), value)


def _encode_object(schema: _Schema, value: Any) -> dict[str, Any]:
    encoded = schema.encode(value)
    for name, hidden in schema.secrets:
        config = encoded[name]
        if config is not None:
            encoded[name] = hide_secrets(config, getattr(value, hidden) if hidden else ())
    return encoded


def find_masked(value: Any) -> tuple[str, ...]:
    """Return the keys of a dataclass instance's configs whose values were masked when it was encoded."""
    configs = [getattr(value, name) or {} for name, _ in _find_schema(type(value)).secrets]
    return tuple(sorted(key for config in configs for key, found in config.items() if found == MASK))


def decode_fields(cls: type[T], data: Mapping[str, Any]) -> T:
    """Build an instance of a dataclass from what `encode_fields` returned.

    Raises:
        CodecError: a field is unknown, is missing without a default, or has a value of another type. The error names
            the field, never its value.
    """
    try:
        return cast("T", _decode_object(cls, data, 0))
    except _MismatchError as mismatch:
        path = "".join(mismatch.path).removeprefix(".")
        where = f"field {path!r} of {cls.__name__}" if path else cls.__name__
        raise CodecError(f"invalid {where}: {mismatch.problem}", hint="create a new plan") from None


def _decode_object(cls: type[Any], data: Any, depth: int) -> Any:
    _check_object(data)
    _check_depth(depth)
    schema = _find_schema(cls)
    for name in data:
        if name not in schema.codecs:
            raise _MismatchError("unknown field", f".{str(name)[:_MAX_NAME]}")
    arguments = {}
    for name, codec in schema.codecs.items():
        if name in data:
            try:
                arguments[name] = codec.decode(data[name], depth + 1)
            except _MismatchError as mismatch:
                raise mismatch.within(f".{name}") from None
        elif name in schema.required:
            raise _MismatchError("missing field", f".{name}")
    return cls(**arguments)


def _find_schema(cls: type[Any]) -> _Schema:
    schema = _SCHEMAS.get(cls)
    if schema is None:
        schema = _SCHEMAS[cls] = _build_schema(cls)
    return schema


def _build_schema(cls: type[Any]) -> _Schema:
    if not is_dataclass(cls):
        raise TypeError(f"{cls.__name__} is not a dataclass")
    hints = get_type_hints(cls, include_extras=True)
    known = {found.name: found for found in fields(cls) if found.init}
    codecs: dict[str, _Codec] = {}
    secrets: list[tuple[str, str]] = []
    required = set()
    for name, found in known.items():
        is_required = found.default is MISSING and found.default_factory is MISSING
        marks = _find_marks(hints[name])
        if any(isinstance(mark, Transient) for mark in marks):
            if is_required:
                raise TypeError(f"{cls.__name__}.{name} is transient and has no default")
            continue
        for mark in marks:
            if isinstance(mark, SecretConfig):
                is_config = get_args(hints[name])[0] in (Mapping[str, str], Mapping[str, str] | None)
                if found.repr or (mark.hidden and mark.hidden not in known) or not is_config:
                    raise TypeError(f"{cls.__name__}.{name} can't be a secret: it needs repr=False and texts by key")
                secrets.append((name, mark.hidden))
        codecs[name] = _build_codec(hints[name])
        if is_required:
            required.add(name)
    # Masking copies these values anyway, so they need no encoder.
    masked = dict(secrets)
    encoders = {name: None if name in masked else codec.optional or codec.encode for name, codec in codecs.items()}
    return _Schema(codecs, _build_encoder(encoders), frozenset(required), tuple(secrets))


def _build_encoder(encoders: Mapping[str, Callable[[Any], Any] | None]) -> Callable[[Any], dict[str, Any]]:
    """Return a function of one expression that encodes the fields, three times as fast as a loop over them.

    Only field names, which are identifiers, become part of the expression.
    """
    items = [
        f"{name!r}: value.{name}"
        if encode is None
        else f"{name!r}: None if (found := value.{name}) is None else encode_{name}(found)"
        for name, encode in encoders.items()
    ]
    known = {f"encode_{name}": encode for name, encode in encoders.items()}
    built: Callable[[Any], dict[str, Any]] = eval(f"lambda value: {{{', '.join(items)}}}", known)  # noqa: S307
    return built


def _find_marks(hint: Any) -> tuple[Any, ...]:
    return get_args(hint)[1:] if get_origin(hint) is Annotated else ()


def _build_codec(hint: Any) -> _Codec:
    """Return the codec of a type hint.

    Raises:
        TypeError: the codec has no JSON form for this hint.
    """
    for build in (_build_marked, _build_scalar, _build_union, _build_tuple, _build_mapping, _build_class):
        codec = build(hint)
        if codec is not None:
            return codec
    raise TypeError(f"there is no JSON form for {hint!r}")


def _build_marked(hint: Any) -> _Codec | None:
    if get_origin(hint) is not Annotated:
        return None
    for mark in _find_marks(hint):
        if isinstance(mark, Encoded):
            return _Codec(mark.encode, _guard(mark.decode, "its own JSON form"))
    return _build_codec(get_args(hint)[0])


def _guard(decode: Callable[[Any], Any], expected: str) -> Decode:
    """Return a decoder that calls a function of another module and reports a failure as a mismatch of the field."""

    def decode_guarded(value: Any, depth: int) -> Any:
        del depth
        try:
            return decode(value)
        except _WRONG:
            raise _build_mismatch(expected, value) from None

    return decode_guarded


def _build_scalar(hint: Any) -> _Codec | None:
    if hint is Any:
        return _Codec(_encode_json, _copy_json)
    if hint is bytes:
        return _Codec(_encode_bytes, _decode_bytes)
    if hint is float:
        return _Codec(None, _decode_float)
    if hint in (str, int, bool, NoneType):
        return _build_check(frozenset({hint}))
    return None


def _build_check(types: frozenset[type]) -> _Codec:
    expected = " or ".join(_JSON_NAMES[kind] for kind in _JSON_NAMES if kind in types)

    def check(value: Any, depth: int) -> Any:
        del depth
        # Compare the exact type, because in Python a boolean is an integer. A member of a string enum is still a
        # string.
        if type(value) not in types and not (str in types and isinstance(value, str)):
            raise _build_mismatch(expected, value)
        return value

    return _Codec(None, check, types)


def _decode_float(value: Any, depth: int) -> Any:
    del depth
    kind = type(value)
    if (kind is float and math.isfinite(value)) or (kind is int and abs(value) <= _EXACT_INT):
        return value
    raise _build_mismatch("a finite number", value)


def _encode_bytes(value: bytes) -> str:
    return b64encode(value).decode()


def _decode_bytes(value: Any, depth: int) -> bytes:
    del depth
    try:
        decoded = b64decode(value, validate=True)
    except _WRONG:
        decoded = b""
    # The last base64 character has unused bits. Only the canonical encoding is accepted.
    if type(value) is not str or _encode_bytes(decoded) != value:
        raise _build_mismatch("base64", value)
    return decoded


def _encode_json(value: Any) -> Any:
    try:
        return _copy_json(value, 0)
    except _MismatchError as mismatch:
        raise CodecError(f"can't be written as JSON: {mismatch.problem}") from None


def _copy_json(value: Any, depth: int) -> Any:
    """Return a value that is JSON already, with plain objects and arrays."""
    _check_depth(depth)
    if isinstance(value, Mapping):
        if any(type(key) is not str for key in value):
            raise _MismatchError("expected names of type string")
        return {key: _copy_json(one, depth + 1) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_copy_json(one, depth + 1) for one in value]
    if type(value) not in _JSON_NAMES:
        raise _build_mismatch("a JSON value", value)
    return value


def _build_union(hint: Any) -> _Codec | None:
    if get_origin(hint) not in (Union, UnionType):
        return None
    kinds = get_args(hint)
    others = [kind for kind in kinds if kind is not NoneType]
    if len(others) == 1:
        return _build_optional(_build_codec(others[0]))
    if all(kind in (str, int, float, bool) for kind in others):
        return _build_check(frozenset(kinds))
    raise TypeError(f"there is no JSON form for {hint!r}: the type of its values can't be determined")


def _build_optional(inner: _Codec) -> _Codec:
    encode = inner.encode

    def encode_optional(value: Any) -> Any:
        return None if value is None or encode is None else encode(value)

    def decode_optional(value: Any, depth: int) -> Any:
        return None if value is None else inner.decode(value, depth)

    return _Codec(None if encode is None else encode_optional, decode_optional, optional=encode)


def _build_tuple(hint: Any) -> _Codec | None:
    kinds = get_args(hint)
    if get_origin(hint) is not tuple:
        return None
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return _build_sequence(_build_codec(kinds[0]))
    return _build_record(tuple, [_build_codec(kind) for kind in kinds])


def _build_sequence(item: _Codec) -> _Codec:
    encode = item.encode

    def encode_items(values: Any) -> list[Any]:
        return list(values) if encode is None else list(map(encode, values))

    def decode_items(values: Any, depth: int) -> tuple[Any, ...]:
        _check_array(values)
        return tuple(_decode_item(item, value, number, depth) for number, value in enumerate(values))

    return _Codec(list if encode is None else encode_items, decode_items)


def _build_record(build: Callable[[list[Any]], Any], items: list[_Codec]) -> _Codec:
    """Return the codec of a tuple of fixed length: an array with the same number of values."""

    def encode_record(values: Any) -> list[Any]:
        pairs = zip(items, values, strict=True)
        return [value if item.encode is None else item.encode(value) for item, value in pairs]

    def decode_record(values: Any, depth: int) -> Any:
        _check_array(values)
        if len(values) != len(items):
            raise _MismatchError(f"expected an array of {len(items)} values, found {len(values)}")
        return build([_decode_item(items[number], value, number, depth) for number, value in enumerate(values)])

    return _Codec(encode_record, decode_record)


def _decode_item(item: _Codec, value: Any, number: int, depth: int) -> Any:
    try:
        return item.decode(value, depth + 1)
    except _MismatchError as mismatch:
        raise mismatch.within(f"[{number}]") from None


def _build_mapping(hint: Any) -> _Codec | None:
    if get_origin(hint) not in (Mapping, dict):
        return None
    key, value = get_args(hint)
    if key is str:
        return _build_object(_build_codec(value))
    if key is int:
        return _build_object(_build_codec(value), write=str, read=_read_number)
    pairs = _build_sequence(_build_record(tuple, [_build_codec(key), _build_codec(value)]))
    return _Codec(
        lambda found: cast("Callable[[Any], Any]", pairs.encode)(found.items()),
        lambda found, depth: dict(pairs.decode(found, depth)),
    )


def _build_object(
    item: _Codec, *, write: Callable[[Any], str] | None = None, read: Callable[[str], Any] | None = None
) -> _Codec:
    """Return the codec of a mapping whose keys are strings or are written as strings."""
    encode = item.encode

    def encode_object(found: Mapping[Any, Any]) -> dict[str, Any]:
        return {
            key if write is None else write(key): value if encode is None else encode(value)
            for key, value in found.items()
        }

    def decode_object(found: Any, depth: int) -> dict[Any, Any]:
        _check_object(found)
        # Most values are configs. Checking 25 values together is faster than checking them one by one.
        if read is None and item.types.issuperset(map(type, found.values())) and {str}.issuperset(map(type, found)):
            return dict(found)
        decoded = {}
        for key, value in found.items():
            try:
                if type(key) is not str:
                    raise _build_mismatch("a name of type string", key)
                decoded[key if read is None else read(key)] = item.decode(value, depth + 1)
            except _MismatchError as mismatch:
                raise mismatch.within(f"[{str(key)[:_MAX_NAME]!r}]") from None
        return decoded

    return _Codec(dict if encode is None and write is None else encode_object, decode_object)


def _read_number(text: str) -> int:
    number = int(text) if text.removeprefix("-").isdecimal() and len(text) < _MAX_NAME else None
    if number is None or str(number) != text:
        raise _MismatchError("expected a name that is an integer")
    return number


def _build_class(hint: Any) -> _Codec | None:
    if not isinstance(hint, type):
        return None
    if issubclass(hint, StrEnum):
        return _build_enum(hint)
    if is_dataclass(hint):
        return _Codec(_build_exact(hint), lambda value, depth: _decode_object(hint, value, depth))
    if issubclass(hint, tuple) and hasattr(hint, "_make"):
        kinds = get_type_hints(hint, include_extras=True)
        return _build_record(hint._make, [_build_codec(kinds[name]) for name in kinds])
    if hasattr(hint, "to_dict") and hasattr(hint, "from_dict"):
        return _Codec(lambda value: value.to_dict(), _guard(hint.from_dict, f"the JSON form of {hint.__name__}"))
    return None


def _build_exact(cls: type[Any]) -> Callable[[Any], dict[str, Any]]:
    schema: _Schema | None = None

    def encode(value: Any) -> dict[str, Any]:
        nonlocal schema
        # A value of a subclass would be decoded as one of this class.
        if type(value) is not cls:
            raise TypeError(f"expected a {cls.__name__}, found a {type(value).__name__}")
        if schema is None:
            # Not earlier: a class may hold values of its own type.
            schema = _find_schema(cls)
        return _encode_object(schema, value)

    return encode


def _build_enum(cls: type[StrEnum]) -> _Codec:
    members = {str(member): member for member in cls}

    def decode(value: Any, depth: int) -> Any:
        del depth
        if type(value) is not str or value not in members:
            raise _build_mismatch(f"one of {', '.join(members)}", value)
        return members[value]

    return _Codec(str, decode)


def _check_object(value: Any) -> None:
    if type(value) is not dict and not isinstance(value, Mapping):
        raise _build_mismatch("an object", value)


def _check_array(value: Any) -> None:
    if type(value) is not list:
        raise _build_mismatch("an array", value)


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise _MismatchError(f"nested deeper than {MAX_DEPTH} levels")


def _build_mismatch(expected: str, value: Any) -> _MismatchError:
    """Build the mismatch for a value, without the value itself because it may be a secret."""
    return _MismatchError(f"expected {expected}, found {_JSON_NAMES.get(type(value), type(value).__name__)}")
