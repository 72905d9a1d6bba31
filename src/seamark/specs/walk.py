"""Which files a spec is made of."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from seamark.core.files import Place
from seamark.errors import SpecError
from seamark.specs.nodes import build_spec_error

SUFFIXES = frozenset({".yaml", ".yml", ".json", ".properties", ".py"})
"""Endings of files that hold resources. Others in a folder are not looked at."""

# A fleet of ten thousand connectors with a file each is a tenth of this.
_MAX_FILES = 100_000


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to be read. `folder` is where it stands, made whole; `top` the outermost whose `_defaults.yaml` counts."""

    path: Path
    folder: Path
    top: Path


def find_files(paths: Sequence[Path], *, top: Path | None = None) -> tuple[FoundFile, ...]:
    """Every file below the paths, each real file once, in a fixed order. `top` is where defaults begin, if given."""
    found: dict[str, FoundFile] = {}
    for path in paths:
        start = find_top(top or (path if path.is_dir() else path.parent))
        for file, folder, real in _find_below(path):
            found.setdefault(real, FoundFile(file, folder, start))
            if len(found) > _MAX_FILES:
                raise SpecError(
                    f"{path} has more than {_MAX_FILES} spec files", hint="look whether this is the folder you meant"
                )
    return tuple(found.values())


def find_top(folder: Path) -> Path:
    """The outermost folder whose defaults count for files of this one: that of its repository, else itself."""
    return find_repository(folder) or folder.resolve()


def find_repository(path: Path) -> Path | None:
    """The nearest folder at or above the path that git keeps."""
    whole = path.resolve()
    for folder in (whole, *whole.parents):
        if (folder / ".git").exists():
            return folder
    return None


# A file as it was found, its folder made whole, and its own whole path.
_Spot = tuple[Path, Path, str]


def _find_below(path: Path) -> Iterator[_Spot]:
    if path.is_dir():
        yield from _walk(path)
        return
    if not path.is_file():
        raise SpecError(f"{path} is not there, or no file", hint="give a spec file, or a folder of them")
    if path.suffix.lower() not in SUFFIXES:
        raise build_spec_error(
            Place(str(path)),
            f"its ending is none of {', '.join(sorted(SUFFIXES))}",
            hint="give the file its right ending",
        )
    yield _build_spot(path)


def _walk(root: Path) -> Iterator[_Spot]:
    """Files of a folder. Links come last, so that none takes the place of what it leads to."""
    inside = root.resolve()
    links: list[Path] = []
    seen: set[Path] = set()
    folders = [root]
    while folders or links:
        if not folders:
            link = links.pop(0)
            if link.is_dir():
                folders.append(link)
            elif link.is_file() and link.suffix.lower() in SUFFIXES:
                yield _build_spot(link)
            continue
        folder = folders.pop()
        real = folder.resolve()
        if real in seen:
            continue
        seen.add(real)
        below: list[Path] = []
        for entry in _list(folder):
            if entry.is_symlink():
                _refuse_leaving(folder / entry.name, inside)
                links.append(folder / entry.name)
            elif entry.is_dir():
                below.append(folder / entry.name)
            elif entry.is_file() and os.path.splitext(entry.name)[1].lower() in SUFFIXES:  # noqa: PTH122 - no Path yet
                yield folder / entry.name, real, f"{real}/{entry.name}"
        folders += reversed(below)


def _build_spot(path: Path) -> _Spot:
    return path, path.parent.resolve(), str(path.resolve())


def _list(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted((entry for entry in entries if entry.name[0] not in "._"), key=lambda entry: entry.name)
    except OSError as error:
        cause = error.strerror or type(error).__name__
        raise SpecError(f"{folder} can't be read", cause=cause, hint="look whether you may read it") from None


def _refuse_leaving(path: Path, inside: Path) -> None:
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):
        raise build_spec_error(Place(str(path)), "the link leads nowhere", hint="take the link out") from None
    if not target.is_relative_to(inside):
        raise build_spec_error(
            Place(str(path)), "the link leads out of the folder", hint="put a copy in its place, or give both paths"
        )
