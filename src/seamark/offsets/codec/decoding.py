"""Whether Connect's own converters can read a record. Nothing is kept of what is in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from seamark.kafka.record import WholeRecord
from seamark.offsets.codec.decoding_json import find_json_fault

_PACKAGE = "org.apache.kafka.connect."
_SIZES = {"Integer": 4, "Long": 8, "Short": 2, "Float": 4, "Double": 8}


class SinkStage(StrEnum):
    """Where in a sink a record fails, in Connect's words."""

    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    TRANSFORMATION = "TRANSFORMATION"
    TASK_PUT = "TASK_PUT"
    UNKNOWN = ""

    @property
    def is_converter(self) -> bool:
        """Whether a converter failed."""
        return self in (SinkStage.KEY_CONVERTER, SinkStage.VALUE_CONVERTER, SinkStage.HEADER_CONVERTER)


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a record can't be read: by which converter, and what it does not like, without the record's own bytes."""

    stage: SinkStage
    converter: str
    reason: str


class DoubtError(Exception):
    """Nobody here can tell whether a converter would take some bytes."""


Find = Callable[[bytes | None], str]
"""What is wrong with some bytes for one converter; "" where nothing is. Raises DoubtError where nobody can tell."""


class Decoder:
    """The converters of one sink."""

    def __init__(self, config: Mapping[str, str], worker: Mapping[str, str]) -> None:
        """`config` is the connector's, `worker` what is known of its workers': theirs where it names none."""
        self._converters = {
            stage: _find_converter(prefix, config, worker)
            for stage, prefix in (
                (SinkStage.KEY_CONVERTER, "key.converter"),
                (SinkStage.VALUE_CONVERTER, "value.converter"),
                (SinkStage.HEADER_CONVERTER, "header.converter"),
            )
        }

    def find_fault(self, record: WholeRecord) -> Fault | None:
        """Why a record can't be read; None where it can. Raises DoubtError where nobody can tell."""
        for stage, data in (
            (SinkStage.KEY_CONVERTER, [record.key]),
            (SinkStage.VALUE_CONVERTER, [record.value]),
            (SinkStage.HEADER_CONVERTER, [value for _, value in record.headers]),
        ):
            name, find = self._converters[stage]
            if find is None and data:
                raise DoubtError(name)
            for found in data:
                if find is not None and (reason := find(found)):
                    return Fault(stage, name, reason)
        return None


def _find_converter(prefix: str, config: Mapping[str, str], worker: Mapping[str, str]) -> tuple[str, Find | None]:
    """The class of a converter and how to tell what it can't read. Its settings are those beside its name."""
    source = config if config.get(prefix) else worker
    name = source.get(prefix) or (f"{_PACKAGE}storage.SimpleHeaderConverter" if prefix.startswith("header") else "")
    settings = {key.removeprefix(f"{prefix}."): value for key, value in source.items() if key.startswith(f"{prefix}.")}
    return name, _build_find(name.removeprefix(_PACKAGE), settings)


def _build_find(short: str, settings: Mapping[str, str]) -> Find | None:
    # A worker takes the short names of its plugins too.
    word = short.rpartition(".")[2].removesuffix("Converter")
    if "." in short and not short.startswith(("json.", "storage.", "converters.")):
        return None
    if word in _SIZES:
        return lambda data: _find_size_fault(data, _SIZES[word])
    if word == "Boolean":
        return _find_boolean_fault
    if word == "Json":
        # A value is JSON with its schema unless somebody says otherwise.
        has_schema = settings.get("schemas.enable", "true").strip().lower() != "false"
        if settings.get("schema.content"):
            return None
        return lambda data: find_json_fault(data, has_schema=has_schema)
    # These make a text of anything, or leave the bytes alone. Headers that are no JSON become texts too.
    return _find_nothing if word in ("String", "ByteArray", "SimpleHeader") else None


def _find_nothing(data: bytes | None) -> str:
    del data
    return ""


def _find_size_fault(data: bytes | None, size: int) -> str:
    return "" if data is None or len(data) == size else f"it has {len(data)} bytes, not {size}"


def _find_boolean_fault(data: bytes | None) -> str:
    return "" if data is None or data in (b"\0", b"\1") else "it is not one byte that is 0 or 1"
