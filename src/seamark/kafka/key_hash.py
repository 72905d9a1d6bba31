"""The numbers that producers make of a key to choose its partition."""

from __future__ import annotations

import struct
import zlib

_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_MASK = 0xFFFFFFFF


def hash_murmur2(data: bytes) -> int:
    """Kafka's murmur2 with 32 bits, with a sign as Java has it."""
    length = len(data)
    whole = length & ~3
    code = _SEED ^ length
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        mixed = word * _FACTOR & _MASK
        code = (code * _FACTOR & _MASK) ^ ((mixed ^ mixed >> 24) * _FACTOR & _MASK)
    if whole < length:
        code = (code ^ int.from_bytes(data[whole:], "little")) * _FACTOR & _MASK
    code = (code ^ code >> 13) * _FACTOR & _MASK
    code ^= code >> 15
    return code - (1 << 32) if code >> 31 else code


def hash_crc32(data: bytes) -> int:
    """The number that librdkafka's own partitioners make of a key: plain CRC-32, without a sign."""
    return zlib.crc32(data)


def choose_partition(key: bytes, *, partitions: int) -> int:
    """The partition of a key in a topic with so many of them.

    It holds for a Java producer with its default partitioner, which is what Connect writes offsets with. A worker or a
    connector may have been given another one. A record without a key goes anywhere.
    """
    # A mask, not abs(): they differ for every negative hash.
    return (hash_murmur2(key) & 0x7FFFFFFF) % partitions
