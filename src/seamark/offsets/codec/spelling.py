"""JSON as Connect's own converter writes it, byte for byte."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping

from seamark.errors import UsageError
from seamark.offsets.codec.java_double import spell_double

# What a worker of Kafka 4 needs at least. Another Java matters for a double only.
DEFAULT_JAVA = 17

# What a Java map of an offset may hold. Bytes become a text in base64 and stay one when they are read.
FieldValue = str | int | float | bool | bytes | None

_TO_ESCAPE = re.compile('["\\\\\x00-\x1f\ud800-\udfff\U00010000-\U0010ffff]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_LEAST, _MOST = -(2**63), 2**63 - 1


def spell_key(connector: str, partition: Mapping[str, FieldValue] | None, *, java: int) -> bytes:
    """The key of an offset: a list of the connector's name and the partition."""
    fields = "null" if partition is None else spell_map(partition, java=java)
    return f"[{spell_text(connector)},{fields}]".encode()


def spell_map(fields: Mapping[str, FieldValue], *, java: int) -> str:
    """A map as a JSON object: its fields in its order, without spaces."""
    return "{" + ",".join(f"{spell_text(name)}:{_spell_field(name, fields[name], java=java)}" for name in fields) + "}"


def spell_text(text: str) -> str:
    """A text as a JSON string. Everything is left as it is that Jackson leaves."""
    if not isinstance(text, str):
        raise UsageError(f"{text!r} is no text", cause="Connect takes texts only as the names of fields")
    return f'"{_TO_ESCAPE.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if character in _SHORT:
        return _SHORT[character]
    # Jackson writes each half of a surrogate pair on its own.
    units = character.encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _spell_field(name: str, value: FieldValue, *, java: int) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return spell_text(value)
    if isinstance(value, bytes):
        return f'"{base64.b64encode(value).decode()}"'
    if isinstance(value, float):
        text = spell_double(value, java=java)
        # JSON has no word for them: Jackson makes a text of each.
        return text if math.isfinite(value) else f'"{text}"'
    # The type says so, but maps come from files and answers.
    is_number = isinstance(value, int)
    if is_number and _LEAST <= value <= _MOST:
        return str(value)
    raise UsageError(
        f"the field {name!r} can't be part of an offset",
        cause="it is a number beyond 64 bits" if is_number else f"it is a {type(value).__name__}",
        hint="Connect takes texts, numbers, true, false and null, and nothing inside of each other",
    )
