"""A file as a tree of texts, each with its place: what the readers give and the editors change.

Tuples, because a large fleet has some hundred thousand of them.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import NamedTuple

from seamark.core.files import FileLocation
from seamark.errors import SpecError

MAX_DEPTH = 20
"""The deepest key of a spec file is at level 6; more room only helps the error to be exact."""


class ScalarNode(NamedTuple):
    """A text. `start` and `end` are offsets in the file.

    `style` is empty for a plain text, a quotation mark, `|`, `>`, or `*` for an alias. `is_shared` is true where the
    text stands elsewhere and came here by an alias or a merge key, or has an anchor by which others refer to it.
    """

    text: str
    start: int
    end: int
    style: str = ""
    is_null: bool = False
    is_shared: bool = False


class SequenceNode(NamedTuple):
    """A list."""

    nodes: tuple[Node, ...]
    start: int
    end: int
    is_flow: bool = False
    is_shared: bool = False


class MappingNode(NamedTuple):
    """Keys and values, in the order of the file."""

    entries: dict[str, tuple[ScalarNode, Node]]
    start: int
    end: int
    is_flow: bool = False
    is_shared: bool = False


Node = ScalarNode | SequenceNode | MappingNode


class Document:
    """The text of one file, and where in it an offset is."""

    def __init__(self, file: str, text: str, *, folder: str = "", encoding: str = "utf-8") -> None:
        self.file = file
        self.text = text
        self.folder = folder
        self.encoding = encoding

    def __repr__(self) -> str:
        # The text may hold secrets.
        return f"Document({self.file!r})"

    @cached_property
    def _line_starts(self) -> list[int]:
        starts, position = [0], self.text.find("\n")
        while position >= 0:
            starts.append(position + 1)
            position = self.text.find("\n", position + 1)
        return starts

    def place(self, at: Node | int) -> FileLocation:
        """Where a node, or an offset, stands."""
        offset = at if isinstance(at, int) else at.start
        line = bisect_right(self._line_starts, offset)
        return FileLocation(self.file, line, offset - self._line_starts[line - 1] + 1)

    def line_start(self, offset: int) -> int:
        """The offset at which the line of an offset begins."""
        return self.text.rfind("\n", 0, offset) + 1

    def line_end(self, offset: int) -> int:
        """The offset of the line break that ends the line of an offset, or of the text's end."""
        end = self.text.find("\n", offset)
        return len(self.text) if end < 0 else end

    def line_span(self, first: int, last: int) -> tuple[int, int]:
        """From where the first line begins to where the last one ends, without its line break. Lines count from 1."""
        start = self._line_starts[first - 1]
        end = self.line_end(self._line_starts[last - 1])
        return start, end - 1 if end > start and self.text[end - 1] == "\r" else end

    @property
    def newline(self) -> str:
        """How lines end in this file."""
        return "\r\n" if "\r\n" in self.text else "\n"

    def error(self, at: Node | int, problem: str, *, hint: str = "") -> SpecError:
        """The error for one spot of this file."""
        return build_spec_error(self.place(at), problem, hint=hint)


def build_spec_error(place: FileLocation, problem: str, *, hint: str = "") -> SpecError:
    """The error for one place. `problem` must not repeat a config's value: it may be a secret."""
    where = f"line {place.line} of {place.file}" if place.line else place.file
    return SpecError(
        f"{place.file} can't be used",
        cause=f"{place}: {problem}",
        hint=hint or f"correct {where}",
        context={"file": place.file, "line": str(place.line), "column": str(place.column)},
    )
