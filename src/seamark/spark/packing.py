"""An archive of what executors need, for clusters where nothing can be installed.

It holds the packages of this environment as they are, without Spark itself, which a cluster has. Executors unpack it
and find it by PYTHONPATH; their Python must be of the same version and platform as this one. Beside it is the program
for a driver that has nothing installed either.
"""

from __future__ import annotations

import gzip
import importlib.util
import os
import platform
import re
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from typing import IO

from seamark.errors import ConfigurationError, format_install_hint

FOLDER = "seamark-env"
"""The folder that an executor unpacks the archive to."""
ARCHIVE = f"{FOLDER}.tar.gz"
PROGRAM = "seamark-main.py"
"""The program for spark-submit that is seamark's command line in a driver."""

GATEWAY_VARIABLE = "PYSPARK_GATEWAY_PORT"
"""Spark sets it for a driver that spark-submit has started."""
ENVIRONMENT_VARIABLE = "SEAMARK_SPARK_ENVIRONMENT"
"""The program above sets it: where the archive is unpacked on the driver's machine."""


@dataclass(frozen=True, slots=True)
class SubmitOption:
    """One option of spark-submit and its value."""

    option: str
    value: str

    def __str__(self) -> str:
        """As it stands on a command line."""
        return f"{self.option} {self.value}"


@dataclass(frozen=True, slots=True)
class SparkPack:
    """The archive, what is in it, the Python it is for, the jars of Spark's own sources, and the driver's program."""

    archive: str
    packages: tuple[str, ...]
    python: str
    jars: tuple[str, ...] = ()
    program: str = ""

    @property
    def submit_options(self) -> tuple[SubmitOption, ...]:
        """What to give to spark-submit. On YARN in cluster mode, the driver gets the archive too."""
        options = [
            SubmitOption("--archives", f"{self.archive}#{FOLDER}"),
            SubmitOption("--conf", f"spark.executorEnv.PYTHONPATH={FOLDER}"),
            SubmitOption("--conf", f"spark.yarn.appMasterEnv.PYTHONPATH={FOLDER}"),
        ]
        if self.jars:
            options.append(SubmitOption("--jars", ",".join(self.jars)))
        return tuple(options)


# What a cluster's Spark brings along.
_OF_SPARK = frozenset({"pyspark", "py4j", "delta-spark"})
_ROOTS = ("seamark", "pyarrow")
# Of extras: what a landing needs, where it is installed.
_MORE = ("psycopg", "psycopg-binary", "deltalake")
_OWN_PACKAGES = ("seamark", "pyspark_seamark")
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?P<rest>.*)")


def pack_environment(folder: Path, *, jars: Path | None = None) -> SparkPack:
    """Write the archive into a folder; `jars` is a folder of jars to be named with it."""
    named = tuple(str(jar.absolute()) for jar in sorted(jars.glob("*.jar"))) if jars is not None else ()
    if jars is not None and not named:
        raise ConfigurationError(f"folder {jars} contains no jars", hint="pass the folder that contains them")
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    found = {found.metadata["Name"]: found for found in _find_all()}
    archive = folder / ARCHIVE
    beside = folder / f"{ARCHIVE}.new"
    with beside.open("wb") as raw:
        _write(raw, list(found.values()))
    beside.replace(archive)
    program = folder / PROGRAM
    program.write_bytes((files("seamark.spark") / "driver_main.py").read_bytes())
    return SparkPack(
        str(archive),
        packages=tuple(sorted(f"{name}=={one.version}" for name, one in found.items())),
        python=_describe_python(),
        jars=named,
        program=str(program),
    )


def _describe_python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor} {platform.system().lower()} {platform.machine()}"


def _write(raw: IO[bytes], distributions: Sequence[Distribution]) -> None:
    # No times in it: the same packages give the same bytes, and the cluster's cache knows them.
    with (
        gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="", compresslevel=6) as packed,
        tarfile.open(mode="w", fileobj=packed) as tar,
    ):
        for name, file in sorted(_list_files(distributions)):
            entry = tar.gettarinfo(file, arcname=name)
            entry.uid = entry.gid = entry.mtime = 0
            entry.uname = entry.gname = ""
            with file.open("rb") as data:
                tar.addfile(entry, data)


def _list_files(distributions: Sequence[Distribution]) -> Iterator[tuple[str, Path]]:
    for found in distributions:
        if found.metadata["Name"] == "seamark":
            yield from _list_own()
            continue
        for file in found.files or ():
            path = Path(str(found.locate_file(file)))
            # Programs of a package stand outside of the folder of packages.
            if ".." not in file.parts and path.suffix != ".pyc" and path.is_file():
                yield str(file), path


def _list_own() -> Iterator[tuple[str, Path]]:
    # seamark may be installed in place, where its files are not listed.
    for package in _OWN_PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            continue
        root = Path(spec.origin).parent
        for path in root.rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                yield str(Path(package) / path.relative_to(root)), path


def _find_all() -> Iterator[Distribution]:
    """The distributions that the sink needs, with what they need themselves."""
    waiting, seen = [*_ROOTS, *filter(_is_installed, _MORE)], set(_OF_SPARK)
    while waiting:
        name = waiting.pop()
        if _normal(name) in seen:
            continue
        seen.add(_normal(name))
        try:
            found = distribution(name)
        except PackageNotFoundError:
            raise ConfigurationError(
                f"package {name} is not installed on this machine", hint=format_install_hint("spark")
            ) from None
        yield found
        waiting += _needs(found)


def _needs(found: Distribution) -> Iterator[str]:
    for line in found.requires or ():
        match = _REQUIREMENT.match(line)
        # Extras were not asked for; what is for another Python or platform is not installed.
        if match and "extra" not in match["rest"] and _is_installed(match["name"]):
            yield match["name"]


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pack_for_spark(folder: Path, *, jars: Path | None = None) -> SparkPack:
    """Write the archive into a folder. `jars` is a folder of jars for Spark's own sources, to be named with it."""
    return pack_environment(folder, jars=jars)


_PATH = "spark.executorEnv.PYTHONPATH"


def read_submitted() -> dict[str, str] | None:
    """The settings that spark-submit gave to this process; None where it did not start it."""
    if GATEWAY_VARIABLE not in os.environ:
        return None
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415

    # The settings are in the JVM, which opening a session would start next anyway.
    SparkContext._ensure_initialized()  # noqa: SLF001
    return dict(SparkConf().getAll())


def build_paths(given: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Where Python's processes on the driver's machine find the archive, behind where those of executors do."""
    here = environ.get(ENVIRONMENT_VARIABLE)
    if not here:
        return {}
    return {_PATH: os.pathsep.join(path for path in (given.get(_PATH), here) if path)}
