"""Reading JSON of our own from outside, strictly: each value has its one type, and no key is missing or unknown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from seamark.errors import FormatVersionError, UsageError

# There is one version per format, and no reader for an older one. A reader must call `check_format` before it uses
# any other field and before it takes a lock: a newer seamark may store locks and offsets in ways that this one can't
# see.

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
    hint = "upgrade seamark to the version that wrote it" if is_newer else "use the version of seamark that wrote it"
    raise FormatVersionError(
        f"can't read {where}: found {shown}, this seamark reads version {known.version}",
        hint=f"check that it is a {known.name} of seamark" if found is None else hint,
        context={"format": known.name, "found": str(found), "supported": str(known.version)},
    )


Word = TypeVar("Word", bound=StrEnum)

# Offsets, counts and milliseconds are Java's longs; anything larger was never written by us.
LARGEST = (1 << 63) - 1


def read_json(text: str | bytes, *, what: str) -> Any:
    """The value of a JSON text. A key that stands twice, NaN and the like are no JSON of ours."""
    try:
        return json.loads(text, object_pairs_hook=_build_object, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise _refuse(what, f"it is not JSON: {error}") from None


def read_object(value: object, *, keys: Sequence[str], what: str) -> dict[str, Any]:
    """A JSON object with exactly these keys."""
    if not isinstance(value, dict):
        raise _refuse(what, "it is not a JSON object")
    found, wanted = set(value), set(keys)
    if found != wanted:
        missing, unknown = sorted(wanted - found), sorted(map(str, found - wanted))
        raise _refuse(what, f"missing keys: {missing}, unknown keys: {unknown}")
    return value


def read_list(value: object, *, what: str, length: int | None = None) -> list[Any]:
    """A JSON array, of so many items if that is said."""
    if not isinstance(value, list) or (length is not None and len(value) != length):
        raise _refuse(what, "it is not a list" + ("" if length is None else f" of {length}"))
    return value


def read_count(value: object, *, what: str) -> int:
    """A whole number from 0 on. JSON's true is none, though it is Python's 1."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST:
        raise _refuse(what, "it is not an integer of at least 0")
    return value


def read_optional_count(value: object, *, what: str) -> int | None:
    """A whole number from 0 on, or null."""
    return None if value is None else read_count(value, what=what)


def read_truth(value: object, *, what: str) -> bool:
    """JSON's true or false."""
    if not isinstance(value, bool):
        raise _refuse(what, "it is neither true nor false")
    return value


def read_text(value: object, *, what: str) -> str:
    """A string."""
    if not isinstance(value, str):
        raise _refuse(what, "it is not a string")
    return value


def read_optional_text(value: object, *, what: str) -> str | None:
    """A string, or null."""
    return None if value is None else read_text(value, what=what)


def read_texts(value: object, *, what: str) -> tuple[str, ...]:
    """A list of strings."""
    return tuple(read_text(item, what=f"an item of {what}") for item in read_list(value, what=what))


def read_word(value: object, *, words: type[Word], what: str) -> Word:
    """One of the words of an enumeration."""
    try:
        return words(read_text(value, what=what))
    except ValueError:
        raise _refuse(what, f"it is not one of {', '.join(words)}") from None


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) != len(pairs):
        raise ValueError("a key occurs twice")
    return built


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a valid number")


def _refuse(what: str, cause: str) -> UsageError:
    return UsageError(
        f"{what} can't be read",
        cause=cause,
        hint="create it again: it was not written by this version of seamark, or was modified since",
    )
