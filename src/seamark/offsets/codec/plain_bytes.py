"""Bytes whose meaning is sure at a glance: flat JSON in plain ASCII as Connect writes it, no spaces, no escapes."""

from __future__ import annotations

import json
import re
from typing import Any

# Below this no limit of Jackson's can be passed.
_MOST_BYTES = 50_000
_TEXT = rb'"[ !#-\[\]-~]*"'
# No leading zero and no minus zero, and never more than 64 bits.
_WHOLE = rb"(?:0|-?[1-9][0-9]{0,17})"
# Java's way to write a double; Python reads it as the same number, but for a zero below zero.
_NUMBER = rb"(?:0|-?[1-9][0-9]{0,17}|(?:0|-?[1-9][0-9]{0,15})\.[0-9]{1,17}(?:E-?[0-9]{1,2})?)"
_WORDS = rb"|true|false|null"


def _compile_map(number: bytes) -> bytes:
    field = _TEXT + rb":(?:" + _TEXT + rb"|" + number + _WORDS + rb")"
    return rb"\{(?:" + field + rb"(?:," + field + rb")*)?\}"


_KEY = re.compile(rb"\[(" + _TEXT + rb"),(" + _compile_map(_WHOLE) + rb")\]")
_VALUE = re.compile(_compile_map(_NUMBER))
# Of what is plain already: a field, and its name alone.
FIELD = re.compile(rb'("[^"]*"):("[^"]*"|[^,}]+)')
_NAME = re.compile(rb'("[^"]*"):(?:"[^"]*"|[^,}]+)')


_scan_plain = json.JSONDecoder().raw_decode


def read_plain_map(raw: bytes) -> dict[str, Any] | None:
    """The fields of a plain map; None where one is there twice."""
    fields: dict[str, Any] = _scan_plain(raw.decode("ascii"))[0]
    return None if has_duplicates(raw) else fields


def match_plain_key(raw: bytes | None) -> re.Match[bytes] | None:
    """The name with its quotes (1) and the partition (2) of a plain key. A field may still be there twice."""
    return None if raw is None or len(raw) > _MOST_BYTES else _KEY.fullmatch(raw)


def match_plain_map(raw: bytes) -> re.Match[bytes] | None:
    """Whether this is a plain map. A field may still be there twice."""
    return None if len(raw) > _MOST_BYTES else _VALUE.fullmatch(raw)


def has_duplicates(raw: bytes) -> bool:
    """Whether a field of a plain map is there twice."""
    if b',"' not in raw:
        return False
    names = _NAME.findall(raw)
    return len(set(names)) != len(names)
