"""CSV that a spreadsheet opens as text, never as a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from seamark.report.data import render_compact
from seamark.report.safety import escape

# What makes a spreadsheet compute a cell; the last four are the full-width forms, which some do too.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")  # noqa: RUF001


def render_csv(fields: Sequence[str], records: Iterable[Sequence[Any]], *, headers: bool = True) -> str:
    """The records as CSV, one line each.

    A text that starts like a formula gets a leading `'`. Control characters are shown as escapes,
    also newlines, so that one line is one record. Numbers are written as they are.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if headers:
        writer.writerow(fields)
    writer.writerows([build_cell(value) for value in record] for record in records)
    return out.getvalue()


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
