"""The JSON of KIP-199, read to be written into a store: everything about it that could be a mistake is one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from seamark.core.offset import Offset, spell_identity
from seamark.errors import ConfigurationError
from seamark.offsets.codec.codec import decode_key, decode_value, encode_key, encode_value
from seamark.offsets.codec.verdicts import KeyVerdict, ValueVerdict
from seamark.offsets.read.export_file import is_envelope

_SHAPE = 'it should be {"CONNECTOR": [{"partition": {…}, "offset": {…} or null}, …], …}'
_PAIR = frozenset({"partition", "offset"})
_SINK = frozenset({"kafka_topic", "kafka_partition"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """What shall stand in the store, by connector, and what is to be said of the file."""

    offsets: Mapping[str, tuple[Offset, ...]]
    notes: tuple[str, ...] = ()


def read_wanted(text: str, *, name: str) -> Wanted:
    """What a text asks for. Of a partition that stands there several times, the last one counts."""
    try:
        body = json.loads(text, object_pairs_hook=_build_object, parse_constant=_refuse_constant)
    except RecursionError:
        raise _build_error(name, "it is nested too deeply") from None
    except ValueError as error:
        raise _build_error(name, str(error)) from None
    if is_envelope(body):
        raise ConfigurationError(
            f"{name} is an export of seamark, with records and checksums", hint="seamark offsets import takes it"
        )
    if not isinstance(body, dict):
        raise _build_error(name, _SHAPE)
    offsets, notes = {}, []
    for connector, listed in body.items():
        if not isinstance(listed, list):
            raise _build_error(name, f"{connector}: {_SHAPE}")
        found: dict[str, Offset] = {}
        for number, pair in enumerate(listed, start=1):
            one = _read_pair(connector, pair, where=f"{name}: pair {number} of {connector}")
            # The last one shall also be written last.
            found.pop(spell_identity(one.partition), None)
            found[spell_identity(one.partition)] = one
        if len(found) < len(listed):
            notes.append(f"{connector}: {len(listed) - len(found)} pairs are overwritten by later ones in {name}")
        if found:
            offsets[connector] = tuple(found.values())
    return Wanted(offsets, tuple(notes))


def _read_pair(connector: str, pair: Any, *, where: str) -> Offset:
    if not isinstance(pair, dict) or pair.keys() != _PAIR:
        # A pair without an offset would take one away: that has to be written down.
        raise _build_error(where, 'a pair has "partition" and "offset", and nothing else; null takes an offset away')
    partition, offset = pair["partition"], pair["offset"]
    if not isinstance(partition, dict) or not isinstance(offset, dict | None):
        raise _build_error(where, "a partition is a map, an offset is a map or null")
    if partition.keys() >= _SINK:
        raise ConfigurationError(
            f"{where} is that of a sink",
            cause="sinks have their offsets in consumer groups",
            hint="seamark offsets import takes them",
        )
    nested = [key for fields in (partition, offset or {}) for key, value in fields.items() if _is_nested(value)]
    if nested:
        raise _build_error(where, f"Connect takes no lists and maps as the value of {nested[0]!r}")
    key, value = decode_key(encode_key(connector, partition)), decode_value(encode_value(offset))
    if key.verdict is not KeyVerdict.GOOD or value.verdict not in (ValueVerdict.GOOD, ValueVerdict.TOMBSTONE):
        raise _build_error(where, f"a worker could not read it: {key.detail or value.detail or value.verdict}")
    return Offset(partition, offset)


def _is_nested(value: Any) -> bool:
    return isinstance(value, list | dict)


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body = dict(pairs)
    if len(body) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} stands twice in the same map")
    return body


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def _build_error(name: str, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"{name} holds no offsets that can be imported", cause=why, hint="connect-offsets --export writes such a file"
    )
