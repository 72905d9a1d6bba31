"""Run Vale, the prose linter, with the list of `words.yml` over the documentation."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.words.hits import ExemptWord, Hit, WordList, find_hits, is_exempt
from tools.words.texts import TextKind, parse_page

NOT_CHECKED_EXIT = 2
PAGES = ("docs", "examples", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
_CANARY = "The connector is mended by itself, and nobody reports that it is no source.\n"
# 5 s for 80 pages on two busy cores.
_TIMEOUT_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of Vale."""

    path: str
    line: int
    column: int
    found: str
    message: str


class ValeError(Exception):
    """Vale ran and gave no usable result."""


def read_findings(report: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Finding]:
    """Read Vale's JSON: a list of findings for each file that has one."""
    return sorted(
        (
            Finding(path, one["Line"], one["Span"][0], one["Match"], one["Message"])
            for path, found in report.items()
            for one in found
        ),
        key=lambda one: (one.path, one.line, one.column),
    )


def drop_exempt(
    findings: Iterable[Finding], exceptions: Sequence[ExemptWord], *, words: WordList
) -> tuple[Finding, ...]:
    """Leave out the findings that an exception is for. Vale itself can only turn a whole rule off for a file."""
    return tuple(one for one in findings if not _is_exempt(one, exceptions, words=words))


def _is_exempt(finding: Finding, exceptions: Sequence[ExemptWord], *, words: WordList) -> bool:
    matching = [word for word, pattern in words.patterns.items() if pattern.fullmatch(finding.found)]
    hits = [Hit(finding.path, finding.line, TextKind.DOCS, finding.found, word) for word in matching]
    return any(is_exempt(hit, exceptions) for hit in hits)


def run_vale(program: str, paths: Sequence[str], *, root: Path, text: str | None = None) -> list[Finding]:
    """Run Vale on files and folders, or on a text, and return what it finds.

    Raises:
        ValeError: it ended with an error, which is not the same as a finding.
    """
    command = [program, "--config", ".vale.ini", "--no-exit", "--output=JSON"]
    command += ["--ext=.md"] if text is not None else paths
    done = subprocess.run(
        command, cwd=root, input=text, capture_output=True, text=True, check=False, timeout=_TIMEOUT_SECONDS
    )
    try:
        if done.returncode:
            raise ValeError(f"Vale ended with {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
        return read_findings(json.loads(done.stdout))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValeError(f"Vale's report can't be read: {type(error).__name__}") from None


def check_pages(root: Path, words: WordList, exceptions: Sequence[ExemptWord]) -> int:
    """Print the findings in the documentation; return the exit code.

    Returns:
        0 if Vale found nothing; 1 if it found a word, failed, or doesn't find the words of a known text; 2 if it
        isn't installed.
    """
    program = shutil.which("vale")
    if program is None:
        print("not checked: Vale is not installed\nhint: run .ci/setup lint, which builds it with Go")
        return NOT_CHECKED_EXIT
    try:
        # A Vale that has not loaded the list finds nothing anywhere, and would pass.
        expected = {hit.found for hit in find_hits([parse_page("canary.md", _CANARY)], words)}
        if {one.found for one in run_vale(program, (), root=root, text=_CANARY)} != expected:
            print(f"failed: Vale doesn't find {', '.join(sorted(expected))} in a text that contains them")
            return 1
        findings = run_vale(program, [page for page in PAGES if (root / page).exists()], root=root)
    except (ValeError, OSError, subprocess.SubprocessError) as error:
        print(f"failed: {error}")
        return 1
    shown = drop_exempt(findings, exceptions, words=words)
    for one in shown:
        print(f"{one.path}:{one.line}:{one.column}: error: {one.message}")
    print(f"checked by Vale: {len(shown)} errors, {len(findings) - len(shown)} exceptions")
    return 1 if shown else 0
