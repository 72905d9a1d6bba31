"""Text from outside, made harmless for a terminal.

A connector name, a stack trace or a record may hold control sequences that move the cursor, hide
text or make it read backwards. Each such character is shown as its escape instead.
"""

from __future__ import annotations

import re

# Everything a terminal acts upon (C0, DEL, C1), everything that turns the direction of reading,
# the two Unicode line ends, and lone surrogates, which no stream can encode.
_UNSAFE = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_UNSAFE_CHARACTER = re.compile(f"[{_UNSAFE}]")
_UNSAFE_BUT_NEWLINE = re.compile(f"(?!\n)[{_UNSAFE}]")

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escape(text: str, *, multiline: bool = False) -> str:
    r"""The same text with every unsafe character as a visible escape, such as `\x1b` or `\u202e`.

    With `multiline` a newline stays one; without it a newline becomes `\n`, so that a name can't
    fake a second row.
    """
    if text.isprintable():
        return text
    pattern = _UNSAFE_BUT_NEWLINE if multiline else _UNSAFE_CHARACTER
    return pattern.sub(_visible, text)


def escape_json(text: str) -> str:
    r"""Finished JSON with the unsafe characters inside its strings as `\uXXXX`.

    JSON allows DEL, C1 and the direction marks raw; a terminal should not get them. The data that
    a reader gets from the text is the same.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    return _UNSAFE_BUT_NEWLINE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _visible(found: re.Match[str]) -> str:
    character = found[0]
    if character in _NAMED:
        return _NAMED[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
