"""A listing described once, shown in every format.

A new noun is a `Listing` with a few columns:

    LISTING = Listing(kind="WorkerList", noun="worker", name=lambda worker: worker.url, columns=(
        Column("url", "URL", lambda worker: worker.url),
        Column("version", "VERSION", lambda worker: worker.version, wide=True),
    ))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from html import escape as escape_html
from typing import Any, Generic, TypeVar

from seamark.report.data import (
    OutputFormat,
    build_cell,
    build_document,
    render_csv,
    render_json,
    render_json_line,
    render_json_value,
    render_yaml,
    stream_csv,
    stream_json,
    stream_yaml,
)
from seamark.report.table import Cell, build_table, stream_table
from seamark.report.text import Line, Screen, Span, Style, escape, render_lines
from seamark.report.words import render_number, render_time

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One column of a listing.

    `value` is what json, yaml and csv hold under `key`. `text` is what a person reads, `long` what
    `-o wide` shows instead of it; by default both are the value, whole numbers with commas except
    where `is_id`: broker 1001 is not a count. A column without a title is for programs only; one
    with `wide` is in tables only with `-o wide`.

    `json_text` and `cell_text` are the finished texts of a value for json and csv, where copying them is cheaper than
    encoding the value. Only views that are large use them.
    """

    key: str
    title: str
    value: Callable[[T], Any]
    text: Callable[[T], str] | None = None
    long: Callable[[T], str] | None = None
    style: Callable[[T], Style] | None = None
    wide: bool = False
    right: bool = False
    is_id: bool = False
    json_text: Callable[[T], str] | None = None
    cell_text: Callable[[T], str] | None = None

    def choose_json(self) -> Callable[[T], str]:
        """What writes the value as json."""
        return self.json_text or (lambda row: render_json_value(self.value(row)))

    def choose_cell(self) -> Callable[[T], str]:
        """What writes the value as a cell of csv."""
        return self.cell_text or (lambda row: build_cell(self.value(row)))

    def choose_text(self, *, wide: bool) -> Callable[[T], str]:
        """What writes the value for a person."""
        text = (self.long if wide else None) or self.text
        return text or (lambda row: _plain(self.value(row), is_id=self.is_id))


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """How things of one kind are listed. `name` is what `-o name` prints: what commands take."""

    kind: str
    noun: str
    name: Callable[[T], str]
    columns: tuple[Column[T], ...]

    def build_items(self, rows: Sequence[T]) -> list[dict[str, Any]]:
        """The rows for json and yaml."""
        return [{column.key: column.value(row) for column in self.columns} for row in rows]

    def find_columns(self, screen: Screen) -> list[Column[T]]:
        """The columns of the table."""
        return [column for column in self.columns if column.title and (screen.wide or not column.wide)]

    def build_lines(self, rows: Sequence[T], screen: Screen, *, indent: str = "") -> list[Line]:
        """The rows as a table; nothing at all where there are none."""
        if not rows:
            return []
        columns = self.find_columns(screen)
        return build_table(
            [Cell(column.title, Style.STRONG, right=column.right) for column in columns],
            [[_build_cell(column, row, wide=screen.wide) for column in columns] for row in rows],
            screen=screen,
            indent=indent,
        )


@dataclass(frozen=True, slots=True)
class View(Generic[T]):
    """One answer, ready for every format.

    `rows` feed csv and names, and everything else where nothing more is given: `body` is the json
    document beside `apiVersion` and `kind`, `lines` what a person sees.

    The rows of a view that `is_large` are shown in their order, a part at a time. Its `body` is the document without
    the items, its `lines` follow the table, and its columns have no styles.
    """

    listing: Listing[T]
    rows: Sequence[T]
    kind: str = ""
    body: Callable[[], Mapping[str, Any]] | None = None
    lines: Callable[[Screen], list[Line]] | None = None
    empty: str = ""
    is_large: bool = False

    def build_body(self) -> Mapping[str, Any]:
        """The document for programs, without its two head fields."""
        return self.body() if self.body else {"items": self.listing.build_items(self.rows)}

    def build_lines(self, screen: Screen) -> list[Line]:
        """What a person sees."""
        return self.lines(screen) if self.lines else self.listing.build_lines(self.rows, screen)


