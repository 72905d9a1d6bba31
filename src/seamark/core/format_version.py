"""Versions of persisted formats: each stored value names its version, and a reader refuses every other version.

There is one version per format, and no reader for an older one. A reader must call `check_format` before it uses any
other field and before it takes a lock: a newer seamark may store locks and offsets in ways that this one can't see.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from seamark.errors import FormatVersionError

VERSION_FIELD = "format_version"
"""The field, or the column, that holds the version in every format."""


@dataclass(frozen=True, slots=True)
class StoredFormat:
    """A persisted format, and the one version of it that this seamark writes and reads."""

    name: str
    version: int

    @property
    def field(self) -> dict[str, int]:
        """The version as a field of a JSON object, for the writer."""
        return {VERSION_FIELD: self.version}


def check_format(known: StoredFormat, stored: object, *, where: str) -> None:
    """Check that a stored object has the version that this seamark reads.

    Args:
        known: The format that the reader expects.
        stored: The object as it was read; anything but a mapping has no version.
        where: The location of the object, for the error.

    Raises:
        FormatVersionError: The version is another one, or missing.
    """
    found = stored.get(VERSION_FIELD) if isinstance(stored, Mapping) else None
    # True equals 1, and 1.0 does too; seamark writes neither.
    if type(found) is int and found == known.version:
        return
    is_newer = type(found) is int and found > known.version
    shown = f"no {known.name} format version" if found is None else f"{known.name} format version {found!r}"
    raise FormatVersionError(
        f"can't read {where}: found {shown}, this seamark reads version {known.version}",
        hint="upgrade seamark to the version that wrote it" if is_newer else "use the version of seamark that wrote it",
        context={"format": known.name, "found": str(found), "supported": str(known.version)},
    )
