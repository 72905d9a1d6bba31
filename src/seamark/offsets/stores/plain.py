"""The fast way for the many records that have nothing odd: their bytes are JSON already, and need not be read.

A record takes it only where everything about it is sure: plain ASCII without escapes, whole numbers that fit, each
field once, one record for its partition, on the partition of the topic where it belongs. Whatever is not sure goes the
long way, through `grouping`, and means the same there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import NamedTuple

from seamark.kafka.raw_record import RawRecord
from seamark.offsets.codec.codec import decode_key
from seamark.offsets.codec.plain_bytes import FIELD, has_duplicates, match_plain_key, match_plain_map
from seamark.offsets.stores.grouping import Home

_identify = json.JSONEncoder(separators=(",", ":")).encode


class PlainPair(NamedTuple):
    """A partition and its offset, all in JSON as Connect wrote it. `connector` has its quotes."""

    connector: bytes
    partition: bytes
    offset: bytes


def split_plain(records: Iterable[RawRecord], home: Home) -> tuple[list[PlainPair], list[RawRecord]]:
    """The pairs of all that is plain, and the records that must go the long way. Plain tombstones are in neither."""
    alone: dict[bytes, tuple[RawRecord, bytes, bytes] | None] = {}
    rest: list[RawRecord] = []
    for record in records:
        found = match_plain_key(record.key)
        identity = None if found is None else _find_identity(found)
        if found is None or identity is None:
            rest.append(record)
        elif identity in alone:
            rest.append(record)
            rest += _take(alone, identity)
        else:
            alone[identity] = (record, found[1], found[2])
    # What is spelled in another way may speak of the same partition.
    for record in list(rest):
        rest += _take(alone, _identify_decoded(record.key))
    pairs = []
    for entry in alone.values():
        if entry is None:
            continue
        record, connector, partition = entry
        if not _is_plain(record, home):
            rest.append(record)
        elif record.value is not None:
            pairs.append(PlainPair(connector, partition, record.value))
    return pairs, rest


def _is_plain(record: RawRecord, home: Home) -> bool:
    """Whether its value is plain, or none, and it lies where it belongs."""
    value = record.value
    if value is not None and (match_plain_map(value) is None or has_duplicates(value)):
        return False
    belongs = home(record.key or b"")
    return belongs is None or belongs == record.partition or record.partition < 0


def _find_identity(found: re.Match[bytes]) -> bytes | None:
    """The key with its fields in the order of their names; None where a field is there twice."""
    partition = found[2]
    if b',"' not in partition:
        return found[0]
    fields = FIELD.findall(partition)
    fields.sort()
    names = {name for name, _ in fields}
    if len(names) != len(fields):
        return None
    return b"[%s,{%s}]" % (found[1], b",".join(b"%s:%s" % field for field in fields))


def _identify_decoded(raw: bytes | None) -> bytes:
    key = decode_key(raw).key
    if key is None:
        return b""
    # In the order in which `_find_identity` has them: by the names with their quotes.
    fields = sorted(key.partition.items(), key=lambda field: _identify(field[0]))
    return _identify([key.connector, dict(fields)]).encode()


def _take(alone: dict[bytes, tuple[RawRecord, bytes, bytes] | None], identity: bytes) -> list[RawRecord]:
    """Take a partition out of those that stand alone, where it is one of them. Whoever comes next finds its trace."""
    entry = alone.get(identity)
    if entry is None:
        return []
    alone[identity] = None
    return [entry[0]]
