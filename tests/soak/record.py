"""The rows of soaks in docs/explanation/reliability.md."""

from __future__ import annotations

import platform
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "reliability.md"


@dataclass(frozen=True)
class Table:
    """A table of the page: the heading above it, what it counts, and the paths below `src/seamark` that it covers.

    `python -m tools.reliability check` compares the rows with what changed in those paths since their commits.
    """

    heading: str
    columns: tuple[str, ...]
    covers: tuple[str, ...] = ()


CHANGES = Table(
    "## Soak runs",
    ("kills", "in mid-change", "stops", "resumes", "killed resumes", "changes", "requests"),
    covers=("changes", "connect"),
)
OFFSETS = Table(
    "## Soak runs of offset changes",
    (
        "kills",
        "killed undos",
        "takeovers",
        "in mid-change",
        "undos",
        "unknown",
        "spoiled",
        "server kills",
        "resumes",
        "slowest resume",
        "changes",
        "requests",
        "delivered",
    ),
    covers=("changes", "connect", "connectors", "groups", "kafka", "lifecycle", "offsets"),
)


def read_commit():
    """The commit, with a + where the product differs from it."""

    def git(*arguments):
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "--", "src") else "")


def build_row(stack, counts, table, *, violations, minutes, seed):
    """One row of a table: date, commit, covered paths, versions, counts, violations, seed."""
    cells = [
        datetime.now(UTC).strftime("%Y-%m-%d"),
        read_commit(),
        ", ".join(table.covers),
        stack.kafka.version,
        stack.connect["connect"].version,
        platform.python_version(),
        f"{minutes:.0f}",
        *(str(counts[column]) for column in table.columns),
        str(violations),
        str(seed),
    ]
    return f"| {' | '.join(cells)} |"


def append_row(row, table, page=PAGE):
    """Put the row at the end of the table under its heading."""
    lines = page.read_text().splitlines()
    begin = lines.index(table.heading) if table.heading in lines else len(lines)
    rows = [number for number in range(begin, len(lines)) if lines[number].startswith("|")]
    # The table ends where the next line is none of its rows.
    end = next((number for number in rows if number + 1 == len(lines) or not lines[number + 1].startswith("|")), None)
    if end is None:
        raise SystemExit(f"{page} has no table under {table.heading!r}; the row is: {row}")
    page.write_text("\n".join([*lines[: end + 1], row, *lines[end + 1 :]]) + "\n")
