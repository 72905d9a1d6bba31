"""One connector in a JSON file, exactly as Connect's REST API takes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seamark.cli.session import Session
from seamark.errors import UsageError

# Connect takes a request of some megabytes; a config has some kilobytes.
_LARGEST_BYTES = 4 * 1024 * 1024
_FILE_REFERENCE = "secret://file/"
_HOW = 'write {"name": "…", "config": {…}}, or the config alone and --name'


@dataclass(frozen=True, slots=True)
class ConnectorFile:
    """What a file says of a connector. `name` and `state` are empty where it does not tell."""

    name: str
    config: Mapping[str, Any] = field(repr=False)
    state: str = ""


def read_connector_file(session: Session, place: str) -> ConnectorFile:
    """Read a file, or standard input for `-`."""
    text = session.stdin.read(_LARGEST_BYTES + 1) if place == "-" else _read_text(Path(place))
    if len(text) > _LARGEST_BYTES:
        raise UsageError(f"{place} is too large for a connector's config")
    body = _parse(text, place=place)
    folder = Path.cwd() if place == "-" else Path(place).expanduser().absolute().parent
    if not isinstance(body.get("config"), dict):
        if "config" in body:
            raise UsageError(f"config in {place} is not a JSON object", hint=_HOW)
        return ConnectorFile("", _settle(body, folder))
    unknown = sorted(body.keys() - {"name", "config", "initial_state"})
    if unknown:
        raise UsageError(f"{place} has keys that Connect does not take: {', '.join(unknown)}", hint=_HOW)
    name, state = body.get("name", ""), body.get("initial_state", "")
    if not isinstance(name, str) or not isinstance(state, str):
        raise UsageError(f"name and initial_state in {place} must be texts", hint=_HOW)
    return ConnectorFile(name, _settle(body["config"], folder), state)


def _settle(config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The config with paths of our own references made whole: they start at the file they stand in."""
    return {key: _settle_value(value, folder) for key, value in config.items()}


def _settle_value(value: Any, folder: Path) -> Any:
    if not isinstance(value, str) or not value.startswith(_FILE_REFERENCE):
        return value
    path = value.removeprefix(_FILE_REFERENCE)
    return value if path.startswith(("/", "~/")) else f"{_FILE_REFERENCE}{folder}/{path}"


def _read_text(path: Path) -> str:
    try:
        with path.expanduser().open(encoding="utf-8") as file:
            return file.read(_LARGEST_BYTES + 1)
    except OSError as error:
        cause = error.strerror or type(error).__name__
        raise UsageError(f"{path} can't be read", cause=cause, hint="give the path of a JSON file, or -") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not text in UTF-8", hint=_HOW) from None


def _parse(text: str, *, place: str) -> dict[str, Any]:
    """The JSON object. Numbers stay as they are spelled: Connect makes texts of them the same way."""
    problem = ""
    body: Any = None
    try:
        body = json.loads(text, parse_int=str, parse_float=str, object_pairs_hook=_refuse_twice)
    except json.JSONDecodeError as error:
        # The parser's own error carries the whole document, secrets and all.
        problem = f"line {error.lineno}, column {error.colno}: {error.msg}"
    except (ValueError, RecursionError) as error:
        problem = str(error) if isinstance(error, _TwiceError) else "it can't be read"
    if not problem and not isinstance(body, dict):
        problem = "it is not a JSON object"
    if problem:
        raise UsageError(f"{place} is not a connector's file", cause=problem, hint=_HOW)
    found: dict[str, Any] = body
    return found


class _TwiceError(ValueError):
    """A key stands twice."""


def _refuse_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _TwiceError(f"the key {key} stands twice")
        found[key] = value
    return found
