"""The program of spark-submit: seamark's command line in a driver, where nothing need be installed.

    spark-submit … seamark-main.py pipelines run orders -f pipelines.yaml --yes

`seamark spark pack` puts a copy of this file beside the archive. Where a cluster runs the driver, Spark has unpacked
the archive in the folder that it is started in. Elsewhere this does it once, beside the archive.
"""

from __future__ import annotations

import os
import runpy
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

_FOLDER = "seamark-env"
_VARIABLE = "SEAMARK_SPARK_ENVIRONMENT"


def main() -> None:
    """Run the command line, from the archive."""
    found = find_environment(Path(__file__).resolve().parent, Path.cwd())
    sys.path.insert(0, str(found))
    os.environ[_VARIABLE] = str(found)
    # Not imported above: only now can it be found.
    runpy.run_module("seamark.cli", run_name="__main__")


def find_environment(here: Path, started_in: Path) -> Path:
    """The unpacked archive."""
    unpacked = started_in / _FOLDER
    return unpacked if (unpacked / "seamark").is_dir() else _unpack(here / f"{_FOLDER}.tar.gz")


def _unpack(archive: Path) -> Path:
    try:
        status = archive.stat()
    except OSError as error:
        sys.exit(f"{archive.name} was not found, neither beside this program nor unpacked in this folder: {error}")
    # Named by the archive: a newer one gets a folder of its own, and a driver that still runs keeps its files.
    target = archive.with_name(f"{_FOLDER}-{status.st_mtime_ns}")
    if target.is_dir():
        return target
    beside = Path(tempfile.mkdtemp(prefix=f".{_FOLDER}-", dir=archive.parent))
    try:
        with tarfile.open(archive) as packed:
            packed.extractall(beside, filter="data")
        beside.chmod(0o755)
        beside.rename(target)
    except OSError:
        # Another driver may have been faster.
        if not target.is_dir():
            raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return target


if __name__ == "__main__":
    main()
