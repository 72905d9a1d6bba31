"""`python -m tools.commits check`: the subjects of commits are `area: imperative summary`, at most 72 characters.

Checked are the commits after BASE, without merges. A shallow clone, or a history in which BASE was rewritten, doesn't
have BASE; then the commits that are newer than BASE are checked, as far as the clone has them. A folder without a
history, such as an unpacked archive, has nothing to check.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The last commit before the rule applies, and when it was committed.
BASE = "a7b80040e1a73b9ae65f3fe989998c260c36d991"
BASE_TIME = "2026-11-18T04:34:41Z"
MOST_CHARACTERS = 72
_SUBJECT = re.compile(r"(?P<areas>[a-z0-9_.-]+(?:, [a-z0-9_.-]+)*): (?P<verb>[a-z][a-z-]*),?(?: \S.*)?")
# What "fixed", "fixing" and "fixes" end with. A verb may end like that, too.
_NOT_IMPERATIVE = re.compile(r"(?:ed|ing|[^s]s)$")
_VERBS = {"bias", "bring", "embed", "exceed", "feed", "focus", "need", "ping", "proceed", "seed", "speed", "string"}


def find_problem(subject: str) -> str | None:
    """Return what is wrong with a subject, or None.

    Args:
        subject: the first line of a commit's message.

    Returns:
        The problem as part of a sentence.
    """
    if len(subject) > MOST_CHARACTERS:
        return f"has {len(subject)} characters, more than {MOST_CHARACTERS}"
    match = _SUBJECT.fullmatch(subject)
    if match is None:
        return "isn't of the form 'area: imperative summary'"
    verb = match["verb"]
    if _NOT_IMPERATIVE.search(verb) and verb not in _VERBS:
        return f"begins with '{verb}', which isn't an imperative"
    if subject.endswith("."):
        return "ends with a full stop"
    return None


def read_subjects(root: Path = ROOT, *, base: str = BASE, base_time: str = BASE_TIME) -> Iterator[tuple[str, str]]:
    """Read the short hash and the subject of each commit that the rule applies to, the newest first."""
    if not _git(root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"):
        return
    has_base = _git(root, "merge-base", base, "HEAD") is not None
    selection = [f"^{base}"] if has_base else [f"--since={base_time}"]
    log = _git(root, "log", "--no-merges", "--format=%h %s", "HEAD", *selection) or ""
    for line in log.splitlines():
        commit, _, subject = line.partition(" ")
        yield commit, subject


def check_subjects(root: Path = ROOT, *, base: str = BASE, base_time: str = BASE_TIME) -> int:
    """Print each commit with a wrong subject, and return the exit code."""
    failed = False
    for commit, subject in read_subjects(root, base=base, base_time=base_time):
        if problem := find_problem(subject):
            failed = True
            print(f"commit {commit}: the subject {problem}: {subject}", file=sys.stderr)
    return 1 if failed else 0


def _git(root: Path, *arguments: str) -> str | None:
    """Return what git prints, or None if it fails."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.commits", description="Check the subjects of commits.")
    parser.add_argument("command", choices=["check"])
    parser.parse_args(arguments)
    return check_subjects()


if __name__ == "__main__":
    sys.exit(main())
