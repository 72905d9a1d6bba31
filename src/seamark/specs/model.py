"""Values of spec files: declarations with their locations, and what a pull changes in the files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from seamark.connectors.config import DesiredConnector
from seamark.context.yaml import MappingNode
from seamark.errors import SeamarkError
from seamark.specs.document import Document
from seamark.specs.layers import Layer


class Maker(StrEnum):
    """How a connector was declared."""

    YAML = "yaml"
    EACH = "each"
    JSON = "json"
    PROPERTIES = "properties"
    PY = "py"


@dataclass(frozen=True, slots=True)
class Definition:
    """A connector, and the locations of its parts.

    `entry` is the table with its name and config; `own` are the config keys in it, `inherited` those from elsewhere.
    Both are empty if the file can't be changed.
    """

    connector: DesiredConnector
    maker: Maker
    document: Document = field(repr=False)
    entry: MappingNode | None = field(default=None, repr=False)
    own: Layer = field(default_factory=dict, repr=False)
    inherited: Layer = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Contents:
    """What one file defines: connectors, and by section what the other kinds read."""

    definitions: tuple[Definition, ...] = ()
    sections: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PulledFile:
    """The new content of one file. `before` is None if it is new. `owners` are the connectors that cause the change."""

    path: str
    after: str = field(repr=False)
    before: str | None = field(default=None, repr=False)
    owners: tuple[str, ...] = ()
    encoding: str = "utf-8"
    diff: str = field(default="", repr=False)
    """The change for display, without secrets."""


@dataclass(frozen=True, slots=True)
class SkippedConnector:
    """A connector whose file differs and can't be changed. `differences` are lines, without secrets."""

    owner: str
    place: str
    reason: str
    differences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PulledSecret:
    """A secret that is not written to a file, but replaced by a reference. `words` describe what the user has to do."""

    owner: str
    key: str
    reference: str
    words: str


@dataclass(frozen=True, slots=True)
class Pull:
    """Everything that a pull would do, and what it can't do."""

    folder: str
    files: tuple[PulledFile, ...] = ()
    skipped: tuple[SkippedConnector, ...] = ()
    secrets: tuple[PulledSecret, ...] = ()
    absent: tuple[str, ...] = ()
    """Connectors of the files that do not run."""
    read: int = 0
    unchanged: int = 0
    failures: Mapping[str, SeamarkError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Spec:
    """Everything that some files declare.

    `id` distinguishes this spec from all others, on every machine that has a copy of it: it identifies what a previous
    apply created. `sections` has the declarations of the kinds that read their sections themselves (`SectionKind`).
    """

    id: str
    connectors: tuple[DesiredConnector, ...] = ()
    sections: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    files: tuple[str, ...] = ()

    def find(self, section: str) -> tuple[Any, ...]:
        """Return what a section declares; nothing if no file has the section."""
        return self.connectors if section == "connectors" else self.sections.get(section, ())
