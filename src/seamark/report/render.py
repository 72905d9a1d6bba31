"""A view in each of the output formats."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from seamark.report.data import build_document, render_json, render_json_line, render_yaml
from seamark.report.formats import OutputFormat
from seamark.report.listing import View
from seamark.report.safety import escape
from seamark.report.sheet import render_csv
from seamark.report.text import Screen, render_lines
from seamark.report.words import render_time

T = TypeVar("T")


def render_view(view: View[T], form: OutputFormat, screen: Screen | None = None) -> str:
    """The whole answer as text in one format."""
    screen = screen or Screen()
    if form.is_text:
        wide = replace(screen, wide=form is OutputFormat.WIDE)
        return render_lines(view.build_lines(wide), color=screen.color)
    if form is OutputFormat.NAME:
        return "".join(f"{escape(view.listing.name(row))}\n" for row in view.rows)
    if form is OutputFormat.CSV:
        return _render_sheet(view, headers=screen.headers)
    return _render_document(view, form)


def render_tick(view: View[T], form: OutputFormat, *, moment: datetime, screen: Screen, first: bool) -> str:
    """One reading of many, to be appended to those before: `--watch` into a pipe.

    Json is one line a reading, yaml one document a reading, CSV has its header once. Documents
    carry the time of the reading; blocks for people begin with it.
    """
    time = render_time(moment)
    if form.is_text:
        return f"{'' if first else chr(10)}{time}\n{render_view(view, form, screen)}"
    if form in (OutputFormat.JSON, OutputFormat.YAML):
        return _render_document(view, form, time=time)
    return render_view(view, form, screen if first else replace(screen, headers=False))


def _render_document(view: View[T], form: OutputFormat, *, time: str = "") -> str:
    body = dict(view.build_body())
    document = build_document(view.kind or view.listing.kind, {"time": time, **body} if time else body)
    if form is OutputFormat.YAML:
        return f"---\n{render_yaml(document)}" if time else render_yaml(document)
    return render_json_line(document) if time else render_json(document)


def _render_sheet(view: View[T], *, headers: bool) -> str:
    columns = view.listing.columns
    records = ([column.value(row) for column in columns] for row in view.rows)
    return render_csv([column.key for column in columns], records, headers=headers)
