"""The same partitioner, as librdkafka has it: ten times as fast, for whoever asks it for a hundred thousand keys."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from seamark.model.key_hash import choose_partition

# A key and its partition of 25 by Java's own client: a library whose function is another one is not used.
_PROOF, _PROOF_PARTITIONS, _PROOF_ANSWER = b'["fs",{"filename":"in.txt"}]', 25, 22


def build_partitioner(partitions: int) -> Callable[[bytes], int]:
    """A function from a key to its partition in a topic with so many of them; see `choose_partition`."""
    native = _find_native()
    if native is None:
        return lambda key: choose_partition(key, partitions=partitions)
    return lambda key: native(None, key, len(key), partitions, None, None)


def _find_native() -> Callable[..., int] | None:
    """`rd_kafka_msg_partitioner_murmur2`, part of librdkafka's public API; None where it can't be had."""
    try:
        from confluent_kafka import cimpl  # noqa: PLC0415

        # The loader finds it in the library that the client was linked with, wherever that lies.
        found = ctypes.PyDLL(cimpl.__file__).rd_kafka_msg_partitioner_murmur2
    except (ImportError, AttributeError, OSError):
        return None
    pointer = ctypes.c_void_p
    found.argtypes = [pointer, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int32, pointer, pointer]
    found.restype = ctypes.c_int32
    answer = found(None, _PROOF, len(_PROOF), _PROOF_PARTITIONS, None, None)
    return found if answer == _PROOF_ANSWER else None
