"""Bytes to text as Jackson sees them: which encoding it finds, and what it lets pass as UTF-8."""

from __future__ import annotations

import codecs
import re

_SURROGATE = re.compile("[\ud800-\udfff]")
_REFUSED = b"\xff"


class NotJsonError(Exception):
    """Jackson would refuse these bytes. It never leaves this package: a verdict is made of it."""


def find_encoding(data: bytes) -> tuple[str, int]:
    """The encoding Jackson reads these bytes in, and how many bytes of a mark it skips."""
    head = data[:4]
    if len(head) == 4:
        for mark, encoding in ((b"\0\0\xfe\xff", "utf-32-be"), (b"\xff\xfe\0\0", "utf-32-le")):
            if head == mark:
                return encoding, 4
        if head in (b"\0\0\xff\xfe", b"\xfe\xff\0\0"):
            raise NotJsonError("byte 0: a byte order nobody uses")
        for short, encoding in ((b"\xfe\xff", "utf-16-be"), (b"\xff\xfe", "utf-16-le"), (b"\xef\xbb\xbf", "utf-8")):
            if head.startswith(short):
                return encoding, len(short)
        if wide := _find_wide(head):
            return wide, 0
    if len(head) >= 2 and 0 in head[:2]:
        return ("utf-16-be" if head[0] == 0 else "utf-16-le"), 0
    return "utf-8", 0


def _find_wide(head: bytes) -> str:
    # Without a mark, the three zeros beside an ASCII character tell four bytes a character.
    if head[:3] == b"\0\0\0":
        return "utf-32-be"
    if head[1:] == b"\0\0\0":
        return "utf-32-le"
    if head[:1] + head[2:] == b"\0\0\0" or head[:2] + head[3:] == b"\0\0\0":
        raise NotJsonError("byte 0: a byte order nobody uses")
    return ""


def recode(data: bytes, encoding: str) -> bytes:
    """Wide text as UTF-8. What can't be read ends it with a byte that no JSON has."""
    if encoding.startswith("utf-16"):
        # Java puts U+FFFD for what it can't read.
        return data.decode(encoding, "replace").encode("utf-8", "surrogatepass")
    try:
        text, tail = data.decode(encoding), b""
    except UnicodeDecodeError as failure:
        text, tail = codecs.decode(data[: failure.start], encoding), _REFUSED
    return text.encode() + tail


def decode_units(data: bytes, *, at: int, is_name: bool) -> str:
    """UTF-8 as leniently as Jackson: overlong forms and code points beyond the last one pass, raw surrogates do not."""
    units: list[int] = []
    index = 0
    while index < len(data):
        lead = data[index]
        if lead < 0x80:
            units.append(lead)
            index += 1
            continue
        length = 2 if lead & 0xE0 == 0xC0 else 3 if lead & 0xF0 == 0xE0 else 4 if lead & 0xF8 == 0xF0 else 0
        tail = data[index + 1 : index + length]
        if length == 0 or len(tail) != length - 1 or any(byte & 0xC0 != 0x80 for byte in tail):
            raise NotJsonError(f"byte {at + index}: not UTF-8")
        code = lead & (0x7F >> length)
        for byte in tail:
            code = code << 6 | byte & 0x3F
        if length == 3 and 0xD800 <= code <= 0xDFFF:
            raise NotJsonError(f"byte {at + index}: half of a surrogate pair")
        units += [code] if length < 4 else _halve(code, is_name=is_name)
        index += length
    return join_units(b"".join(unit.to_bytes(2, "big") for unit in units).decode("utf-16-be", "surrogatepass"))


def _halve(code: int, *, is_name: bool) -> list[int]:
    rest = code - 0x10000
    # Two places in Jackson, and they differ for code points that do not exist.
    high = 0xD800 + (rest >> 10) if is_name else 0xD800 | (rest >> 10)
    return [high & 0xFFFF, 0xDC00 | rest & 0x3FF]


def join_units(text: str) -> str:
    """Put the halves of surrogate pairs together, as Java does by having no other form."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
