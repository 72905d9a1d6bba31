"""Java properties files of the operator: read with a limit, and with errors that name them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from seamark.context.files import read_limited
from seamark.context.layer import Origin
from seamark.errors import ConfigurationError

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX_DIGITS = re.compile(r"[0-9a-fA-F]{4}")
# Only these three end a line for Java; str.splitlines would also cut at U+2028 and others.
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Property:
    """One key with its value, the line it starts on and the last one that belongs to it."""

    key: str
    value: str = field(repr=False)
    line: int = 0
    last_line: int = 0


class MalformedEscapeError(ValueError):
    r"""A `\u` that four hexadecimal digits do not follow. Java refuses such a file too."""

    def __init__(self, line: int) -> None:
        super().__init__(f"malformed \\uXXXX escape in line {line}")
        self.line = line


def parse_properties(text: str) -> tuple[Property, ...]:
    """Every key of the text, in order. A key that stands twice comes twice; the last one counts."""
    return tuple(_split_property(logical, line, last) for line, last, logical in _read_logical_lines(text))


def _read_logical_lines(text: str) -> Iterator[tuple[int, int, str]]:
    """Join continued lines; leave out comments and blank lines. The numbers are those of the first and the last."""
    logical, start, number, continued = "", 0, 0, False
    for number, raw in enumerate(_LINE_END.split(text), start=1):
        line = raw.lstrip(_BLANKS)
        if not logical:
            # Java looks for comments as long as it has read nothing, also after a lone backslash.
            if line[:1] in {"#", "!"} or (not line and not continued):
                continued = False
                continue
            start = number
        logical += line
        continued = _ends_with_escape(line)
        if continued:
            logical = logical[:-1]
        elif logical:
            yield start, number, logical
            logical = ""
    if logical:
        yield start, number, logical


def _ends_with_escape(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split_property(logical: str, line: int, last_line: int) -> Property:
    end = 0
    while end < len(logical) and logical[end] not in "=:" + _BLANKS:
        end += 2 if logical[end] == "\\" else 1
    rest = logical[end:].lstrip(_BLANKS)
    if rest[:1] in {"=", ":"}:
        rest = rest[1:].lstrip(_BLANKS)
    return Property(_unescape(logical[:end], line), _unescape(rest, line), line, last_line)


def _unescape(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    units: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        if char != "\\" or position + 1 == len(text):
            units.append(char)
            position += 1
            continue
        escaped = text[position + 1]
        position += 2
        if escaped != "u":
            units.append(_ESCAPES.get(escaped, escaped))
            continue
        digits = text[position : position + 4]
        if not _HEX_DIGITS.fullmatch(digits):
            raise MalformedEscapeError(line)
        units.append(chr(int(digits, 16)))
        position += 4
    return _join_surrogates("".join(units))


def _join_surrogates(text: str) -> str:
    """Java writes a character beyond U+FFFF as two escapes; Python wants it as one."""
    if not any("\ud800" <= char <= "\udfff" for char in text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


# Worker files are a few kilobytes; one with inline certificates stays far below a mebibyte.
MAX_BYTES = 1 << 20


def read_properties(path: Path, *, origin: Origin) -> dict[str, Property]:
    """The keys of a file. `origin` names the file in errors."""
    data = read_limited(path, limit=MAX_BYTES, place=str(origin))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        # What Java's own loader assumes. Every byte has a meaning there, so this can't fail.
        text = data.decode("latin-1")
    malformed = None
    try:
        return {found.key: found for found in parse_properties(text)}
    except MalformedEscapeError as error:
        malformed = error.line
    raise ConfigurationError(
        f"{origin.place} is not a Java properties file",
        cause=f"{origin.place}:{malformed}: \\u must be followed by four hexadecimal digits",
        hint=f"correct line {malformed}; a backslash itself is written \\\\",
        context={"file": origin.place},
    )
