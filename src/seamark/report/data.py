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
from itertools import islice
from json.encoder import encode_basestring
from math import isfinite
from typing import Any, TypeVar

from seamark.report.text import escape, escape_json

_T = TypeVar("_T")

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
    cells = ([build_cell(value) for value in record] for record in records)
    return "".join(stream_csv(fields, cells, headers=headers))


def stream_csv(fields: Sequence[str], records: Iterable[Sequence[str]], *, headers: bool = True) -> Iterator[str]:
    """The same in parts, from records whose cells are finished."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if headers:
        writer.writerow(fields)
    for part in split_rows(records):
        writer.writerows(part)
        yield out.getvalue()
        out.seek(0)
        out.truncate()
    yield out.getvalue()


# Few enough to be small, enough that a part costs nothing beside its lines.
_LINES_AT_ONCE = 1000


def split_rows(rows: Iterable[_T]) -> Iterator[list[_T]]:
    """The rows in parts, of which only one exists at a time."""
    iterator = iter(rows)
    while part := list(islice(iterator, _LINES_AT_ONCE)):
        yield part


# `json.dumps` builds an encoder for each call, which takes longer than to encode a small value.
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def render_json_value(value: Any) -> str:
    """One value as json, on one line and without a newline."""
    if value is None:
        return "null"
    try:
        return escape_json(encode_basestring(value) if type(value) is str else _encode(value))
    except ValueError:
        return _dump(value)


def space_json(text: str) -> str:
    """A flat object as Connect writes it, plain ASCII without blanks or escapes, as `render_json_value` has it.

    Text is copied rather than decoded and encoded again, which takes eight times as long. A decimal is not: Java writes
    `1.0E10`. Nor is a text in which a string may begin with a colon or end with a comma.
    """
    if any(part in text for part in _DOUBTFUL) or ("." in text and _DECIMAL.search(text)):
        return _encode(json.loads(text))
    return text.replace('":', '": ').replace(',"', ', "')


_DOUBTFUL = (':":', '{":', ',":', ',",', ',"}')
_DECIMAL = re.compile(r'":-?[0-9]+\.')


def stream_json(head: Mapping[str, Any], items: Iterable[str], rest: Mapping[str, Any]) -> Iterator[str]:
    """The document `head`, `items`, `rest` in parts. Each item is finished json, and one line."""
    yield f'{render_json(head)[:-3]},\n  "items": ['
    separator = "\n    "
    for part in split_rows(items):
        yield separator + ",\n    ".join(part)
        separator = ",\n    "
    yield "]" if separator == "\n    " else "\n  ]"
    yield f",\n{render_json(rest)[2:]}" if rest else "\n}\n"


def stream_yaml(head: Mapping[str, Any], items: Iterable[Mapping[str, Any]], rest: Mapping[str, Any]) -> Iterator[str]:
    """The same as blocks of yaml."""
    yield f"{render_yaml(head)}items:"
    separator = "\n"
    for item in items:
        yield separator + "".join(f"  {text}\n" for text in _yaml_lines([item]))
        separator = ""
    yield (" []\n" if separator else "") + (render_yaml(rest) if rest else "")


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
