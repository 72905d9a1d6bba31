"""How entries stand in a change's file: each framed by a line with its length and checksum, and readable with `less`.

    entry 0000000123 <SHA-256 of the entry> <CRC-32 of this line so far>⏎
    {"at":…}⏎

The line has a checksum of its own: a changed length must not look like an entry that was not written to its end.
An entry is JSON and holds neither a line break nor a zero byte, so a frame has neither in the wrong place.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass

_MAGIC = b"entry "
_END = b"\n"
_LENGTH_DIGITS = 10
# Magic, length, SHA-256 and CRC-32 in hexadecimal, two spaces between them, the line's end.
HEADER_BYTES = len(_MAGIC) + _LENGTH_DIGITS + 1 + 64 + 1 + 8 + 1
# What a file system gives for blocks that a power cut left unwritten. One changed bit makes one zero byte at most.
_UNWRITTEN = bytes(16)


@dataclass(frozen=True, slots=True)
class Frames:
    """What stands in a file: each whole entry's place and bytes, then `torn_bytes` of one not written to its end."""

    bodies: tuple[tuple[int, bytes], ...]
    size: int
    torn_bytes: bytes = b""


class DamagedFrameError(Exception):
    """A frame is not as it was written. Internal: the reader turns it into an error that names the file."""

    def __init__(self, reason: str, *, number: int, offset: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.number = number
        self.offset = offset


def build_frame(body: bytes) -> bytes:
    """An entry's bytes as they stand in the file."""
    return _build_header(len(body), hashlib.sha256(body).hexdigest().encode()) + body + _END


def split_frames(data: bytes) -> Frames:
    """The entries in a file's bytes; `size` is where the whole ones end."""
    bodies: list[tuple[int, bytes]] = []
    offset = 0
    while offset < len(data):
        rest = memoryview(data)[offset:]
        length = _read_length(rest)
        if length is not None and len(rest) >= (total := HEADER_BYTES + length + len(_END)):
            body = bytes(rest[HEADER_BYTES : total - len(_END)])
            if build_frame(body) == rest[:total]:
                bodies.append((offset, body))
                offset += total
                continue
        if not _is_torn(bytes(rest), length=length):
            reason = "its bytes do not match its checksum" if length is not None else "its first line is damaged"
            raise DamagedFrameError(reason, number=len(bodies), offset=offset)
        break
    return Frames(bodies=tuple(bodies), size=offset, torn_bytes=data[offset:])


def _build_header(length: int, digest: bytes) -> bytes:
    line = _MAGIC + str(length).zfill(_LENGTH_DIGITS).encode() + b" " + digest + b" "
    return line + f"{zlib.crc32(line):08x}".encode() + _END


def _read_length(rest: memoryview) -> int | None:
    """The length in a frame's first line, if the line is whole and exactly as it was written."""
    header = bytes(rest[:HEADER_BYTES])
    digits = header[len(_MAGIC) : len(_MAGIC) + _LENGTH_DIGITS]
    if len(header) < HEADER_BYTES or not digits.isdigit():
        return None
    digest = header[len(_MAGIC) + _LENGTH_DIGITS + 1 :][:64]
    return int(digits) if _build_header(int(digits), digest) == header else None


def _is_torn(rest: bytes, *, length: int | None) -> bool:
    """Whether the bytes from a bad frame to the file's end are one write that did not finish.

    A killed process or a full disk leaves the beginning of a frame; a power cut may leave unwritten blocks in it.
    Anything else was changed after it was written.
    """
    if _has_later_frame(rest):
        return False
    if _UNWRITTEN in rest:
        return True
    if length is not None:
        return len(rest) < HEADER_BYTES + length + len(_END)
    return len(rest) < HEADER_BYTES and _MAGIC.startswith(rest[: len(_MAGIC)])


def _has_later_frame(rest: bytes) -> bool:
    at = rest.find(_END + _MAGIC)
    while at >= 0:
        if _read_length(memoryview(rest)[at + 1 :]) is not None:
            return True
        at = rest.find(_END + _MAGIC, at + 1)
    return False
