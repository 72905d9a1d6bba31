"""Plays cases in this process, each in a new environment, and returns what was printed."""

from __future__ import annotations

import io
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from tests.unit.scenarios.environment import open_environment
from tests.unit.transcripts.environments import ENVIRONMENTS, cut_off, find_value, prepare
from tools.transcripts.cases import Case
from tools.transcripts.tree import reset_help_options

# Columns are as wide as the paths in them, so the folder's path has one length on every machine.
_FOLDER_LENGTH = 100


class SetupError(Exception):
    """A command that prepares an environment failed."""


def play_all(cases: Iterable[Case]) -> str:
    """Play cases one after another, and return their transcripts as one text."""
    reset_help_options()
    return "\n".join(play(case) for case in cases)


def play(case: Case) -> str:
    """Play one case, and return its transcript.

    Raises:
        SetupError: a command that prepares it failed.
    """
    with open_case(case) as (env, words):
        notes = [f"after {' '.join(line)}" for line in case.setup]
        if case.down:
            cut_off(env, case.down)
            notes.append(f"unreachable: {case.down}")
        # Click prints help to the process's own output.
        with redirect_stdout(io.StringIO()) as printed:
            ended = env.execute(words[1:])
        ended.out = printed.getvalue() + ended.out
        header = shlex.join(words) + (f"  # {'; '.join(notes)}" if notes else "")
        env.recorder.add_command(header, ended, is_raw=True)
        text: str = env.recorder.text
        return text


@contextmanager
def open_case(case: Case) -> Iterator[tuple[Any, list[str]]]:
    """Open the environment of a case in a folder of its own, run its setup, and give the words of its command line.

    Raises:
        SetupError: a command of the setup failed.
    """
    base = Path(tempfile.mkdtemp(prefix="transcript-")).resolve()
    folder = base / ("_" * (_FOLDER_LENGTH - len(str(base)) - 1))
    try:
        with open_environment(ENVIRONMENTS[case.environment], folder, output="text") as env:
            prepare(env)
            values: dict[str, str] = {}
            for line in case.setup:
                words = _fill(line, env, values)
                ended = env.execute(words[1:])
                if ended.code != 0:
                    raise SetupError(f"{shlex.join(words)}: {ended.err}")
            yield env, _fill(case.words, env, values)
    finally:
        shutil.rmtree(base)


def _fill(words: Sequence[str], env: Any, values: dict[str, str]) -> list[str]:
    """Put IDs in place of `{change}`, `{nonce}` and `{copy}`. What is found once stays, as later commands change it."""
    for name in ("change", "nonce", "copy"):
        if name not in values and any(f"{{{name}}}" in word for word in words):
            values[name] = find_value(env, name)
    return [word.format(**values) if "{" in word and values else word for word in words]
