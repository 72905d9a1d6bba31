"""Cells in columns, cut to a terminal's width where there is one.

Not by a library: 10,000 connectors take about 1 s here and took 9 s in rich, which measures and
wraps every cell several times. Rich is asked for the width of characters beyond ASCII only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

from seamark.report.data import split_rows
from seamark.report.text import Line, Screen, Span, Style, escape, render_lines

_BARS = "▁▂▃▄▅▆▇█"


def render_sparkline(values: Sequence[float | None], *, width: int | None = None) -> str:
    """One bar a value, lowest to highest; a gap where a value is None or not finite.

    With `width` neighbours are folded into their maximum, so that a short peak is never lost.
    """
    known = [value if value is not None and isfinite(value) else None for value in values]
    if width is not None and len(known) > width:
        known = _fold(known, width)
    present = [value for value in known if value is not None]
    if not present:
        return " " * len(known)
    low, high = min(present), max(present)
    # Halves, because the difference of two large floats of opposite sign overflows.
    span = high / 2 - low / 2
    return "".join(" " if value is None else _BARS[_level(value / 2 - low / 2, span)] for value in known)


def _level(above: float, span: float) -> int:
    return round(above / span * (len(_BARS) - 1)) if span else 0


def _fold(values: list[float | None], width: int) -> list[float | None]:
    folded: list[float | None] = []
    for index in range(width):
        part = values[index * len(values) // width : (index + 1) * len(values) // width]
        folded.append(max((value for value in part if value is not None), default=None))
    return folded


_GAP = 3
# Below this a cut cell tells nothing; the terminal may wrap the line instead.
_NARROWEST = 8


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell. `right` is for numbers."""

    text: str
    style: Style = Style.PLAIN
    right: bool = False


def build_table(
    titles: Sequence[Cell], rows: Sequence[Sequence[Cell]], *, screen: Screen, indent: str = ""
) -> list[Line]:
    """Aligned lines. Cells are cut only where the screen has a width."""
    table = [list(titles), *rows] if screen.headers else [list(row) for row in rows]
    if not table:
        return []
    # Escaped here so that widths are those of what is shown; escaping again later changes nothing.
    texts = [[escape(cell.text) for cell in row] for row in table]
    widths = [max(measure(text) for text in column) for column in zip(*texts, strict=True)]
    if screen.width is not None:
        widths = _fit(widths, screen.width - len(indent))
        texts = [[cut(text, width) for text, width in zip(row, widths, strict=True)] for row in texts]
    return [_build_line(row, shown, widths=widths, indent=indent) for row, shown in zip(table, texts, strict=True)]


def stream_table(titles: Sequence[Cell], rows: Iterable[Sequence[str]], *, screen: Screen) -> Iterator[str]:
    """The text of a table in parts, from the texts of its cells.

    The widths are known after the last row. Until then the columns of each part are kept, each as one text: 500,000
    rows take about as many bytes as their output, and one text for each cell would take five times as many.
    """
    parts: list[list[str]] = []
    widths = [measure(escape(cell.text)) if screen.headers else 0 for cell in titles]
    for part in split_rows(rows):
        columns = [_escape_column(column) for column in zip(*part, strict=True)]
        wholes = ["\n".join(column) for column in columns]
        longest = (max(map(_choose_measure(whole), column)) for whole, column in zip(wholes, columns, strict=True))
        widths = [max(pair) for pair in zip(widths, longest, strict=True)]
        parts.append(wholes)
    if not parts:
        return
    if screen.width is not None:
        widths = _fit(widths, screen.width)
    if screen.headers:
        texts = [cut(escape(cell.text), width) for cell, width in zip(titles, widths, strict=True)]
        yield render_lines([_build_line(titles, texts, widths=widths, indent="")], color=screen.color)
    gap, last = " " * _GAP, len(titles) - 1
    for wholes in parts:
        aligned = [
            _align(whole, width, is_right=cell.right, is_last=index == last)
            for index, (whole, width, cell) in enumerate(zip(wholes, widths, titles, strict=True))
        ]
        yield "".join([f"{gap.join(row)}\n" for row in zip(*aligned, strict=True)])


def _escape_column(column: Sequence[str]) -> Sequence[str]:
    """The texts with unsafe characters escaped, so that none has a line break."""
    return column if "".join(column).isprintable() else [escape(text) for text in column]


def _choose_measure(whole: str) -> Callable[[str], int]:
    return len if whole.isascii() else measure


def _align(whole: str, width: int, *, is_right: bool, is_last: bool) -> list[str]:
    """The texts of a column, cut and padded to its width, except for blanks at the end of a line."""
    size = _choose_measure(whole)
    texts = whole.split("\n")
    if max(map(size, texts)) > width:
        texts = [cut(text, width) for text in texts]
    if is_last:
        texts = [text.rstrip() for text in texts]
    if is_right:
        return [" " * (width - size(text)) + text for text in texts]
    return texts if is_last else [text + " " * (width - size(text)) for text in texts]


def measure(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415

    return cell_len(text)


def cut(text: str, width: int) -> str:
    """The text in at most `width` columns; `…` says that something is missing."""
    if measure(text) <= width:
        return text
    kept = text[: width - 1]
    while measure(kept) > width - 1:
        kept = kept[:-1]
    return f"{kept}…"


def _fit(widths: list[int], available: int) -> list[int]:
    """Take width from the widest columns first, as much as is needed."""
    excess = sum(widths) + _GAP * (len(widths) - 1) - available
    fitted = list(widths)
    while excess > 0:
        widest = max(fitted)
        if widest <= _NARROWEST:
            break
        level = max([width for width in fitted if width < widest] + [_NARROWEST])
        among = [index for index, width in enumerate(fitted) if width == widest]
        step = max(1, min(widest - level, excess // len(among)))
        for index in among:
            taken = min(step, excess)
            fitted[index] -= taken
            excess -= taken
    return fitted


def _build_line(row: Sequence[Cell], texts: list[str], *, widths: list[int], indent: str) -> Line:
    spans = [Span(indent)] if indent else []
    last = len(row) - 1
    for index, (cell, text, width) in enumerate(zip(row, texts, widths, strict=True)):
        blanks = " " * (width - measure(text))
        if cell.right and blanks:
            spans.append(Span(blanks))
        spans.append(Span(text, cell.style))
        if index < last:
            spans.append(Span((" " * _GAP) if cell.right else blanks + " " * _GAP))
    return tuple(spans)
