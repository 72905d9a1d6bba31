"""Where a spec comes from: a value, a path, or several paths."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from seamark.errors import UsageError
from seamark.specs.spec import Spec

SpecSource = Spec | str | Path | Sequence[str | Path]
"""What a plan is made from: a spec, a file or folder, or several of them."""


def read_spec(what: SpecSource, *, allow_python: bool = False) -> Spec:
    """The spec itself, or what the files say."""
    if isinstance(what, Spec):
        return what
    from seamark.specs import load_spec  # noqa: PLC0415

    return load_spec(_build_paths(what), environ=os.environ, allow_python=allow_python)


def build_title(verb: str, what: SpecSource) -> str:
    """The title of the plan, by which the journal's reader knows it."""
    named = f"spec {what.id}" if isinstance(what, Spec) else ", ".join(str(path) for path in _build_paths(what))
    return f"{verb} {named}"


def _build_paths(what: str | Path | Sequence[str | Path]) -> list[Path]:
    given = [what] if isinstance(what, str | Path) else what
    paths = [Path(path).expanduser() for path in given]
    if not paths:
        raise UsageError("no file is named", hint="give files or folders of a spec")
    return paths
