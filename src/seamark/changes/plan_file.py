"""Plans as files: whole or not at all, readable by their owner only, without secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seamark.changes.codec import find_masked
from seamark.changes.plan import Plan
from seamark.core.files import PRIVATE, read_limited, write_whole
from seamark.core.sensitive import MASK
from seamark.core.strict import read_json
from seamark.errors import SeamarkError, UsageError

# A plan for ten thousand connectors of fifty keys has some 20 MB.
_LARGEST_BYTES = 64 * 1024 * 1024
# More than any fleet that seamark is built for: a hostile file must end in a refusal, not in a full memory.
_MOST = {"actions": 50_000, "preconditions": 200_000, "notes": 50_000}
# A query or a schema in a config has some hundred kB.
_LONGEST_TEXT = 1 << 20
_LONGEST_HEADER = 10_000
# Files are the only compressed content: each may grow to 64 MiB, and a plan changes the file of one worker.
_MOST_FILES = 4
_FILE_KIND = "write-offset-file"


def write_plan_file(plan: Plan, path: Path) -> None:
    """Write the plan; a file that is there is replaced."""
    write_private(json.dumps(plan.to_file(), indent=2, ensure_ascii=False) + "\n", path, what="the plan")


def write_private(text: str, path: Path, *, what: str) -> None:
    """Write a text into a file that is its owner's alone. `what` names it in an error."""
    try:
        write_whole(text.encode(), path.expanduser().absolute(), mode=PRIVATE)
    except OSError as error:
        raise SeamarkError(
            f"{what} can't be written: {path}",
            cause=error.strerror or type(error).__name__,
            hint="look whether you may write in that folder",
        ) from None


def read_plan_file(path: Path) -> Plan:
    """Read what `write_plan_file` wrote; anything else is refused."""
    return _build_plan(read_limited(path, most_bytes=_LARGEST_BYTES, what="a plan"), path)


def find_hidden(plan: Plan) -> tuple[str, ...]:
    """The secrets that a plan does not hold, as `SUBJECT KEY`. Such a plan can't be applied from a file.

    A way back that lacks one is no hindrance: where it is needed, it fails by name, and the new config stays.
    """
    if plan.actions:
        return tuple(
            f"{action.subject} {key}"
            for action in plan.actions
            if isinstance(config := action.to_dict().get("config"), Mapping)
            for key, value in sorted(config.items())
            if value == MASK
        )
    return tuple(
        f"{step.subject} {key}"
        for step in plan.steps
        if not step.fallback and isinstance(config := step.arguments.get("config"), Mapping)
        for key, value in sorted(config.items())
        if value == MASK
    )


def find_masked_keys(plan: Plan) -> tuple[str, ...]:
    """Return the secrets that a plan lacks because its file doesn't hold them, as `SUBJECT KEY`."""
    if not plan.actions:
        return find_hidden(plan)
    return tuple(f"{action.subject} {key}" for action in plan.actions for key in find_masked(action))


def _build_plan(data: bytes, path: Path) -> Plan:
    problem = ""
    body: Any = None
    try:
        # Strictly: of a key that is there twice, a person may read the first value, and a parser takes the last.
        body = read_json(data, what=str(path))
        problem = _find_excess(body) if isinstance(body, dict) else "it is not a JSON object"
    except UsageError as error:
        problem = error.cause
    if not problem:
        try:
            return Plan.from_file(body, where=str(path))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            problem = f"{type(error).__name__}: {error}"
    raise UsageError(
        f"{path} is not a plan of seamark", cause=problem, hint="make one: seamark connectors … --out FILE"
    )


def _find_excess(body: Mapping[str, Any]) -> str:
    """Return which size of a plan file no plan can have; "" if there is none. Wrong types are refused later."""
    for name, most in _MOST.items():
        found = body.get(name)
        if isinstance(found, list) and len(found) > most:
            return f"it has {len(found):,} {name}, and a plan has at most {most:,}"
    header = [body.get(name) for name in ("title", "context", "made_at", "made_by", "undoes")]
    if any(isinstance(text, str) and len(text) > _LONGEST_HEADER for text in header):
        return f"a text of its header has more than {_LONGEST_HEADER:,} characters"
    actions = [one for one in body.get("actions") or () if isinstance(one, dict)]
    files = [one for one in actions if one.get("action") == _FILE_KIND]
    if len(files) > _MOST_FILES:
        return f"it writes {len(files):,} files, and a plan writes at most {_MOST_FILES}"
    others = [one for one in actions if one.get("action") != _FILE_KIND]
    if not _is_short([others, body.get("notes"), body.get("preconditions")]):
        return f"it has a text of more than {_LONGEST_TEXT:,} characters"
    return ""


def _is_short(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _LONGEST_TEXT
    if isinstance(value, dict):
        return all(map(_is_short, value)) and all(map(_is_short, value.values()))
    return all(map(_is_short, value)) if isinstance(value, list) else True
