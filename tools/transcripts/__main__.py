"""`python -m tools.transcripts record|check [NAME…]`: what the commands print, on the fakes of the unit tier.

`record` writes the transcripts into `tools/transcripts/recorded`, one file per group of commands, and plays the
scenarios of `tests/unit/scenarios` into their own folder. `check` plays everything again and prints a unified diff of
what differs. NAME is the name of a file without its ending, or `scenarios`. Exit codes: 0 if all are equal, 1 if one
differs, 64 wrong use.
"""

from __future__ import annotations

import argparse
import difflib
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from tests.unit.scenarios.playing import play as play_scenario
from tests.unit.scenarios.registry import read_scenarios
from tools.transcripts.cases import Case, read_cases
from tools.transcripts.player import play_all

RECORDED = Path(__file__).parent / "recorded"
SCENARIOS = "scenarios"
USAGE_EXIT = 64


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(USAGE_EXIT, f"error: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = _Parser(prog="python -m tools.transcripts", description="Record what the commands print, and compare.")
    parser.add_argument("command", choices=["record", "check"])
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these files; `scenarios` for the scenarios")
    options = parser.parse_args(arguments)
    known = (*group_cases(), SCENARIOS)
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"no transcripts {', '.join(unknown)}; there are {', '.join(known)}")
    recordings = find_recordings(options.names or known)
    if options.command == "record":
        record(recordings)
        return 0
    return check(recordings)


def group_cases() -> Mapping[str, tuple[Case, ...]]:
    """Return the cases by the name of their file."""
    cases = read_cases()
    return {file: tuple(case for case in cases if case.file == file) for file in dict.fromkeys(c.file for c in cases)}


def find_recordings(names: Sequence[str], folder: Path = RECORDED) -> dict[Path, Callable[[], str]]:
    """Return the files of these names, each with the function that plays its content."""
    groups = group_cases()
    found: dict[Path, Callable[[], str]] = {}
    for name in names:
        if name == SCENARIOS:
            found |= {one.recording: partial(_play_scenario, one) for one in read_scenarios().values()}
        else:
            found[folder / f"{name}.txt"] = partial(play_all, groups[name])
    return found


def record(recordings: Mapping[Path, Callable[[], str]]) -> None:
    """Play and write files."""
    for path, play in recordings.items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(play().encode())


def check(recordings: Mapping[Path, Callable[[], str]]) -> int:
    """Play files again, print what differs, and return the exit code."""
    differing = 0
    for path, play in recordings.items():
        lines = build_diff(path, play())
        differing += bool(lines)
        sys.stdout.writelines(lines)
    print(f"{len(recordings)} files, {differing} differ", file=sys.stderr)
    return 1 if differing else 0


def build_diff(path: Path, played: str) -> list[str]:
    """Return a unified diff from the recorded text to the played one; nothing if they are equal."""
    # As bytes, so that line ends stay as they are.
    recorded = path.read_bytes().decode() if path.exists() else ""
    if recorded == played:
        return []
    return list(
        difflib.unified_diff(
            recorded.splitlines(keepends=True),
            played.splitlines(keepends=True),
            fromfile=f"recorded/{path.name}",
            tofile=f"played/{path.name}",
        )
    )


def _play_scenario(scenario: Any) -> str:
    with tempfile.TemporaryDirectory() as folder:
        text: str = play_scenario(scenario, Path(folder))
    return text


if __name__ == "__main__":
    raise SystemExit(main())
