"""The row of a soak in docs/reliability.md."""

from __future__ import annotations

import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"
COLUMNS = ("kills", "in mid-change", "stops", "resumes", "killed resumes", "changes", "requests")


def read_commit():
    """The commit, with a + where the product differs from it."""

    def git(*arguments):
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "--", "src") else "")


def build_row(stack, counts, *, violations, minutes, seed):
    """One row of the table: date, commit, versions, counts, violations, seed."""
    cells = [
        datetime.now(UTC).strftime("%Y-%m-%d"),
        read_commit(),
        stack.kafka.version,
        stack.connect["connect"].version,
        platform.python_version(),
        f"{minutes:.0f}",
        *(str(counts[column]) for column in COLUMNS),
        str(violations),
        str(seed),
    ]
    return f"| {' | '.join(cells)} |"


def append_row(row, page=PAGE):
    """Put the row at the end of the page, whose last thing is the table."""
    text = page.read_text().rstrip("\n")
    if not text.endswith("|"):
        raise SystemExit(f"{page} does not end with the table of soak runs; the row is: {row}")
    page.write_text(f"{text}\n{row}\n")
