"""The file of a standalone worker with some pairs changed."""

from __future__ import annotations

from collections.abc import Mapping

from seamark.offsets.codec.javamap import find_capacity, read_java_map, write_java_map


def change_file(content: bytes | None, changes: Mapping[bytes, bytes | None], *, name: str) -> bytes:
    """The bytes of a file in which these keys have these values; all others stay as they are.

    A key without a value stays in the file, as it does when Connect itself forgets an offset.
    """
    if content is None:
        return write_java_map(changes.items())
    java_map = read_java_map(content, name=name)
    entries = [(key, changes[key] if key is not None and key in changes else value) for key, value in java_map.entries]
    known = {key for key, _ in java_map.entries}
    entries += [(key, value) for key, value in changes.items() if key not in known]
    return write_java_map(entries, capacity=max(java_map.capacity, find_capacity(len(entries))))
