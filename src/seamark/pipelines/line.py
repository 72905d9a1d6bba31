"""The command line of spark-submit."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from seamark.pipelines.submission import Submission


def render_line(run: Submission) -> str:
    """One command for a shell, a line for each option."""
    return " \\\n  ".join(("spark-submit", *_build_parts(run))) + "\n"


def _build_parts(run: Submission) -> Iterator[str]:
    if run.master is not None:
        yield shlex.join(("--master", run.master))
    yield shlex.join(("--archives", run.archives))
    if run.jars:
        yield shlex.join(("--jars", ",".join(run.jars)))
    if run.packages:
        yield shlex.join(("--packages", ",".join(run.packages)))
    for key, value in run.settings.items():
        yield shlex.join(("--conf", f"{key}={value}"))
    yield shlex.join((run.program, *run.build_arguments(run.files, is_once=run.is_once)))
