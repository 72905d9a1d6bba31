"""Lines of styled spans: what a person sees, before it is known where.

Views build lines from any text. `render_lines` is the one place that escapes and colours them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

# A connector name, a stack trace or a record may hold control sequences that move the cursor, hide text or make it
# read backwards. Each such character is shown as its escape instead.

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


class Style(StrEnum):
    """What a span means to the reader; the value is its SGR code. Colour never stands alone."""

    PLAIN = ""
    STRONG = "1"
    MUTED = "2"
    GOOD = "32"
    WARN = "33"
    BAD = "31"


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of one line. Its text may come from anywhere: it is escaped when rendered."""

    text: str
    style: Style = Style.PLAIN


Line = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Screen:
    """Where lines will be shown.

    `width` is None where nothing may be cut: a pipe or a file. `headers` says whether tables have
    a title row, `wide` whether they show every column.
    """

    width: int | None = None
    color: bool = False
    headers: bool = True
    wide: bool = False


def line(*parts: str | Span) -> Line:
    """A line from plain text and spans."""
    return tuple(part if isinstance(part, Span) else Span(part) for part in parts)


def render_lines(lines: Iterable[Line], *, color: bool = False) -> str:
    """The lines as text, each ended by a newline, every span escaped."""
    return "".join(f"{_render_line(spans, color=color)}\n" for spans in lines)


def _render_line(spans: Line, *, color: bool) -> str:
    last = len(spans) - 1
    # Padding of the last cell would be invisible, but copied along.
    texts = [escape(span.text).rstrip() if index == last else escape(span.text) for index, span in enumerate(spans)]
    if not color:
        return "".join(texts)
    return "".join(
        f"\x1b[{span.style.value}m{text}\x1b[0m" if span.style and text else text
        for span, text in zip(spans, texts, strict=True)
    )
