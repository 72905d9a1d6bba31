"""What is recorded: the help of each command, and the command lines that follow from `cases.toml`.

A case of the file has these keys:

- `run`: a command line that works. It is recorded with tables and with JSON as output; a command that has `--dry-run`
  or `--yes` with each of them instead. `also` are further lines, treated in the same way.
- `errors`: command lines that fail, recorded as they are; the first one also with JSON as output.
- `down`: servers, of `connect` (the default) and `brokers`. `run` is recorded again with each of them unreachable. The
  last failing run has an option that doesn't exist.
- `environment`: a name of `tests.unit.transcripts.environments`.
- `setup`: command lines that run before and are not recorded themselves.

In every line `{change}`, `{nonce}` and `{copy}` stand for the newest change, its holder's nonce, and the ID of a copy.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tools.transcripts.tree import CONNECT_OFFSETS, CommandInfo, find_command, read_commands

CASES = Path(__file__).parent / "cases.toml"
JSON = ("-o", "json")
DEFAULT_DOWN = ("connect",)


@dataclass(frozen=True, slots=True)
class Case:
    """One command line to record. `words` begin with the program; `down` names an unreachable server.

    An error ends with another exit code than 0.
    """

    words: tuple[str, ...]
    file: str
    environment: str = "fleet"
    setup: tuple[tuple[str, ...], ...] = ()
    down: str = ""
    is_help: bool = False
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class NotRun:
    """A command that is recorded by its help and its errors alone, and why."""

    command: str
    reason: str


def read_cases(path: Path = CASES) -> tuple[Case, ...]:
    """Return all cases, those of one file together: first the help of its commands, then the runs.

    Raises:
        ValueError: a line of the file begins with no command.
    """
    commands = read_commands()
    helps = [_build_help(one) for one in commands]
    runs = [case for entry in _read(path).get("case", ()) for case in _build_cases(entry, commands)]
    found = [*helps, *runs]
    files = dict.fromkeys(case.file for case in found)
    return tuple(case for file in files for case in found if case.file == file)


def read_not_run(path: Path = CASES) -> tuple[NotRun, ...]:
    """Return the commands that can't be run on the fakes."""
    return tuple(NotRun(command, reason) for command, reason in _read(path).get("not-run", {}).items())


def find_uncovered(cases: Sequence[Case], commands: Sequence[CommandInfo]) -> tuple[str, ...]:
    """Return the commands that lack their help or a run."""
    helped = {case.words[:-1] for case in cases if case.is_help}
    run = {find_command(tuple(commands), case.words).path for case in cases if not case.is_help}
    return tuple(one.name for one in commands if one.path not in helped or (not one.is_group and one.path not in run))


def _read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text())


def _build_help(info: CommandInfo) -> Case:
    environment = CONNECT_OFFSETS if info.path == (CONNECT_OFFSETS,) else "fleet"
    return Case((*info.path, "--help"), info.file, environment, is_help=True)


def _build_cases(entry: dict[str, Any], commands: tuple[CommandInfo, ...]) -> Iterator[Case]:
    lines = [tuple(shlex.split(line)) for line in (entry["run"], *entry.get("also", ()))]
    info = find_command(commands, lines[0])
    setup = tuple(tuple(shlex.split(line)) for line in entry.get("setup", ()))
    base = Case(lines[0], info.file, entry.get("environment", "fleet"), setup)
    for words in (words for line in lines for words in _build_runs(line, info)):
        yield from _with_json(replace(base, words=words), info)
    errors = [replace(base, words=tuple(shlex.split(line)), is_error=True) for line in entry.get("errors", ())]
    for number, case in enumerate(errors):
        yield from [case] if number else _with_json(case, info)
    for down in entry.get("down", DEFAULT_DOWN):
        yield replace(base, words=_build_runs(lines[0], info)[-1], down=down)
    yield replace(base, words=(*lines[0], "--no-such-option"), is_error=True)


def _with_json(case: Case, info: CommandInfo) -> Iterator[Case]:
    yield case
    if "--output" in info.options and "-o" not in case.words:
        yield replace(case, words=(*case.words, *JSON))


def _build_runs(words: tuple[str, ...], info: CommandInfo) -> list[tuple[str, ...]]:
    """Add the dry run and the consent where the command has them."""
    if info.path == (CONNECT_OFFSETS,):
        # Its --dry-run is for imports alone.
        return [words]
    switches = [switch for switch in ("--dry-run", "--yes") if switch in info.options and switch not in words]
    if "--yes" not in switches:
        return [words, *((*words, switch) for switch in switches)]
    return [(*words, switch) for switch in switches]
