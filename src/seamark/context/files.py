"""Reading the operator's files with limits, and the errors that name them."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.errors import ConfigurationError

if TYPE_CHECKING:
    from ruamel.yaml.events import Event


def read_limited(path: Path, *, limit: int, place: str) -> bytes:
    """The bytes of a file, refused when there are more than `limit`. `place` names it in errors."""
    reason = ""
    data = b""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
    if reason:
        raise ConfigurationError(
            f"{place} can't be read",
            cause=f"{path}: {reason}",
            hint="look whether the path is right and you may read it",
            context={"file": place},
        )
    if len(data) > limit:
        raise ConfigurationError(
            f"{place} is too large to be a settings file",
            cause=f"{path} has more than {limit} bytes",
            hint="look whether this is the file you meant",
            context={"file": place},
        )
    return data


def is_readable_by_others(path: Path) -> bool:
    """Whether anybody on this machine may read the file."""
    try:
        return bool(path.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False


def expand_path(text: str, *, folder: Path, home: Path | None) -> Path:
    """An absolute path: `~/` is the home folder, a relative one starts at `folder`."""
    if home is not None and (text == "~" or text.startswith("~/")):
        return home / text[2:]
    return folder / text


# The tree is built from the parser's events. Nothing is ever constructed from a tag, so a file can't name code, and
# every text stays as it is written: `010`, `yes` and `12:30` are texts.

MAX_BYTES = 10 << 20
MAX_ALIASES = 100
# The deepest key of a contexts file is at level 5; more room only helps the error to be exact.
MAX_DEPTH = 20

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


@dataclass(frozen=True, slots=True)
class Scalar:
    """One text. `is_null` is true for an unquoted `null`, `~` or nothing at all."""

    text: str = field(repr=False)
    line: int
    column: int
    is_null: bool = False


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    nodes: tuple[Node, ...]
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Table:
    """Keys and values, in the order of the file."""

    entries: tuple[tuple[Scalar, Node], ...]
    line: int
    column: int


Node = Scalar | Items | Table


def parse_yaml(text: str, *, place: str) -> Node | None:
    """The only document of the text, or None where there is none. `place` names the file in errors."""
    # Loaded here: it is only needed where there is a file, and costs more than the rest of the package.
    from ruamel.yaml import YAML  # noqa: PLC0415
    from ruamel.yaml.error import MarkedYAMLError, YAMLError  # noqa: PLC0415

    problem, line, column = "", 0, 0
    try:
        return _TreeBuilder(YAML(typ="safe", pure=True).parse(text), place=place).build()
    except MarkedYAMLError as error:
        # What stands in quotation marks was taken from the file, and may be a secret.
        problem = _QUOTED.sub("…", error.problem or error.context or "it is not YAML")
        if error.problem_mark is not None:
            line, column = error.problem_mark.line + 1, error.problem_mark.column + 1
    except YAMLError as error:
        problem = "a character that YAML does not allow"
        line, column = _locate(text, getattr(error, "position", 0))
    # Raised outside of `except`, so that no traceback carries the parser's copy of the file.
    raise build_file_error(place, line, column, problem=problem)


def build_file_error(place: str, line: int, column: int, *, problem: str, hint: str = "") -> ConfigurationError:
    """The error for one spot of a file."""
    return ConfigurationError(
        f"{place} can't be used",
        cause=f"{place}:{line}:{column}: {problem}",
        hint=hint or f"correct line {line} of {place}",
        context={"file": place, "line": str(line), "column": str(column)},
    )


def _locate(text: str, position: int) -> tuple[int, int]:
    before = text[:position]
    return before.count("\n") + 1, len(before) - before.rfind("\n")


class _TreeBuilder:
    """Turns events into a tree, with limits on depth, aliases and the size after their expansion."""

    def __init__(self, events: Iterator[Event], *, place: str) -> None:
        self._events = events
        self._place = place
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._aliases = 0

    def build(self) -> Node | None:
        root: Node | None = None
        documents = 0
        for event in self._events:
            kind = type(event).__name__
            if kind == "DocumentStartEvent":
                documents += 1
                if documents > 1:
                    raise self._error(event, "a second document starts here; a contexts file has one")
            elif kind not in {"StreamStartEvent", "DocumentEndEvent", "StreamEndEvent"}:
                root, _ = self._build_node(event, depth=1)
        return root

    def _build_node(self, event: Any, *, depth: int) -> tuple[Node, int]:
        """The node that starts with this event, and its size in characters with all aliases expanded."""
        kind = type(event).__name__
        if kind == "AliasEvent":
            return self._follow(event)
        if event.tag is not None:
            raise self._error(event, "tags are not supported", hint="put the text in quotation marks")
        if depth > MAX_DEPTH:
            raise self._error(event, f"it is nested more than {MAX_DEPTH} levels deep")
        if kind == "ScalarEvent":
            node, size = self._build_scalar(event)
        elif kind == "SequenceStartEvent":
            node, size = self._build_items(event, depth)
        else:
            node, size = self._build_table(event, depth)
        if size > MAX_BYTES:
            raise self._error(event, f"with its aliases expanded it has more than {MAX_BYTES} characters")
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, size)
        return node, size

    def _follow(self, event: Any) -> tuple[Node, int]:
        self._aliases += 1
        if self._aliases > MAX_ALIASES:
            raise self._error(event, f"more than {MAX_ALIASES} aliases")
        if event.anchor not in self._anchors:
            raise self._error(
                event, "an alias without its anchor", hint="a text that starts with * needs quotation marks"
            )
        return self._anchors[event.anchor]

    def _build_scalar(self, event: Any) -> tuple[Node, int]:
        is_plain = event.implicit[0]
        node = Scalar(event.value, *_mark(event), is_null=is_plain and event.value in _NULLS)
        return node, len(event.value) + 1

    def _build_items(self, event: Any, depth: int) -> tuple[Node, int]:
        nodes: list[Node] = []
        total = 1
        while type(part := next(self._events)).__name__ != "SequenceEndEvent":
            node, size = self._build_node(part, depth=depth + 1)
            nodes.append(node)
            total += size
        return Items(tuple(nodes), *_mark(event)), total

    def _build_table(self, event: Any, depth: int) -> tuple[Node, int]:
        entries: dict[str, tuple[Scalar, Node]] = {}
        total = 1
        while type(part := next(self._events)).__name__ != "MappingEndEvent":
            key, key_size = self._build_node(part, depth=depth + 1)
            if not isinstance(key, Scalar):
                raise self._error(part, "a key must be a single text")
            if key.text in entries:
                first = entries[key.text][0]
                raise self._error(part, f"the key {key.text} is here twice, first in line {first.line}")
            value, value_size = self._build_node(next(self._events), depth=depth + 1)
            entries[key.text] = (key, value)
            total += key_size + value_size
        return Table(tuple(entries.values()), *_mark(event)), total

    def _error(self, event: Any, problem: str, *, hint: str = "") -> ConfigurationError:
        return build_file_error(self._place, *_mark(event), problem=problem, hint=hint)


def _mark(event: Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1
