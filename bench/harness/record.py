"""The committed history of results: one JSON line for each recorded run."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from bench.harness.definition import BenchError
from bench.harness.result import BenchResult, Strict

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results" / "results.jsonl"


class Machine(Strict):
    """Where it was measured. No name: figures of two machines are never compared."""

    cores: int
    system: str


class Record(BenchResult):
    """A result with what it was measured on."""

    commit: str
    date: str
    versions: dict[str, str]
    machine: Machine


def build_record(result: BenchResult, *, commit: str, date: str, versions: Mapping[str, str]) -> Record:
    """Add commit, date and versions to a result. A wrong result is no measurement and is refused."""
    if result.error is not None:
        raise BenchError(f"not recorded: {result.error}")
    here = {"python": platform.python_version(), "seamark": version("seamark")}
    machine = Machine(cores=os.cpu_count() or 0, system=f"{platform.system()} {platform.machine()}")
    return Record(
        **dict(result), commit=commit, date=date, versions={**here, **dict(sorted(versions.items()))}, machine=machine
    )


def append_record(record: Record, path: Path = RESULTS) -> None:
    """Add one line at the end."""
    with path.open("a", encoding="utf-8") as lines:
        lines.write(record.as_line() + "\n")


def read_records(path: Path = RESULTS) -> tuple[Record, ...]:
    """Every recorded result, oldest first. No file means none."""
    if not path.exists():
        return ()
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(Record.model_validate_json(line) for line in lines if line.strip())


def read_commit(root: Path = ROOT) -> str:
    """The commit that was measured, with `+changes` where the measured code is not what was committed."""
    try:
        commit = _git(root, "rev-parse", "--short=12", "HEAD")
        changes = _git(root, "status", "--porcelain", "--", "src", "bench", ":(exclude)bench/results")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{commit}+changes" if changes else commit


def read_date() -> str:
    """Now, in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True, timeout=30)
    return done.stdout.strip()