def _build_cell(column: Column[T], row: T, *, wide: bool) -> Cell:
    shown = column.choose_text(wide=wide)(row)
    return Cell(shown, column.style(row) if column.style else Style.PLAIN, right=column.right)


def _plain(value: Any, *, is_id: bool) -> str:
    # An empty cell would make columns hard to count for awk and for the eye.
    if value is None or value == "":
        return "-"
    is_count = isinstance(value, int) and not isinstance(value, bool) and not is_id
    return render_number(value) if is_count else str(value)


# Each can be read on white and on a dark page (contrast above 3:1 on both); the words say the same without them.
_STYLES = {
    Style.STRONG: "font-weight:bold",
    Style.MUTED: "opacity:0.75",
    Style.GOOD: "color:#2a8f4f",
    Style.WARN: "color:#b07a00",
    Style.BAD: "color:#d9453d",
}
_BLOCK = "font-family:monospace;white-space:pre-wrap;line-height:1.35;color:inherit;background:transparent;margin:0"


def render_html(view: View[Any]) -> str:
    """The whole view as one block. A line break stands after each line, so that it can be copied as text."""
    lines = "\n".join(_render_line(spans) for spans in view.build_lines(Screen()))
    return f'<pre style="{_BLOCK}">{lines}</pre>'


def _render_line(spans: Line) -> str:
    return "".join(_render_span(span) for span in spans)


def _render_span(span: Span) -> str:
    # Control characters first: a name must play no tricks with the direction of the text either.
    text = escape_html(escape(span.text))
    style = _STYLES.get(span.style)
    return f'<span style="{style}">{text}</span>' if style and text else text


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


def stream_view(view: View[T], form: OutputFormat, screen: Screen | None = None) -> Iterator[str]:
    """Yield the text of a view that `is_large` in parts, or the whole text of another one."""
    screen = screen or Screen()
    listing = view.listing
    if not view.is_large:
        yield render_view(view, form, screen)
    elif form.is_text:
        yield from _stream_text(view, replace(screen, wide=form is OutputFormat.WIDE))
    elif form is OutputFormat.NAME:
        yield from (f"{escape(listing.name(row))}\n" for row in view.rows)
    elif form is OutputFormat.CSV:
        fields = [column.key for column in listing.columns]
        cells = [column.choose_cell() for column in listing.columns]
        records = ([write(row) for write in cells] for row in view.rows)
        yield from stream_csv(fields, records, headers=screen.headers)
    else:
        head, rest = build_document(view.kind or listing.kind, {}), view.body() if view.body else {}
        if form is OutputFormat.YAML:
            yield from stream_yaml(head, (listing.build_items([row])[0] for row in view.rows), rest)
            return
        # One template: to join the fields of an item takes longer than to encode them.
        fields = [render_json_value(column.key).replace("%", "%%") for column in listing.columns]
        template = f"{{{', '.join(f'{field}: %s' for field in fields)}}}"
        texts = [column.choose_json() for column in listing.columns]
        yield from stream_json(head, (template % tuple([write(row) for write in texts]) for row in view.rows), rest)


def _stream_text(view: View[T], screen: Screen) -> Iterator[str]:
    columns = view.listing.find_columns(screen)
    titles = [Cell(column.title, Style.STRONG, right=column.right) for column in columns]
    texts = [column.choose_text(wide=screen.wide) for column in columns]
    yield from stream_table(titles, ([write(row) for write in texts] for row in view.rows), screen=screen)
    yield render_lines(view.lines(screen) if view.lines else [], color=screen.color)


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
