"""Runs a command line twice on the fakes: over FakeConnect for its requests, and in memory for the calls."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.unit.transcripts.over_http import count_scans, serve_over_http
from tools.transcripts.cases import Case, read_cases
from tools.transcripts.player import open_case
from tools.transcripts.tree import SEAMARK, find_command, read_commands
from tools.walk.tracer import Tracer


class MeasureError(Exception):
    """A command line that can't be measured."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one command line did. `requests` and `scans` are counts by request and by topic."""

    command: str
    exit_code: int
    modules: tuple[str, ...]
    functions: int
    returns: int
    requests: Mapping[str, int]
    scans: Mapping[str, int]


def measure(words: Sequence[str]) -> Measurement:
    """Measure a command line of seamark.

    Args:
        words: The words after `seamark`. A command without arguments runs as its first case in the transcripts' file
            does, from which the environment and the setup are taken in any case.

    Raises:
        MeasureError: the words are no command, or the two runs end with different exit codes.
    """
    case = find_case(words)
    # Over HTTP first: it loads all modules and fills the caches, so that the counts don't depend on what ran before.
    served, requests = _count_requests(case)
    with open_case(case) as (env, line):
        scans = count_scans(env)
        with Tracer(SEAMARK) as tracer:
            ended = env.execute(line[1:])
        counted = dict(sorted(scans.items()))
    if ended.code != served.code:
        raise MeasureError(
            f"exit code {ended.code} in memory, and {served.code} over FakeConnect: {served.err}{ended.err}"
        )
    return Measurement(
        shlex.join(line),
        ended.code,
        tuple(sorted(tracer.modules)),
        len(tracer.functions),
        tracer.returns,
        requests,
        counted,
    )


def find_case(words: Sequence[str]) -> Case:
    """Return the case of a command line, with its environment and its setup.

    Raises:
        MeasureError: the words are no command, or no case runs it.
    """
    given = (SEAMARK, *words)
    commands = read_commands()
    try:
        info = find_command(commands, given)
    except ValueError as error:
        raise MeasureError(str(error)) from None
    fitting = [
        case
        for case in read_cases()
        if not (case.is_help or case.is_error or case.down) and find_command(commands, case.words) == info
    ]
    if not fitting:
        raise MeasureError(f"no case runs {info.name}")
    if given != info.path:
        return replace(fitting[0], words=given)
    # A change is applied, and not only planned.
    return next((case for case in fitting if "--yes" in case.words), fitting[0])


def _count_requests(case: Case) -> tuple[Any, dict[str, int]]:
    with open_case(case) as (env, line), serve_over_http(env) as fake:
        ended = env.execute(line[1:])
        return ended, dict(sorted(Counter(fake.asked()).items()))
