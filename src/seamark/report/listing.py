"""A listing described once, shown in every format.

A new noun is a `Listing` with a few columns:

    LISTING = Listing(kind="WorkerList", noun="worker", name=lambda worker: worker.url, columns=(
        Column("url", "URL", lambda worker: worker.url),
        Column("version", "VERSION", lambda worker: worker.version, wide=True),
    ))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from seamark.report.table import Cell, build_table
from seamark.report.text import Line, Screen, Style

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One column of a listing.

    `value` is what json, yaml and csv hold under `key`. `text` is what a person reads, `long` what
    `-o wide` shows instead of it; both are the value where they are not given. A column without a
    title is for programs only; one with `wide` is in tables only with `-o wide`.
    """

    key: str
    title: str
    value: Callable[[T], Any]
    text: Callable[[T], str] | None = None
    long: Callable[[T], str] | None = None
    style: Callable[[T], Style] | None = None
    wide: bool = False
    right: bool = False


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

    def build_lines(self, rows: Sequence[T], screen: Screen, *, indent: str = "") -> list[Line]:
        """The rows as a table; nothing at all where there are none."""
        if not rows:
            return []
        columns = [column for column in self.columns if column.title and (screen.wide or not column.wide)]
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
    """

    listing: Listing[T]
    rows: Sequence[T]
    kind: str = ""
    body: Callable[[], Mapping[str, Any]] | None = None
    lines: Callable[[Screen], list[Line]] | None = None
    empty: str = ""

    def build_body(self) -> Mapping[str, Any]:
        """The document for programs, without its two head fields."""
        return self.body() if self.body else {"items": self.listing.build_items(self.rows)}

    def build_lines(self, screen: Screen) -> list[Line]:
        """What a person sees."""
        return self.lines(screen) if self.lines else self.listing.build_lines(self.rows, screen)


def _build_cell(column: Column[T], row: T, *, wide: bool) -> Cell:
    text = (column.long if wide else None) or column.text
    shown = text(row) if text else _plain(column.value(row))
    return Cell(shown, column.style(row) if column.style else Style.PLAIN, right=column.right)


def _plain(value: Any) -> str:
    # An empty cell would make columns hard to count for awk and for the eye.
    return "-" if value is None or value == "" else str(value)
