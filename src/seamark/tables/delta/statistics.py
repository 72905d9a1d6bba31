"""What a commit says of a file's rows, so that readers may pass it over: counts, and the least and the most."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

# Readers compare whole texts: a longer one would have to be cut, and the most made larger for it.
_LONGEST_TEXT = 32


def build_stats(known: pq.FileMetaData, schema: pa.Schema) -> str:
    """The statistics of a file, as Delta's protocol spells them. A column that is not told of is never skipped by."""
    nulls: dict[str, int] = {}
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    flat = {field.name for field in schema if not pa.types.is_nested(field.type)}
    for column in range(known.num_columns):
        name = known.schema.column(column).path
        if name not in flat:
            continue
        found = [known.row_group(group).column(column).statistics for group in range(known.num_row_groups)]
        if not all(one is not None and one.has_null_count for one in found):
            continue
        nulls[name] = sum(one.null_count for one in found)
        whole = [one for one in found if one.null_count < one.num_values + one.null_count]
        if whole and all(one.has_min_max for one in whole):
            least[name], most[name] = _find_least(whole), _find_most(whole)
    stats: Mapping[str, Any] = {
        "numRecords": known.num_rows,
        "minValues": {name: value for name, value in least.items() if value is not None},
        "maxValues": {name: value for name, value in most.items() if value is not None},
        "nullCount": nulls,
    }
    return json.dumps(stats)


def _find_least(groups: Sequence[pq.Statistics]) -> Any:
    try:
        return _spell(min(one.min for one in groups), is_most=False)
    except OverflowError:
        # Python has no moments of other years than 1 to 9999.
        return None


def _find_most(groups: Sequence[pq.Statistics]) -> Any:
    try:
        return _spell(max(one.max for one in groups), is_most=True)
    except OverflowError:
        # The same, also where it is rounded up beyond the last millisecond.
        return None


def _spell(value: Any, *, is_most: bool) -> Any:  # noqa: PLR0911 - one line for each type
    """As JSON; None for what is better left out."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        # Spark takes NaN for the largest of all, and Parquet leaves it out of the most.
        return None if is_most or not math.isfinite(value) else value
    if isinstance(value, datetime):
        return _spell_moment(value, is_most=is_most)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else None
    return None


def _spell_moment(value: datetime, *, is_most: bool) -> str:
    """Delta keeps milliseconds, and cuts the rest off: the most would be less than what is there."""
    moment = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if is_most and moment.microsecond % 1000:
        moment += timedelta(milliseconds=1)
    # Years have four digits here, which strftime does not give everywhere.
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
