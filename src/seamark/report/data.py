"""Documents for programs: json on many lines or on one, and yaml.

The yaml is written here rather than by a library: two kinds of scalar are enough, every doubtful
text is quoted as in json, and 10,000 connectors take 0.5 s, not 13 s.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from math import isfinite
from typing import Any

from seamark.report.text import escape, escape_json

API_VERSION = "seamark/v1"

_PLAIN_TEXT = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
# Words that some reader of yaml takes for something else than text.
_RESERVED = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def build_document(kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The body with the two fields that say what it is."""
    return {"apiVersion": API_VERSION, "kind": kind, **body}


def render_json(value: Any) -> str:
    """Indented json, ended by a newline."""
    return f"{_dump(value, indent=2)}\n"


def render_json_line(value: Any) -> str:
    """Json on one line, as NDJSON wants it, ended by a newline."""
    return f"{_dump(value)}\n"


def render_compact(value: Any) -> str:
    """Json without a blank or a newline, for one cell."""
    return _dump(value, separators=(",", ":"))


def render_yaml(value: Any) -> str:
    """Yaml 1.2 in blocks, ended by a newline."""
    if isinstance(value, Mapping | list | tuple) and value:
        return "".join(f"{text}\n" for text in _yaml_lines(value))
    return f"{_yaml_scalar(value)}\n"


def _dump(value: Any, **options: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, **options)
    except ValueError:
        # Python reads NaN from a careless server; json has no such number.
        text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, **options)
    return escape_json(text)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _yaml_lines(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            name = _yaml_scalar(str(key))
            if _is_block(item):
                yield f"{name}:"
                yield from (f"  {text}" for text in _yaml_lines(item))
            else:
                yield f"{name}: {_yaml_scalar(item)}"
        return
    for item in value:
        if _is_block(item):
            first, *rest = _yaml_lines(item)
            yield f"- {first}"
            yield from (f"  {text}" for text in rest)
        else:
            yield f"- {_yaml_scalar(item)}"


def _is_block(value: Any) -> bool:
    return isinstance(value, Mapping | list | tuple) and bool(value)


def _yaml_scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN_TEXT.fullmatch(value) and value.lower() not in _RESERVED:
        return value
    return _dump(value)


class OutputFormat(StrEnum):
    """What `-o` takes."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    CSV = "csv"

    @property
    def is_text(self) -> bool:
        """Whether a person reads it rather than a program."""
        return self in (OutputFormat.TABLE, OutputFormat.WIDE)


# What makes a spreadsheet compute a cell; the last four are the full-width forms, which some do too.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")  # noqa: RUF001


def render_csv(fields: Sequence[str], records: Iterable[Sequence[Any]], *, headers: bool = True) -> str:
    """The records as CSV, one line each.

    A text that starts like a formula gets a leading `'`. Control characters are shown as escapes,
    also newlines, so that one line is one record. Numbers are written as they are.
    """
    return "".join(stream_csv(fields, records, headers=headers))


def stream_csv(fields: Sequence[str], records: Iterable[Sequence[Any]], *, headers: bool = True) -> Iterator[str]:
    """The same line by line."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if headers:
        writer.writerow(fields)
    for number, record in enumerate(records, 1):
        writer.writerow([build_cell(value) for value in record])
        if not number % _LINES_AT_ONCE:
            yield out.getvalue()
            out.seek(0)
            out.truncate()
    yield out.getvalue()


# Few enough to be small, enough that a part costs nothing beside its lines.
_LINES_AT_ONCE = 1000
# `json.dumps` builds an encoder for each call, which takes longer than to encode a small item.
_encode_item = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def _dump_item(item: Mapping[str, Any]) -> str:
    try:
        return escape_json(_encode_item(item))
    except ValueError:
        return _dump(item)


def stream_document(
    head: Mapping[str, Any], items: Iterable[Mapping[str, Any]], rest: Mapping[str, Any], *, form: OutputFormat
) -> Iterator[str]:
    """The document `head`, `items`, `rest`, one item at a time: each is one line of json, or a block of yaml."""
    if form is OutputFormat.YAML:
        yield f"{render_yaml(head)}items:"
        separator = "\n"
        for item in items:
            yield separator + "".join(f"  {text}\n" for text in _yaml_lines([item]))
            separator = ""
        yield (" []\n" if separator else "") + (render_yaml(rest) if rest else "")
        return
    yield f'{render_json(head)[:-3]},\n  "items": ['
    separator = "\n    "
    for item in items:
        yield separator + _dump_item(item)
        separator = ",\n    "
    yield "]" if separator == "\n    " else "\n  ]"
    yield f",\n{render_json(rest)[2:]}" if rest else "\n}\n"


def build_cell(value: Any) -> str:
    """One value as a cell: lists and maps as json, None as nothing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    text = value if isinstance(value, str) else render_compact(value)
    guard = "'" if text.startswith(_FORMULA_STARTS) else ""
    return guard + escape(text)
