"""Reading the operator's files with limits, and the errors that name them."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TypeVar

from seamark.core.files import FileLocation
from seamark.errors import ConfigurationError

E = TypeVar("E", bound=ConfigurationError)


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
            hint="check the path, and that you can read the file",
            context={"file": place},
        )
    if len(data) > limit:
        raise ConfigurationError(
            f"{place} is too large to be a settings file",
            cause=f"{path} has more than {limit} bytes",
            hint="check that this is the right file",
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


def build_file_error(kind: type[E], place: FileLocation, problem: str, *, hint: str = "") -> E:
    """Return the error for one place of a file."""
    where = f"line {place.line} of {place.file}" if place.line else place.file
    return kind(
        f"{place.file} can't be used",
        cause=f"{place}: {problem}",
        hint=hint or f"correct {where}",
        context={"file": place.file, "line": str(place.line), "column": str(place.column)},
    )
