"""What tells one spec from all others, on every machine that has a copy of it.

An apply deletes what a former apply of the same spec made and the spec no longer has. So two different sets of files
must never have one id: a part of a folder has another id than the whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from seamark.specs.walk import find_repository

_MAX_BYTES = 1 << 20
_SECTION = re.compile(r'\[\s*remote\s+"origin"\s*\]', re.IGNORECASE)
_URL = re.compile(r'url\s*=\s*"?([^"#;\s]+)"?', re.IGNORECASE)
_WITH_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^/@]*@)*(?P<host>[^/]*)/*(?P<path>.*)", re.IGNORECASE)
_LIKE_SCP = re.compile(r"(?:[^/@]*@)?(?P<host>[^/:@]+):/*(?P<path>.+)")
_USUAL_PORT = re.compile(r":(?:22|80|443|9418)?$")


def build_spec_id(paths: Sequence[Path], *, named: Mapping[Path, str], hostname: str) -> str:
    """The id. `named` holds the names that `_defaults.yaml` files give, by their folder made whole."""
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
    """The address of the remote `origin`, without scheme and user; None where there is none."""
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
    """One spelling for all ways to reach a repository: `git@host:a/b.git` and `https://user:token@host/a/b`."""
    found = _WITH_SCHEME.fullmatch(url) or _LIKE_SCP.fullmatch(url)
    if found is None:
        return url.rstrip("/").removesuffix(".git")
    host = _USUAL_PORT.sub("", found["host"]).lower()
    return f"{host}/{found['path'].rstrip('/').removesuffix('.git')}"


def _find_config(git: Path) -> Path | None:
    """The config of a repository. In a second work tree `.git` is a file that says where the rest is."""
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
