"""`python -m tools.audit [--report FILE]`: run pip-audit on the lock, and count what it really audited.

pip-audit skips a package that its service doesn't know, and still exits with 0 and "No known vulnerabilities found".
Behind a mirror without advisories that is every package. So this check compares the audited packages with the locked
ones. Exit codes: 0 all locked packages were audited and none is vulnerable, 1 a vulnerability is known, 2 not audited.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "locks" / "all.txt"
VULNERABLE_EXIT, NOT_AUDITED_EXIT = 1, 2
_TIMEOUT_SECONDS = 600
_PIN = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)==(?P<version>[^\s;\\]+)(?:\s*;\s*(?P<marker>[^\\]+?))?\s*\\?")


@dataclass(frozen=True, slots=True, order=True)
class Pin:
    """A locked package."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Audit:
    """What a report of pip-audit says: the audited packages, and `NAME VERSION: ID` of each known vulnerability."""

    audited: frozenset[Pin]
    vulnerabilities: tuple[str, ...]


def read_pins(text: str) -> tuple[frozenset[Pin], int]:
    """Read the pins of a lock: those for this platform, and the number of the others."""
    pins: set[Pin] = set()
    others = 0
    for line in text.splitlines():
        found = _PIN.fullmatch(line)
        if found is None:
            continue
        if found["marker"] and not Marker(found["marker"]).evaluate():
            others += 1
        else:
            pins.add(Pin(canonicalize_name(found["name"]), found["version"]))
    return frozenset(pins), others


def read_report(report: Mapping[str, Any]) -> Audit:
    """Read pip-audit's JSON. A skipped package has a `skip_reason` and was not audited."""
    audited: set[Pin] = set()
    vulnerabilities: list[str] = []
    for found in report["dependencies"]:
        if "skip_reason" in found or "vulns" not in found:
            continue
        audited.add(Pin(canonicalize_name(found["name"]), found["version"]))
        vulnerabilities += [f"{found['name']} {found['version']}: {one['id']}" for one in found["vulns"]]
    return Audit(frozenset(audited), tuple(vulnerabilities))


def print_result(pins: frozenset[Pin], others: int, audit: Audit, *, reason: str = "") -> int:
    """Print the counts and what was found; return the exit code."""
    missing = pins - audit.audited
    done = len(pins) - len(missing)
    word = "not audited" if missing or not pins else "audited"
    print(
        f"{word}: {done} of {len(pins)} locked packages, {len(audit.vulnerabilities)} known vulnerabilities in these "
        f"({others} more are locked for other platforms)"
    )
    if reason:
        print(f"cause: {reason}")
    for line in audit.vulnerabilities:
        print(f"vulnerable: {line}")
    if audit.vulnerabilities:
        return VULNERABLE_EXIT
    return NOT_AUDITED_EXIT if word == "not audited" else 0


def run_pip_audit(program: str, lock: Path) -> Mapping[str, Any]:
    """Run pip-audit and return its report. It exits with 1 where it knows a vulnerability."""
    command = [program, "--requirement", str(lock), "--require-hashes", "--disable-pip", "--format", "json"]
    done = subprocess.run(
        [*command, "--progress-spinner", "off"], capture_output=True, text=True, check=False, timeout=_TIMEOUT_SECONDS
    )
    report: Mapping[str, Any] = json.loads(done.stdout)
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the check and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.audit", description="Audit the locked packages.")
    parser.add_argument("--report", type=Path, metavar="FILE", help="read pip-audit's JSON from FILE, run nothing")
    parser.add_argument(
        "--lock", type=Path, default=LOCK, metavar="FILE", help="lock to audit (default: locks/all.txt)"
    )
    options = parser.parse_args(arguments)
    pins, others = read_pins(options.lock.read_text())
    nothing = Audit(frozenset(), ())
    program = shutil.which("pip-audit")
    if options.report is None and program is None:
        return print_result(pins, others, nothing, reason="pip-audit is not installed")
    try:
        report = json.loads(options.report.read_text()) if options.report else run_pip_audit(str(program), options.lock)
        audit = read_report(report)
    except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError) as error:
        return print_result(pins, others, nothing, reason=f"pip-audit gave no report: {type(error).__name__}")
    return print_result(pins, others, audit, reason="" if pins <= audit.audited else "pip-audit skipped the others")


if __name__ == "__main__":
    sys.exit(main())
