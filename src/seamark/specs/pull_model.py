"""What a running fleet changes in the files that describe it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from seamark.errors import SeamarkError


@dataclass(frozen=True, slots=True)
class PulledFile:
    """One file as it shall be. `before` is None where it is new. `owners` are the connectors it is changed for."""

    path: str
    after: str = field(repr=False)
    before: str | None = field(default=None, repr=False)
    owners: tuple[str, ...] = ()
    encoding: str = "utf-8"
    diff: str = field(default="", repr=False)
    """The change for people to read, without secrets."""


@dataclass(frozen=True, slots=True)
class SkippedConnector:
    """A connector whose file differs and can't be changed. `differences` are lines, without secrets."""

    owner: str
    place: str
    reason: str
    differences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PulledSecret:
    """A secret that is not written into a file: a reference stands for it. `words` say what is to do."""

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
