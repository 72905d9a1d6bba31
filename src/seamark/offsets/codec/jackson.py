"""Parse JSON exactly as the Jackson of a Connect worker does (2.21, in Kafka 4.3): same values, same rejections.

It handles the bytes that Python's own parser reads differently: trailing text, leading zeros, other encodings, invalid
UTF-8, numbers out of range. It does not recurse, and it has Jackson's limits.
"""

from __future__ import annotations

import codecs
import re
from typing import Any

from seamark.offsets.codec.verdicts import Anomaly

_SURROGATE = re.compile("[\ud800-\udfff]")
_REFUSED = b"\xff"


class NotJsonError(Exception):
    """Jackson would reject these bytes. Raised and caught inside this package only, which turns it into a verdict."""


def find_encoding(data: bytes) -> tuple[str, int]:
    """Return the encoding in which Jackson reads these bytes, and the length of the byte order mark that it skips."""
    head = data[:4]
    if len(head) == 4:
        for mark, encoding in ((b"\0\0\xfe\xff", "utf-32-be"), (b"\xff\xfe\0\0", "utf-32-le")):
            if head == mark:
                return encoding, 4
        if head in (b"\0\0\xff\xfe", b"\xfe\xff\0\0"):
            raise NotJsonError("byte 0: unsupported byte order")
        for short, encoding in ((b"\xfe\xff", "utf-16-be"), (b"\xff\xfe", "utf-16-le"), (b"\xef\xbb\xbf", "utf-8")):
            if head.startswith(short):
                return encoding, len(short)
        if wide := _find_wide(head):
            return wide, 0
    if len(head) >= 2 and 0 in head[:2]:
        return ("utf-16-be" if head[0] == 0 else "utf-16-le"), 0
    return "utf-8", 0


def _find_wide(head: bytes) -> str:
    # Without a byte order mark, three zero bytes next to an ASCII character indicate UTF-32.
    if head[:3] == b"\0\0\0":
        return "utf-32-be"
    if head[1:] == b"\0\0\0":
        return "utf-32-le"
    if head[:1] + head[2:] == b"\0\0\0" or head[:2] + head[3:] == b"\0\0\0":
        raise NotJsonError("byte 0: unsupported byte order")
    return ""


def recode(data: bytes, encoding: str) -> bytes:
    """Convert UTF-16 or UTF-32 text to UTF-8. Text that can't be read ends with a byte that is invalid in JSON."""
    if encoding.startswith("utf-16"):
        # Java substitutes U+FFFD for what it can't decode.
        return data.decode(encoding, "replace").encode("utf-8", "surrogatepass")
    try:
        text, tail = data.decode(encoding), b""
    except UnicodeDecodeError as failure:
        text, tail = codecs.decode(data[: failure.start], encoding), _REFUSED
    return text.encode() + tail


def decode_units(data: bytes, *, at: int, is_name: bool) -> str:
    """Decode UTF-8 as leniently as Jackson: overlong forms and too large code points pass, not raw surrogates."""
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
            raise NotJsonError(f"byte {at + index}: unpaired surrogate")
        units += [code] if length < 4 else _halve(code, is_name=is_name)
        index += length
    return join_units(b"".join(unit.to_bytes(2, "big") for unit in units).decode("utf-16-be", "surrogatepass"))


def _halve(code: int, *, is_name: bool) -> list[int]:
    rest = code - 0x10000
    # Jackson has two decoders, for names and for values, and they differ for code points that do not exist.
    high = 0xD800 + (rest >> 10) if is_name else 0xD800 | (rest >> 10)
    return [high & 0xFFFF, 0xDC00 | rest & 0x3FF]


