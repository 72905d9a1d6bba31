"""Download jars by Maven coordinates, each with its SHA-256 in a committed file.

The POM files in `coordinates/` have the coordinates; `jars.sha256` there lists every file that Maven downloads for
them, with its checksum. A jar that is missing, changed or extra is rejected by name.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from seamark.devstack.stack import KAFKA_VERSION, SPARK_VERSION
from seamark.errors import DevstackError


def cache_folder() -> Path:
    """Return the folder for jars and programs: `$SEAMARK_CACHE`, else the user's cache folder."""
    if chosen := os.environ.get("SEAMARK_CACHE"):
        return Path(chosen)
    from platformdirs import user_cache_path  # noqa: PLC0415

    return user_cache_path("seamark")


def fill(target: Path, build: Callable[[Path], None]) -> Path:
    """Return `target` from the cache; if it does not exist, `build` fills a folder that is renamed to it."""
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
    # Two stacks started at once with an empty cache must not download the same folder twice.
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{target.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# With an empty cache, Maven took 100 s for the largest set, and Go 130 s for its build on 2 cores; ten minutes mean a
# dead network, not a slow one.
TOOL_DEADLINE_SECONDS = 600


def run_tool(command: Sequence[str], purpose: str, *, env: Mapping[str, str] | None = None) -> str:
    """Run a download tool to its end and return its output."""
    if shutil.which(command[0]) is None:
        raise DevstackError(
            f"{command[0]} is not installed, which is needed to {purpose}",
            hint=f"install {command[0]}, then try again",
        )
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TOOL_DEADLINE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DevstackError(f"could not {purpose}: {command[0]} timed out after {TOOL_DEADLINE_SECONDS} s") from None
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise DevstackError(f"could not {purpose}: {command[0]} ended with exit code {done.returncode}", cause=tail)
    return done.stdout


COORDINATES = Path(__file__).parent / "coordinates"
CHECKSUMS = COORDINATES / "jars.sha256"


def kafka_jars() -> Path:
    """Return the folder with the broker, the tools and the Connect runtime."""
    return read_jars(f"kafka-{KAFKA_VERSION}")


def connect_jars(version: str) -> Path:
    """Return the folder with the Connect runtime of a version."""
    return kafka_jars() if version == KAFKA_VERSION else read_jars(f"connect-{version}")


def spark_jars() -> Path:
    """Return the folder with what Spark needs beside its wheel: Kafka, s3a, PostgreSQL, Delta."""
    return read_jars(f"spark-{SPARK_VERSION}")


def read_jars(name: str) -> Path:
    """Return the folder of a jar set, downloaded if needed, and verified each time."""
    expected = read_checksums().get(name)
    if expected is None:
        known = ", ".join(sorted(read_checksums()))
        raise DevstackError(
            f"no checksums for the jars {name!r}",
            cause=f"known sets: {known}",
            hint=f"create them: python -m seamark.devstack lock-jars {name}",
        )
    folder = fill(cache_folder() / "jars" / name, lambda target: fetch_jars(name, target))
    _check(folder, name=name, expected=expected)
    return folder


def fetch_jars(name: str, target: Path) -> None:
    """Copy a jar set into a folder with Maven."""
    kind, _, version = name.rpartition("-")
    pom, option = {
        "kafka": ("kafka.pom.xml", f"-Dkafka.version={version}"),
        "connect": ("connect.pom.xml", f"-Dkafka.version={version}"),
        "spark": ("spark.pom.xml", f"-Dspark.version={version}"),
        "plugin-jdbc": ("connectors.pom.xml", "-Djdbc"),
        "plugin-s3": ("connectors.pom.xml", "-Ds3"),
        "plugin-debezium": ("connectors.pom.xml", "-Ddebezium"),
    }[kind]
    # A separate local repository would keep the user's clean, but most developers' already have half of these jars.
    command = ["mvn", "-q", "-B", "-f", str(COORDINATES / pom), option, "dependency:copy-dependencies"]
    run_tool([*command, f"-DoutputDirectory={target}"], f"download the jars {name}")


def read_checksums() -> dict[str, dict[str, str]]:
    """Read every known jar set: file name to SHA-256."""
    sets: dict[str, dict[str, str]] = {}
    for line in CHECKSUMS.read_text().splitlines():
        digest, _, path = line.partition("  ")
        name, _, file = path.partition("/")
        sets.setdefault(name, {})[file] = digest
    return sets


def lock_jars(names: list[str]) -> None:
    """Download jar sets again and write their checksums to the committed file."""
    import tempfile  # noqa: PLC0415

    sets = read_checksums() if CHECKSUMS.exists() else {}
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            fetch_jars(name, Path(folder))
            sets[name] = {jar.name: _digest(jar) for jar in sorted(Path(folder).glob("*.jar"))}
    lines = [f"{digest}  {name}/{file}" for name in sorted(sets) for file, digest in sorted(sets[name].items())]
    CHECKSUMS.write_text("\n".join(lines) + "\n")


def _check(folder: Path, *, name: str, expected: dict[str, str]) -> None:
    found = {jar.name: _digest(jar) for jar in folder.glob("*.jar")}
    if found == expected:
        return
    wrong = sorted(file for file in found.keys() | expected.keys() if found.get(file) != expected.get(file))
    raise DevstackError(
        f"the jars {name} don't match their checksums",
        cause=f"missing, changed or extra: {', '.join(wrong[:5])}" + (" …" if len(wrong) > 5 else ""),
        hint=f"remove the folder and try again: {folder}",
    )


def _digest(jar: Path) -> str:
    with jar.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
