"""The user's cache of jars and built programs, shared by every checkout and stack."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """Where jars and programs are kept: `$SEAMARK_CACHE`, else the user's cache folder."""
    if chosen := os.environ.get("SEAMARK_CACHE"):
        return Path(chosen)
    from platformdirs import user_cache_path  # noqa: PLC0415

    return user_cache_path("seamark")


def fill(target: Path, build: Callable[[Path], None]) -> Path:
    """Give `target` from the cache; if it is not there, `build` fills a folder that becomes it in one step."""
    with _lock(target):
        if not target.exists():
            beside = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
            try:
                build(beside)
                beside.chmod(0o755)
                beside.rename(target)
            finally:
                shutil.rmtree(beside, ignore_errors=True)
    return target


@contextmanager
def _lock(target: Path) -> Iterator[None]:
    # Two stacks started at once on an empty cache must not fetch the same folder twice.
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{target.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