def join_units(text: str) -> str:
    """Join the halves of surrogate pairs, as Java's UTF-16 strings do implicitly."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


# Jackson's StreamReadConstraints: nesting depth, digits of a number, length of a name.
_MOST_DEPTH = 1000
_MOST_DIGITS = 1000
_MOST_NAME = 50_000
_SPACE = re.compile(rb"[ \t\r\n]*")
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*')
_NUMBER = re.compile(rb"(-?)0*([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")
_HEX = re.compile(rb"[0-9a-fA-F]{4}")
_ESCAPES = dict(zip(b'"\\/bfnrt', '"\\/\b\f\n\r\t', strict=True))
_WORDS: dict[bytes, bool | None] = {b"true": True, b"false": False, b"null": None}
_WORD_END = re.compile(rb"[0-9A-Za-z_\x7f-\xff]")
_END = -1
_CLOSING: dict[type, int] = {list: 0x5D, dict: 0x7D}


class Scanner:
    """Reads the first JSON value of some bytes and ignores what follows."""

    def __init__(self, raw: bytes) -> None:
        encoding, skipped = find_encoding(raw)
        self.oddities: set[Anomaly] = set()
        self._data = raw[skipped:]
        self._at = 0
        self._is_wide = encoding != "utf-8"
        if self._is_wide:
            self._data = recode(self._data, encoding)
        if self._is_wide or skipped:
            self.oddities.add(Anomaly.ENCODING)

    def read(self) -> Any:
        """Return the value, or None if there is none. Raises NotJsonError if Jackson would reject it."""
        if self._peek() == _END:
            return None
        value = self._read_value()
        if self._peek() != _END:
            self.oddities.add(Anomaly.TRAILING)
        return value

    def _read_value(self) -> Any:
        opened: list[Any] = []
        names: list[str] = []
        while True:
            byte = self._peek()
            if byte in (0x5B, 0x7B):
                container: Any = [] if byte == 0x5B else {}
                self._open(opened, container)
                if self._peek() != _CLOSING[type(container)]:
                    names.append(self._read_name() if isinstance(container, dict) else "")
                    continue
                self._at += 1
                value = opened.pop()
            else:
                value = self._read_scalar(byte, is_root=not opened)
            value = self._place(value, opened, names)
            if not opened:
                return value

    def _open(self, opened: list[Any], container: Any) -> None:
        opened.append(container)
        if len(opened) > _MOST_DEPTH:
            raise self._refuse(f"nested deeper than {_MOST_DEPTH}")
        self._at += 1

    def _place(self, value: Any, opened: list[Any], names: list[str]) -> Any:
        """Add a value to the innermost open container, and close the containers that end after it."""
        while opened:
            container = opened[-1]
            if isinstance(container, dict):
                if names[-1] in container:
                    self.oddities.add(Anomaly.DUPLICATE)
                container[names[-1]] = value
            else:
                container.append(value)
            byte = self._peek()
            if byte == 0x2C:
                self._at += 1
                if isinstance(container, dict):
                    names[-1] = self._read_name()
                return value
            if byte != _CLOSING[type(container)]:
                raise self._refuse("unexpected end" if byte == _END else "expected a comma or the end")
            self._at += 1
            value = opened.pop()
            names.pop()
        return value

    def _peek(self) -> int:
        self._at = _SPACE.match(self._data, self._at).end()  # type: ignore[union-attr]
        return self._data[self._at] if self._at < len(self._data) else _END

    def _refuse(self, why: str) -> NotJsonError:
        return NotJsonError(f"byte {self._at}: {why}")

    def _read_name(self) -> str:
        if self._peek() != 0x22:
            raise self._refuse("expected a field name")
        begin = self._at
        name = self._read_text(is_name=True)
        if self._at - begin - 2 > _MOST_NAME:
            raise self._refuse(f"field name longer than {_MOST_NAME}")
        if self._peek() != 0x3A:
            raise self._refuse("expected a colon")
        self._at += 1
        return name

    def _read_scalar(self, byte: int, *, is_root: bool) -> Any:
        if byte == 0x22:
            return self._read_text(is_name=False)
        if byte != _END and byte in b"-0123456789":
            return self._read_number(is_root=is_root)
        for word, value in _WORDS.items():
            if self._data.startswith(word, self._at):
                self._at += len(word)
                if _WORD_END.match(self._data, self._at):
                    raise self._refuse("invalid JSON token")
                return value
        raise self._refuse("unexpected end" if byte == _END else "expected a value")

    def _read_text(self, *, is_name: bool) -> str:
        pieces: list[str] = []
        self._at += 1
        while True:
            end = _PLAIN.match(self._data, self._at).end()  # type: ignore[union-attr]
            pieces.append(self._decode(self._data[self._at : end], is_name=is_name))
            self._at = end
            byte = self._data[end] if end < len(self._data) else _END
            self._at += 1
            if byte == 0x22:
                return join_units("".join(pieces))
            if byte != 0x5C:
                self._at -= 1
                raise self._refuse("unterminated string" if byte == _END else "control character in a string")
            pieces.append(self._read_escape())
            if is_name and not self._is_wide and "\ud800" <= pieces[-1] <= "\udfff":
                pieces[-1] += self._read_other_half(pieces[-1])

    def _decode(self, piece: bytes, *, is_name: bool) -> str:
        try:
            return piece.decode()
        except UnicodeDecodeError:
            text = decode_units(piece, at=self._at, is_name=is_name)
            self.oddities.add(Anomaly.ENCODING)
            return text

    def _read_escape(self) -> str:
        byte = self._data[self._at] if self._at < len(self._data) else _END
        if byte in _ESCAPES:
            self._at += 1
            return _ESCAPES[byte]
        found = _HEX.match(self._data, self._at + 1) if byte == 0x75 else None
        if found is None:
            raise self._refuse("invalid JSON escape")
        self._at = found.end()
        return chr(int(found[0], 16))

    def _read_other_half(self, half: str) -> str:
        # A string may contain half of a surrogate pair; the name of a field may not.
        if half < "\udc00" and self._data.startswith(b"\\u", self._at):
            self._at += 1
            other = self._read_escape()
            if "\udc00" <= other <= "\udfff":
                return other
        raise self._refuse("unpaired surrogate in a field name")

    def _read_number(self, *, is_root: bool) -> int | float:
        found = _NUMBER.match(self._data, self._at)
        if found is None:
            raise self._refuse("expected digits")
        sign, whole, part, exponent = found.groups()
        if len(whole) + len(part or b"") + len((exponent or b"").lstrip(b"+-")) > _MOST_DIGITS:
            raise self._refuse(f"number with more than {_MOST_DIGITS} digits")
        self._at = found.end()
        if is_root and self._at < len(self._data) and self._data[self._at] not in b" \t\r\n":
            raise self._refuse("expected a space after a number")
        if part is None and exponent is None:
            return self._wrap(int(sign + whole))
        power = int(exponent or 0)
        # A BigDecimal stores its exponent in 32 bits.
        if not (-(2**31) <= power < 2**31 and -(2**31) <= len(part or b"") - power < 2**31):
            raise self._refuse("exponent beyond 32 bits")
        # A BigDecimal has no negative zero, but a negative number that is too small for a double still becomes one.
        is_zero = not (whole + (part or b"")).strip(b"0")
        return 0.0 if is_zero else float(found[0])

    def _wrap(self, number: int) -> int:
        wrapped = (number + 2**63) % 2**64 - 2**63
        if wrapped != number:
            self.oddities.add(Anomaly.WRAPPED)
        return wrapped
