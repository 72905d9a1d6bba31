"""Find the files of a spec, and its ID."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from seamark.core.files import FileLocation
from seamark.errors import SpecError
from seamark.specs.document import build_spec_error

SUFFIXES = frozenset({".yaml", ".yml", ".json", ".properties", ".py"})
"""Suffixes of files with resources. Other files in a folder are ignored."""

# A fleet of 10,000 connectors with a file each has a tenth of this.
_MAX_FILES = 100_000


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to be read. `folder` is its resolved folder; `top` the outermost folder whose `_defaults.yaml` applies."""

    path: Path
    folder: Path
    top: Path


def find_files(paths: Sequence[Path], *, top: Path | None = None) -> tuple[FoundFile, ...]:
    """Return every file below the paths, each real file once, in a fixed order. `top` limits where defaults are."""
    found: dict[str, FoundFile] = {}
    for path in paths:
        start = find_top(top or (path if path.is_dir() else path.parent))
        for file, folder, real in _find_below(path):
            found.setdefault(real, FoundFile(file, folder, start))
            if len(found) > _MAX_FILES:
                raise SpecError(f"{path} has more than {_MAX_FILES} spec files", hint="check the path")
    return tuple(found.values())


def find_top(folder: Path) -> Path:
    """Return the outermost folder whose defaults apply to files of this one: that of its repository, else itself."""
    return find_repository(folder) or folder.resolve()


def find_repository(path: Path) -> Path | None:
    """Return the nearest folder at or above the path that is a git repository."""
    whole = path.resolve()
    for folder in (whole, *whole.parents):
        if (folder / ".git").exists():
            return folder
    return None


# A file as it was found, its resolved folder, and its own resolved path.
_Spot = tuple[Path, Path, str]


def _find_below(path: Path) -> Iterator[_Spot]:
    if path.is_dir():
        yield from _walk(path)
        return
    if not path.is_file():
        raise SpecError(f"{path} does not exist or is not a file", hint="pass a spec file or a folder of spec files")
    if path.suffix.lower() not in SUFFIXES:
        raise build_spec_error(
            FileLocation(str(path)),
            f"unknown file extension: expected one of {', '.join(sorted(SUFFIXES))}",
            hint="rename the file",
        )
    yield _build_spot(path)


def _walk(root: Path) -> Iterator[_Spot]:
    """Return the files of a folder. Links come last, so that none replaces its target."""
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
        raise SpecError(f"{folder} can't be read", cause=cause, hint="check your permissions on it") from None


def _refuse_leaving(path: Path, inside: Path) -> None:
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):
        raise build_spec_error(FileLocation(str(path)), "the link has no target", hint="remove the link") from None
    if not target.is_relative_to(inside):
        raise build_spec_error(
            FileLocation(str(path)),
            "the link's target is outside of the folder",
            hint="replace the link with a copy, or pass both paths",
        )


# An apply deletes what a previous apply of the same spec created and the spec no longer declares. Two different sets of
# files must therefore never have the same ID: a part of a folder has another ID than the whole.

_MAX_BYTES = 1 << 20
_SECTION = re.compile(r'\[\s*remote\s+"origin"\s*\]', re.IGNORECASE)
_URL = re.compile(r'url\s*=\s*"?([^"#;\s]+)"?', re.IGNORECASE)
_WITH_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^/@]*@)*(?P<host>[^/]*)/*(?P<path>.*)", re.IGNORECASE)
_LIKE_SCP = re.compile(r"(?:[^/@]*@)?(?P<host>[^/:@]+):/*(?P<path>.+)")
_USUAL_PORT = re.compile(r":(?:22|80|443|9418)?$")


def build_spec_id(paths: Sequence[Path], *, named: Mapping[Path, str], hostname: str) -> str:
    """Return the ID. `named` has the names that `_defaults.yaml` files define, by their resolved folder."""
    return ",".join(sorted({_identify(path.resolve(), named, hostname) for path in paths}))


def _identify(path: Path, named: Mapping[Path, str], hostname: str) -> str:
    if path in named:
        return named[path]
    root = find_repository(path)
    origin = read_origin(root) if root is not None else None
    if root is None or origin is None:
        return f"{hostname}:{path}"
    inner = path.relative_to(root).as_posix()
    return f"{origin}//{'' if inner == '.' else inner}"


def read_origin(root: Path) -> str | None:
    """Return the URL of the remote `origin`, without scheme and user; None if there is none."""
    config = _find_config(root / ".git")
    inside = False
    for line in _read(config).splitlines() if config else ():
        text = line.strip()
        if text.startswith("["):
            inside = _SECTION.match(text) is not None
        elif inside and (found := _URL.match(text)):
            return normalize_address(found[1])
    return None


def normalize_address(url: str) -> str:
    """Return one form for all URLs of a repository: `git@host:a/b.git` and `https://user:token@host/a/b`."""
    found = _WITH_SCHEME.fullmatch(url) or _LIKE_SCP.fullmatch(url)
    if found is None:
        return url.rstrip("/").removesuffix(".git")
    host = _USUAL_PORT.sub("", found["host"]).lower()
    return f"{host}/{found['path'].rstrip('/').removesuffix('.git')}"


def _find_config(git: Path) -> Path | None:
    """Return the config of a repository. In a linked worktree `.git` is a file that contains the path."""
    folder = git
    if git.is_file():
        pointer = _read(git).strip()
        if not pointer.startswith("gitdir:"):
            return None
        folder = git.parent / pointer.removeprefix("gitdir:").strip()
    common = folder / "commondir"
    if common.is_file():
        folder = folder / _read(common).strip()
    config = folder / "config"
    return config if config.is_file() else None


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
