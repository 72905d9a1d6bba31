"""`python -m tools.reliability check`: the runs on the reliability page are not older than the code allows.

Every table of `docs/explanation/reliability.md` whose first column is `date` lists runs. Each row names its `commit`
and what it `covers`: paths below `src/seamark`. The check fails if more than 5,000 lines of those paths were added or
deleted since that commit. Renamed and moved files count with their edited lines only. Tables under "Outdated runs" are
not checked.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "explanation" / "reliability.md"
PACKAGE = "src/seamark"
MOST_LINES = 5_000
OUTDATED = "## Outdated runs"


@dataclass(frozen=True, slots=True)
class Run:
    """One row of a table of runs; `line` is its line on the page."""

    line: int
    commit: str
    covers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileChange:
    """How many lines of one file changed; `paths` are its old and its new name."""

    lines: int
    paths: tuple[str, ...]


class RunError(ValueError):
    """A row whose commit or paths can't be used."""


def read_runs(text: str) -> tuple[Run, ...]:
    """Read the rows that the check is about.

    Raises:
        RunError: a table of runs lacks a column.
    """
    runs: list[Run] = []
    header: list[str] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if line == OUTDATED:
            break
        if not line.startswith("|"):
            header = None
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if header is None:
            header = cells
            if cells[0] == "date" and not {"commit", "covers"} <= set(cells):
                raise RunError(f"line {number}: a table of runs needs the columns commit and covers")
        elif header[0] == "date" and not set(line) <= set("|-: "):
            runs.append(_build_run(number, dict(zip(header, cells, strict=False))))
    return tuple(runs)


def _build_run(line: int, cells: dict[str, str]) -> Run:
    covers = tuple(cells.get("covers", "").replace(",", " ").split())
    commit = cells.get("commit", "").removesuffix("+")
    if not commit or not covers:
        raise RunError(f"line {line}: the row names no commit or covers nothing")
    return Run(line, commit, covers)


def count_changes(changes: Iterable[FileChange], covers: Sequence[str]) -> int:
    """Return how many lines of the covered paths changed. A file counts if the run's commit has it below such a path.

    The name that a file has now doesn't count: a package may have had another meaning then, as `pipelines` had.
    """
    return sum(change.lines for change in changes if _is_covered(change.paths[0], covers))


def _is_covered(path: str, covers: Sequence[str]) -> bool:
    return any(path == one or path.startswith(f"{one}/") for one in (f"{PACKAGE}/{cover}" for cover in covers))


@cache
def read_changes(root: Path, commit: str) -> tuple[FileChange, ...]:
    """Read which lines of the package changed between a commit and the working tree."""
    # The whole package is compared, because a file that moved in from another folder is no new file.
    output = _git(root, "diff", "--numstat", "-z", "-M", "-l0", commit, "--", PACKAGE)
    return tuple(parse_numstat(output))


def parse_numstat(output: str) -> list[FileChange]:
    """Parse `git diff --numstat -z`: a renamed file has an empty path, then its old and its new name."""
    fields = output.split("\0")
    changes: list[FileChange] = []
    at = 0
    while at < len(fields) and fields[at]:
        added, deleted, path = fields[at].split("\t", 2)
        paths = (path,) if path else (fields[at + 1], fields[at + 2])
        at += 1 if path else 3
        # Binary files have no lines.
        lines = 0 if added == "-" else int(added) + int(deleted)
        changes.append(FileChange(lines, paths))
    return changes


def check_run(run: Run, root: Path = ROOT) -> int:
    """Return how many lines changed since a run.

    Raises:
        RunError: the commit is unknown, a path didn't exist then, or too many lines changed.
    """
    try:
        _git(root, "cat-file", "-e", f"{run.commit}^{{commit}}")
    except subprocess.CalledProcessError:
        raise RunError(f"line {run.line}: this clone has no commit {run.commit}") from None
    for cover in run.covers:
        if not _git(root, "ls-tree", "--name-only", run.commit, f"{PACKAGE}/{cover}"):
            raise RunError(f"line {run.line}: commit {run.commit} has no {PACKAGE}/{cover}")
    lines = count_changes(read_changes(root, run.commit), run.covers)
    if lines > MOST_LINES:
        raise RunError(
            f"line {run.line}: {lines:,} lines of {', '.join(run.covers)} changed since {run.commit}, "
            f"more than {MOST_LINES:,}; repeat the run, or move its row to '{OUTDATED.removeprefix('## ')}'"
        )
    return lines


def check_page(page: Path = PAGE, root: Path = ROOT) -> int:
    """Check every row of the page, print each with its count, and return the exit code."""
    failed = False
    try:
        runs = read_runs(page.read_text())
    except RunError as error:
        print(f"{page.name}: {error}", file=sys.stderr)
        return 1
    for run in runs:
        try:
            print(f"{page.name}:{run.line}: {check_run(run, root):,} lines changed since {run.commit}")
        except RunError as error:
            failed = True
            print(f"{page.name}: {error}", file=sys.stderr)
    return 1 if failed else 0


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.reliability", description="Check the reliability page.")
    parser.add_argument("command", choices=["check"])
    parser.parse_args(arguments)
    return check_page()


if __name__ == "__main__":
    sys.exit(main())
