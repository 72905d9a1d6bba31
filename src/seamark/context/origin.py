"""Where a value comes from, and how a place is named to people."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from pathlib import Path


class Trust(IntEnum):
    """How far a place is trusted. Credentials of a place go only to addresses of the same or a higher trust."""

    PROJECT = 0
    ENVIRONMENT = 1
    USER = 2
    SYSTEM = 3

    @property
    def words(self) -> str:
        """The place in messages."""
        return "environment" if self is Trust.ENVIRONMENT else f"{self.name.lower()} file"


class OriginKind(StrEnum):
    """The kinds of place a value can come from, strongest first."""

    OVERRIDE = "override"
    ENVIRONMENT = "environment"
    FILE = "file"
    WORKER = "worker"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Origin:
    """One place: a line of a file, an environment variable, a flag, or the default.

    `place` is the name shown to people; `path` is the whole path where the place is a file.
    Lines and columns start at 1; 0 means that there is none. A worker's file has the trust of the place that names it.
    """

    kind: OriginKind
    place: str
    line: int = 0
    column: int = 0
    path: Path | None = field(default=None, repr=False)
    trust: Trust = field(default=Trust.USER, repr=False)

    def __str__(self) -> str:
        """`seamark.yaml:7`, a variable's name, or `default`."""
        return f"{self.place}:{self.line}" if self.line else self.place

    @property
    def exact(self) -> str:
        """The same with the column, as errors and editors want it."""
        return f"{self}:{self.column}" if self.column else str(self)

    @property
    def is_file(self) -> bool:
        """Whether the value is written in a file."""
        return self.path is not None


DEFAULT = Origin(OriginKind.DEFAULT, "default", trust=Trust.SYSTEM)


def build_place(path: Path, *, cwd: Path, home: Path | None = None) -> str:
    """The shortest honest name of a file: below `cwd`, above it, below `~`, else the whole path."""
    if path.is_relative_to(cwd):
        return str(path.relative_to(cwd))
    # A file of a parent folder reads best as ../seamark.yaml; anything further is clearer whole.
    if path.parent != path.parent.parent and cwd.is_relative_to(path.parent):
        return os.path.relpath(path, cwd)
    if home is not None and path.is_relative_to(home):
        return f"~/{path.relative_to(home)}"
    return str(path)
